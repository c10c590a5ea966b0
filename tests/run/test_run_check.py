"""The checks of `make check` find what they are for, and stay silent otherwise."""

import hashlib
from pathlib import Path

import polib
import pytest

from tests import check

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def findings_of(entries: str) -> list[str]:
    return list(check.untranslated(polib.pofile(HEADER + entries)))


@pytest.mark.parametrize(
    ("entry", "finding"),
    [
        ('msgid "Release"\nmsgstr ""\n', "not translated"),
        ('#, fuzzy\nmsgid "Release"\nmsgstr "释放"\n', "fuzzy"),
        ('msgid "Release"\nmsgstr "Release"\n', "no Chinese"),
        ('msgid "Release 释"\nmsgstr "Release 释"\n', "the same as the source"),
        ('msgid "%(n)s card"\nmsgid_plural "%(n)s cards"\nmsgstr[0] ""\n', "not translated"),
    ],
)
def test_a_translation_that_is_none(entry: str, finding: str) -> None:
    (found,) = findings_of(entry)
    assert finding in found


def test_translations_that_are_right() -> None:
    assert findings_of('msgid "Release"\nmsgstr "释放"\n\nmsgid "GPU"\nmsgstr "GPU"\n\n#~ msgid "Old"\n#~ msgstr ""\n') == []
    assert findings_of('msgid "%(name)s: %(value)s"\nmsgstr "%(name)s：%(value)s"\n') == []  # only punctuation to translate


def test_vendored_files_are_held_to_their_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "VENDOR", tmp_path)
    (tmp_path / "good.js").write_text("1")
    (tmp_path / "changed.js").write_text("2")
    (tmp_path / "unlisted.js").write_text("3")
    right = hashlib.sha256(b"1").hexdigest()
    (tmp_path / "good.LICENSE.txt").write_text("You may.")
    lines = [f"thing 1.0 MIT {right} {name}" for name in ("good.js", "changed.js", "gone.js")]
    (tmp_path / "VERSIONS.txt").write_text("\n".join(["# name version licence sha256 file", *lines, "x"]))
    assert list(check.vendored()) == [
        "changed.js is not the file that was vendored",
        "gone.js is listed but missing",
        "VERSIONS.txt:5: give name, version, licence, sha256 and file",
        "unlisted.js is not listed in VERSIONS.txt",
    ]


def test_addresses_and_large_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "ROOT", tmp_path)
    names = ["requirements.lock", "static/js/a.js", "static/a.svg", "reservations/a.py", "big.bin"]
    monkeypatch.setattr(check, "source_files", lambda: names)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('see "https://example.org/x"\n' if name != "static/a.svg" else '<svg xmlns="http://www.w3.org/2000/svg">')
    (tmp_path / "big.bin").write_bytes(b"0" * (check.LARGEST_FILE + 1))
    assert list(check.addresses()) == ["requirements.lock:1: https://example.org/x", "static/js/a.js:1: https://example.org/x"]
    assert list(check.sizes()) == ["big.bin has 1,000,001 bytes"]


def test_rules_may_import_rules_and_the_standard_library_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "reservations" / "rules").mkdir(parents=True)
    (tmp_path / "reservations" / "rules" / "quota.py").write_text(
        "import datetime\nfrom .week import Week\nfrom reservations.rules import week\n"
        "from django.utils import timezone\nimport orjson\nfrom ..models import Gpu\n"
    )
    assert list(check.pure_rules()) == [
        "reservations/rules/quota.py:4: imports django.utils",
        "reservations/rules/quota.py:5: imports orjson",
        "reservations/rules/quota.py:6: imports ..models",
    ]
