"""CSV in which a spreadsheet takes text for text, and not for a formula to run."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@")


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]], line_end: str = "\n") -> str:
    """A line of names, and one for each row; an empty field where a row has no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end)
    writer.writerow([_cell(column) for column in columns])
    writer.writerows([_cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """A text that may be run as a formula gets an apostrophe before it.

    Spreadsheets leave out blanks and control characters before they look, and read full-width signs as signs.
    """
    if not isinstance(value, str) or _is_number(value):
        return value
    seen = (each for each in unicodedata.normalize("NFKC", value) if not (each.isspace() or _is_control(each)))
    return f"'{value}" if next(seen, "") in _FORMULA_STARTS or _is_control(value[:1]) else value


def _is_control(character: str) -> bool:
    return character != "" and unicodedata.category(character).startswith("C")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
