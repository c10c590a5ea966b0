"""Committed .po files are compiled by the product itself, where they changed."""

import gettext
import os
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.utils import translation

from reservations.management.commands.compile_translations import compile_one

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "card"\nmsgstr "{}"\n'


def test_compiles_what_changed_and_only_that(tmp_path: Path) -> None:
    source = tmp_path / "django.po"
    source.write_text(PO.format("卡"), encoding="utf-8")
    assert compile_one(source)
    assert _translated(tmp_path) == "卡"
    assert not compile_one(source)
    source.write_text(PO.format("显卡"), encoding="utf-8")
    os.utime(source, (1_000_000, 1_000_000))  # an older text, as after going back to an earlier version
    assert compile_one(source)
    assert _translated(tmp_path) == "显卡"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["django.mo", "django.po"]


def test_the_process_that_compiles_speaks_by_the_new_texts(tmp_path: Path, settings: Any) -> None:
    source = tmp_path / "zh_Hans" / "LC_MESSAGES" / "django.po"
    source.parent.mkdir(parents=True)
    settings.LOCALE_PATHS, settings.BASE_DIR = [str(tmp_path)], tmp_path
    for words in ("卡片甲", "卡片乙"):
        source.write_text(PO.replace('"card"', '"card of the test"').format(words), encoding="utf-8")
        os.utime(source, (1_000_000 + ord(words[-1]), 1_000_000 + ord(words[-1])))
        with translation.override("zh-hans"):
            translation.gettext("card of the test")  # read before: an old text, or none
        call_command("compile_translations", verbosity=0)
        with translation.override("zh-hans"):
            assert translation.gettext("card of the test") == words


def _translated(folder: Path) -> str:
    with (folder / "django.mo").open("rb") as file:
        return gettext.GNUTranslations(file).gettext("card")
