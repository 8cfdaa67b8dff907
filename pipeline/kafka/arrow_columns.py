"""The buffers of Arrow columns as NumPy arrays, not copied. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from highwater.pipeline.errors import PipelineError

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


class UnwritableError(PipelineError):
    """Rows cannot be records of Kafka."""


def binary_of(name: str, column: Any) -> Any:
    """The column as bytes if it is bytes, text or null. Raises UnwritableError for another type."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    raise UnwritableError(f"the column {name} is {kind}; cast it to binary or string")


def nulls_of(column: Any) -> Bools | None:
    """Which elements are null; None if none is."""
    if not column.null_count:
        return None
    bits = np.frombuffer(column.is_null().buffers()[1], np.uint8)
    return np.unpackbits(bits, bitorder="little")[: len(column)].astype(np.bool_)


def edges_of(column: Any) -> NDArray[np.int32]:
    """Where the elements of an array of bytes or of lists begin, and where the last one ends."""
    if not len(column):
        return np.zeros(1, np.int32)
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def octets_of(column: Any) -> NDArray[np.uint8]:
    """The bytes that the edges of an array of bytes point into."""
    data = column.buffers()[2]
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def ints_of(column: Any) -> Int64s:
    """The numbers of an array of integers or timestamps; anything where they are null."""
    kind = column.type
    width = kind.bit_width // 8
    letter = "u" if pa.types.is_unsigned_integer(kind) else "i"
    values = np.frombuffer(column.buffers()[1], np.dtype(f"{letter}{width}"))
    return values[column.offset : column.offset + len(column)].astype(np.int64)
