"""Compiles the committed .po files where they are newer than their .mo. In Python: msgfmt is not on every machine."""

import gettext
import os
from pathlib import Path
from typing import Any

import polib
from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils.translation import trans_real


class Command(BaseCommand):
    help = "Compiles locale/**/*.po to .mo where the text is newer."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        changed = False
        for folder in settings.LOCALE_PATHS:
            for source in sorted(Path(folder).glob("*/LC_MESSAGES/*.po")):
                if compile_one(source):
                    changed = True
                    if options["verbosity"]:
                        self.stdout.write(f"{source.relative_to(settings.BASE_DIR)} compiled")
        if changed:
            forget_read()


def forget_read() -> None:
    """Lets this process read the texts anew: what it does next, such as filling the demonstration lab, speaks by them."""
    gettext._translations = {}  # type: ignore[attr-defined]
    trans_real._translations = {}  # type: ignore[attr-defined]
    trans_real._default = None  # type: ignore[attr-defined]


def compile_one(source: Path) -> bool:
    """Writes the .mo beside this .po unless it is up to date; whole or not at all, as other processes may be reading it."""
    target = source.with_suffix(".mo")
    changed = source.stat().st_mtime
    if target.exists() and int(target.stat().st_mtime) == int(changed):  # an image's layers keep whole seconds only
        return False
    new = target.with_suffix(f".mo.{os.getpid()}")
    polib.pofile(str(source)).save_as_mofile(str(new))
    # The same time on both files, not "newer than": a checkout of an older .po must be compiled again as well.
    os.utime(new, (changed, changed))
    new.replace(target)
    return True
