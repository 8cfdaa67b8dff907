"""Refuses values that a column of a table would cut, change or not take, naming the column. Pure."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute

from highwater.pipeline.database import columns as kinds
from highwater.pipeline.database.columns import Column, Rules, TableColumn
from highwater.pipeline.database.values import as_text, holds_infinity, holds_nan, holds_nul, time_numbers
from highwater.pipeline.errors import SettingsError

_TIMES: Final = (kinds.DATE, kinds.TIMESTAMP, kinds.TIMESTAMP_NTZ)
_NUMBERS: Final = (kinds.BYTE, kinds.SHORT, kinds.INTEGER, kinds.LONG, kinds.DECIMAL)
_UUID: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
"""The one spelling of a UUID that databases return, whichever was stored."""
_FILTER: Final = "filter such rows out"


def check_values(database: str, table: str, column: Column, held: TableColumn, rules: Rules, values: pa.Array) -> None:
    """Raises SettingsError, which names the column, for values that `held` of `table` would not give back.

    database: the kind of database, for messages.
    """
    where = f"{held.declared} of table {table}"
    fault = ""
    if values.null_count and not held.is_nullable:
        fault = f"is null in a row, and {where} takes no null: {_FILTER}, or replace null"
    elif column.kind == kinds.STRING:
        fault = _text_fault(database, column, held, where, rules, values)
    elif column.kind == kinds.BINARY:
        fault = _size_fault(held, where, values)
    elif column.kind in (kinds.FLOAT, kinds.DOUBLE):
        fault = _number_fault(database, rules, values)
    elif column.kind in _TIMES or column.kind in _NUMBERS:
        fault = _bounds_fault(column, held, where, rules, values)
    if fault:
        raise SettingsError(f"column {column.name} {fault}")


def _text_fault(database: str, column: Column, held: TableColumn, where: str, rules: Rules, values: pa.Array) -> str:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return (
            "holds bytes that are no UTF-8, which no text column keeps: write the bytes as binary, or "
            f"make_valid_utf8({column.name})"
        )
    if not rules.has_nul and holds_nul(values):
        return (
            f"holds a text with the character 0x00, which {database} does not store: write it as binary, or "
            f"replace({column.name}, char(0), '')"
        )
    if held.type_name == "uuid" and compute.all(compute.match_substring_regex(values, _UUID)).as_py() is False:
        return (
            f"holds a text that {where} would refuse or spell in another way: write lower({column.name}), or use text"
        )
    return _size_fault(held, where, values)


def _size_fault(held: TableColumn, where: str, values: pa.Array) -> str:
    for unit, length_max, length in (
        ("characters", held.characters_max, compute.utf8_length),
        ("bytes", held.bytes_max, compute.binary_length),
    ):
        if length_max is not None:
            longest = compute.max(length(values)).as_py() or 0
            if longest > length_max:
                return (
                    f"holds a value of {longest:,} {unit}, and {where} takes {length_max:,}: shorten it, or alter the "
                    "column"
                )
    return ""


def _number_fault(database: str, rules: Rules, values: pa.Array) -> str:
    for what, is_stored, holds in (
        ("NaN", rules.has_nan, holds_nan),
        ("an infinite number", rules.has_infinity, holds_infinity),
    ):
        if not is_stored and holds(values):
            return f"holds {what}, which {database} does not store: replace it, such as by null"
    return ""


def _bounds_fault(column: Column, held: TableColumn, where: str, rules: Rules, values: pa.Array) -> str:
    bounds = rules.bounds.get(held.type_name)
    if bounds is None and held.precision is None:
        return ""
    is_time = column.kind in _TIMES
    numbers = time_numbers(values) if is_time else values
    ends: dict[str, Any] = compute.min_max(numbers).as_py()
    for each in ends.values():
        if each is not None and not _is_within(each, bounds, held):
            at = compute.index(numbers, pa.scalar(each, numbers.type)).as_py()
            way_out = "write it as text" if is_time else "alter the column to a type that holds it"
            return f"holds {as_text(values.slice(at, 1))[0]}, which {where} does not: {_FILTER}, or {way_out}"
    return ""


def _is_within(number: Any, bounds: tuple[int, int] | None, held: TableColumn) -> bool:
    if bounds is not None:
        return bool(bounds[0] <= number <= bounds[1])
    assert held.precision is not None
    end = Decimal(1).scaleb(held.precision - (held.scale or 0))
    return bool(-end < number < end)
