"""Committed .po files are compiled by the product itself, where they changed."""

import gettext
import os
from pathlib import Path

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


def _translated(folder: Path) -> str:
    with (folder / "django.mo").open("rb") as file:
        return gettext.GNUTranslations(file).gettext("card")
