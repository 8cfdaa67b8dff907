"""The filter of a table: a small grammar over its columns, whose values are never evaluated.

    filter  = { ["-"] ( word | column operator value ) }       all of them must hold; "-" reverses one
    operator = ":" | "=" | "!=" | ">" | ">=" | "<" | "<="      ":" is "contains" of texts, "=" of anything else
    word, value = characters without spaces, or "in quotes"    the value none: not known

A word is searched for in the row's name. Capitals do not matter.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from highwater.common.nearest import did_you_mean
from highwater.common.quantities import DURATION, SIZE, Quantity
from highwater.common.units import NANOSECONDS

Value = str | int | float | bool | None
LONGEST_FILTER: Final = 500
_TERM: Final = re.compile(
    r"\s*(?P<minus>-?)(?:(?P<column>[A-Za-z_][A-Za-z_0-9]*)(?P<operator>!=|>=|<=|[:=<>]))?"
    r'(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+))(?=\s|$)'
)
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ":": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_YES: Final = {"yes": True, "true": True, "no": False, "false": False}


class FilterError(Exception):
    """The filter cannot be read. The text is one sentence for the page."""


class ValueKind(Enum):
    """What a column holds; it decides how values are compared, aligned and written."""

    TEXT = "text"
    NUMBER = "number"
    BYTES = "bytes"
    MILLISECONDS = "milliseconds"
    YES_NO = "yes or no"

    @property
    def is_number(self) -> bool:
        return self in (ValueKind.NUMBER, ValueKind.BYTES, ValueKind.MILLISECONDS)


_PLAIN: Final = {"": 1, "%": 1}
_QUANTITIES: Final = {
    ValueKind.NUMBER: Quantity(_PLAIN, "a number such as 1000"),
    ValueKind.BYTES: Quantity({**_PLAIN, **SIZE.units}, "a number such as 1.5GiB"),
    # Without a unit it is milliseconds, as in CSV and JSON.
    ValueKind.MILLISECONDS: Quantity(
        {**_PLAIN, **{unit: Decimal(size) / NANOSECONDS["ms"] for unit, size in DURATION.units.items()}},
        "a number such as 5min",
    ),
}


@dataclass(frozen=True, slots=True)
class Condition:
    column: str
    """Empty for the row's name."""
    compare: Callable[[Value], bool]


def parse_filter(text: str, columns: Mapping[str, ValueKind]) -> list[Condition]:
    """Raises FilterError."""
    if len(text) > LONGEST_FILTER:
        raise FilterError(f"The filter has {len(text)} characters, but may have at most {LONGEST_FILTER}.")
    conditions: list[Condition] = []
    at = 0
    rest = text.rstrip()
    while at < len(rest):
        match = _TERM.match(rest, at)
        if match is None:
            raise FilterError(f"The filter cannot be read from here on: {rest[at:].strip()[:40]}")
        conditions.append(_condition(match, columns))
        at = match.end()
    return conditions


def matching(
    rows: Iterable[Any], conditions: Sequence[Condition], value: Callable[[str], Callable[[Any], Value]]
) -> list[Any]:
    """The rows for which all conditions hold. `value` returns the reader of a column."""
    kept = list(rows)
    for condition in conditions:
        read, compare = value(condition.column), condition.compare
        kept = [row for row in kept if compare(read(row))]
    return kept


def _condition(match: re.Match[str], columns: Mapping[str, ValueKind]) -> Condition:
    name, literal = match["column"], match["quoted"] if match["quoted"] is not None else match["plain"]
    if name is None:
        return Condition("", _reversed_if(match["minus"], _contains(literal)))
    column = name.lower()
    if column not in columns:
        raise FilterError(
            f"There is no column {name}{did_you_mean(column, columns) or '.'} To search for a word with "
            f"“{match['operator']}” in it, put it into quotes. Columns: {', '.join(columns)}."
        )
    compare = _comparison(column, columns[column], match["operator"], literal, match["quoted"] is not None)
    return Condition(column, _reversed_if(match["minus"], compare))


def _comparison(column: str, kind: ValueKind, sign: str, literal: str, is_quoted: bool) -> Callable[[Value], bool]:
    if literal.lower() == "none" and not is_quoted:
        if sign in (":", "="):
            return lambda value: value is None
        if sign == "!=":
            return lambda value: value is not None
        raise FilterError(f"{column}{sign}none: only : and = and != go with none.")
    if kind is ValueKind.TEXT:
        return _contains(literal) if sign == ":" else _text_comparison(sign, literal.casefold())
    wanted = _literal(column, kind, literal)
    compare = _COMPARED[sign]
    return lambda value: value is not None and compare(value, wanted)


def _contains(literal: str) -> Callable[[Value], bool]:
    folded = literal.casefold()
    return lambda value: isinstance(value, str) and folded in value.casefold()


def _text_comparison(sign: str, wanted: str) -> Callable[[Value], bool]:
    compare = _COMPARED[sign]
    return lambda value: isinstance(value, str) and compare(value.casefold(), wanted)


def _reversed_if(minus: str, compare: Callable[[Value], bool]) -> Callable[[Value], bool]:
    return (lambda value: not compare(value)) if minus else compare


def _literal(column: str, kind: ValueKind, literal: str) -> float | bool:
    if kind is ValueKind.YES_NO:
        if literal.lower() in _YES:
            return _YES[literal.lower()]
        raise FilterError(f"{column} is yes or no, not {literal}.")
    amount = _QUANTITIES[kind].amount(literal.replace(",", "").removeprefix("-"))
    if amount is None:
        raise FilterError(f"{column} is {_QUANTITIES[kind].form}, not {literal}.")
    return -float(amount) if literal.startswith("-") else float(amount)
