"""The values of consecutive records of one worker: stamp and body joined, some hundred at a time.

For bodies of one size there is one array in which each body follows the space for its stamp; stamps are written in
bulk, and the client receives views of that array. The client copies each value anyway, and a second copy would be most
of the generator's own cost of a 1 KiB record. When sizes vary, stamp and body of each record are concatenated.
"""

from __future__ import annotations

from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.stamp import STAMP, STAMP_BYTES, encode_stamps, write_stamps


class Values:
    def __init__(self, content: Content, worker: int, magic: int, row_max: int) -> None:
        """row_max: largest number of values in one call."""
        self._content = content
        self._worker = worker
        self._magic = magic
        sizes = set(map(len, content.pool))
        self._rows = _rows(content.pool, row_max, sizes.pop()) if len(sizes) == 1 and 0 not in sizes else None
        # A NumPy scalar of a structured array is a view of its row, not a copy.
        self._views = [] if self._rows is None else list(self._rows)

    def of_row(self, first: int, intended_ns: NDArray[np.int64]) -> list[Any]:
        """The values of records from `first` on, one for each intended time (ns since T0), as bytes-like objects.

        The values are valid until the next call.
        """
        if self._rows is None:
            stamps = encode_stamps(self._worker, self._magic, first, intended_ns)
            return list(map(add, stamps, self._content.bodies_in_row(self._worker, first, len(stamps))))
        start = self._content.pool_position(self._worker, first)
        end = start + len(intended_ns)
        write_stamps(self._rows["stamp"][start:end], self._worker, self._magic, first, intended_ns)
        return self._views[start:end]


def _rows(bodies: list[bytes], row_max: int, body_bytes: int) -> NDArray[Any]:
    """Rows of stamp and body for the whole pool, and `row_max` more, so that every row of values is contiguous."""
    count = len(bodies)
    rows = np.zeros(count + row_max, dtype=[("stamp", STAMP), ("body", f"V{body_bytes}")])
    assert rows.dtype.itemsize == STAMP_BYTES + body_bytes
    rows["body"] = np.frombuffer(b"".join(bodies), dtype=f"V{body_bytes}")[np.arange(count + row_max) % count]
    return rows
