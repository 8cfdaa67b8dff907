"""CSV in which a spreadsheet takes text for text, and not for a formula to run."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@")
_CSV_LINE_END: Final = "\r\n"


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]], line_end: str = "\n") -> str:
    """A line of names, and one for each row; an empty field where a row has no value."""
    lines = [_line(columns)]
    lines += (_line([row.get(column, "") for column in columns]) for row in rows)
    return "".join(line + line_end for line in lines)


def _line(values: Iterable[object]) -> str:
    text = io.StringIO()
    # Python 3.11 quotes a carriage return only where one ends the lines.
    csv.writer(text, lineterminator=_CSV_LINE_END).writerow([_cell(value) for value in values])
    return text.getvalue().removesuffix(_CSV_LINE_END)


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
