"""Arrow columns as Python values, text and hexadecimal digits, a whole column at once. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import types as arrow_types


def days_of(day: str) -> int:
    """Days since 1970 of a day as ISO writes it; the year before 1 is 0, as astronomers count."""
    return int(np.datetime64(day, "D").astype(np.int64))


DAY_MICROSECONDS: Final = 86_400_000_000
_MIDNIGHT: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONTH_AND_DAY: Final = len("-01-01")
_YEAR_MAX: Final = 9999
_FOUR_DIGITS: Final = (days_of("0001-01-01"), days_of("10000-01-01"))
"""The first day that Python and people have, and the first one of a year with more than four digits."""
_DIGITS: Final = np.array([int.from_bytes(f"{byte:02x}".encode(), "little") for byte in range(256)], np.dtype("<u2"))


def python_values(column: pa.Array) -> list[Any]:
    """The same values as Python objects, and as text where Python has none for a date or a time."""
    if has_far_years(column):
        return list(as_text(column).to_pylist())
    if column.null_count == 0 and (arrow_types.is_integer(column.type) or arrow_types.is_floating(column.type)):
        return list(column.to_numpy().tolist())  # several times as fast as Arrow's own way
    return list(column.to_pylist())


def as_text(column: pa.Array) -> pa.Array:
    """Numbers, decimals, dates and times as ISO writes them. Moments are in UTC, whatever their zone.

    A year beyond 9999 has a sign, a year before 0 too.
    """
    if arrow_types.is_timestamp(column.type) and column.type.tz is not None:
        column = compute.cast(column, pa.timestamp(column.type.unit, "UTC"))
    if has_far_years(column):
        return _far_times(column)
    return compute.cast(column, pa.string())


def has_far_years(column: pa.Array) -> bool:
    """Whether dates or times are outside of the years 1 to 9999: Arrow makes wrong texts or no objects of them."""
    if not (arrow_types.is_timestamp(column.type) or arrow_types.is_date32(column.type)):
        return False
    ends = compute.min_max(time_numbers(column)).as_py()
    first, end = (at * (1 if arrow_types.is_date32(column.type) else DAY_MICROSECONDS) for at in _FOUR_DIGITS)
    return any(each is not None and not first <= each < end for each in ends.values())


def time_numbers(column: pa.Array) -> pa.Array:
    """Days or microseconds since 1970."""
    if arrow_types.is_date32(column.type):
        return compute.cast(column, pa.int32())
    return compute.cast(compute.cast(column, pa.timestamp("us", column.type.tz)), pa.int64())


def _far_times(column: pa.Array) -> pa.Array:
    is_date = arrow_types.is_date32(column.type)
    zone = "" if is_date or column.type.tz is None else "Z"
    texts: list[str | None] = []
    for number in time_numbers(column).to_pylist():
        if number is None:
            texts.append(None)
            continue
        days, microseconds = (number, 0) if is_date else divmod(number, DAY_MICROSECONDS)
        day = str(np.datetime64(days, "D"))
        year = int(day[:-_MONTH_AND_DAY])
        signed = f"{year:04}" if 0 <= year <= _YEAR_MAX else f"{year:+05}"
        time = "" if is_date else f" {_MIDNIGHT + timedelta(microseconds=microseconds):%H:%M:%S.%f}{zone}"
        texts.append(f"{signed}{day[-_MONTH_AND_DAY:]}{time}")
    return pa.array(texts, pa.string())


def hexadecimal(column: pa.Array) -> pa.Array:
    """Two digits for each byte of a string or of bytes. Raises OverflowError above 1 GiB in one column."""
    data = compute.cast(column, pa.large_binary())
    _, offsets, values = data.buffers()
    at = np.frombuffer(offsets, np.int64, len(data) + 1, data.offset * 8)
    first, last = int(at[0]), int(at[-1])
    digits = _DIGITS[np.frombuffer(values or b"", np.uint8)[first:last]]
    new_offsets = ((at - first) * 2).astype(np.int64)
    text = pa.LargeStringArray.from_buffers(len(data), pa.py_buffer(new_offsets), pa.py_buffer(digits))
    return compute.if_else(data.is_valid(), text, pa.scalar(None, pa.large_string()))


def enclosed(before: str, column: pa.Array, after: str) -> pa.Array:
    """Each text between two others; null stays null."""
    texts = [pa.scalar(text, pa.large_string()) for text in (before, after, "")]
    return compute.binary_join_element_wise(texts[0], compute.cast(column, pa.large_string()), *texts[1:])


def holds_nan(column: pa.Array) -> bool:
    return arrow_types.is_floating(column.type) and bool(compute.any(compute.is_nan(column)).as_py())


def holds_infinity(column: pa.Array) -> bool:
    return arrow_types.is_floating(column.type) and bool(compute.any(compute.is_inf(column)).as_py())


def holds_nul(column: pa.Array) -> bool:
    """Whether a text has the character 0x00."""
    _, _, data = column.buffers()
    # To look at all bytes at once takes a twentieth of the time of a search in each text.
    may_hold = data is not None and not np.all(np.frombuffer(data, np.uint8))
    return may_hold and bool(compute.any(compute.match_substring(column, "\0")).as_py())
