"""Arrow columns as Python values, text and hexadecimal digits, a whole column at once. Pure."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import types as arrow_types

_DIGITS: Final = np.array([int.from_bytes(f"{byte:02x}".encode(), "little") for byte in range(256)], np.dtype("<u2"))


def python_values(column: pa.Array) -> list[Any]:
    """The same values as Python objects."""
    if column.null_count == 0 and (arrow_types.is_integer(column.type) or arrow_types.is_floating(column.type)):
        return list(column.to_numpy().tolist())  # several times as fast as Arrow's own way
    return list(column.to_pylist())


def as_text(column: pa.Array) -> pa.Array:
    """Numbers, decimals, dates and times as ISO writes them. Moments are in UTC, whatever their zone."""
    if arrow_types.is_timestamp(column.type) and column.type.tz is not None:
        column = compute.cast(column, pa.timestamp(column.type.unit, "UTC"))
    return compute.cast(column, pa.string())


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
