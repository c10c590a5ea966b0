"""Rows of a table that leaves for a spreadsheet or a script."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

# Spreadsheets run a cell that begins so as a formula; the wide forms are read as the plain ones.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
BOM = "\ufeff"  # without it spreadsheets read Chinese names in the machine's old encoding


def csv_lines(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """The rows as lines of CSV, one at a time, the first after a byte order mark. No cell is run as a formula."""
    yield BOM
    line = io.StringIO()
    writer = csv.writer(line)
    for row in rows:
        writer.writerow([harmless(cell) for cell in row])
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def harmless(cell: str) -> str:
    """The cell with an apostrophe before what a spreadsheet would run, in one line, without what cannot be printed."""
    text = "".join(letter if letter.isprintable() else " " for letter in cell)
    return "'" + text if text.lstrip().startswith(_FORMULA) else text
