"""The answer of a question in one sentence; each figure in its unit, by the name of its column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from highwater.common.units import (
    NONE,
    change_text,
    count_text,
    duration_ns_text,
    percent_text,
    rate_text,
    significant,
    size_text,
)
from highwater.results.metrics import value_text
from highwater.studies.lake.questions import SqlQuestion

Row = Mapping[str, Any]

_FIELD: Final = re.compile(r"\{(?:(first|last|param|lake)\.)?(\w+)\}")
_DAY: Final = 10
# Columns whose unit is another column of their row.
_IN_THE_UNIT_OF_THE_ROW: Final = frozenset({"value", "before", "after", "first_value"})
UNIT: Final = "unit"


def sentence(question: SqlQuestion, rows: Sequence[Row], parameters: Mapping[str, str], lake: Mapping[str, int]) -> str:
    """The answer. parameters: as they were given; lake: how many runs and trials it has."""
    text = question.nothing
    if rows:
        fitting = (
            item for item in question.answers if item.column is None or str(rows[0].get(item.column)) == item.value
        )
        text = next(item.text for item in fitting)

    def field(match: re.Match[str]) -> str:
        place, name = match.groups()
        match place:
            case "param":
                return parameters[name]
            case "lake":
                return count_text(lake[name])
            case "first" | "last":
                return cell_text(rows[0 if place == "first" else -1], name)
        return count_text(len(rows)) if name == "rows" else match[0]

    return _FIELD.sub(field, text)


def cell_text(row: Row, column: str) -> str:
    """A value for people: 4100000 in `p99_ns` -> `4.1 ms`."""
    value = row[column]
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value[:_DAY] if column == "time" or column.endswith(("_time", "_utc")) else value
    if not isinstance(value, int | float):
        return str(value)
    if column in _IN_THE_UNIT_OF_THE_ROW and row.get(UNIT):
        return value_text(value, str(row[UNIT]))
    return _number_text(value, column)


def _number_text(value: float, column: str) -> str:
    if column == "change_ratio" or column == "price_ratio":
        return change_text(value)
    for ending, text in (
        ("_ns", duration_ns_text),
        ("_bytes_per_s", lambda size: f"{size_text(size)}/s"),
        ("_per_s", rate_text),
        ("bytes", size_text),
        ("_ratio", percent_text),
    ):
        if column.endswith(ending):
            return text(value)
    return count_text(value) if isinstance(value, int) else significant(value)
