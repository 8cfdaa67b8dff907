"""The values of consecutive records of one worker: stamp and body joined, some hundred at a time.

Bodies of one size lie ready behind room for their stamps, which are written in bulk, and the client is shown where they
lie: it copies each value anyway, and a copy of our own would be the larger part of what a record of 1 KiB costs beside
the client. Where sizes vary stamp and body of each record are joined.
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
        """`row_max`: how many are asked for at once."""
        self._content = content
        self._worker = worker
        self._magic = magic
        sizes = set(map(len, content.pool))
        self._rows = _rows(content.pool, row_max, sizes.pop()) if len(sizes) == 1 and 0 not in sizes else None
        # NumPy's scalar of a row with fields is no copy of it.
        self._views = [] if self._rows is None else list(self._rows)

    def of_row(self, first: int, intended_ns: NDArray[np.int64]) -> list[Any]:
        """Of records `first` and following, one for each intended time (ns since T0), as bytes or what reads as such.

        They hold until the next call.
        """
        if self._rows is None:
            stamps = encode_stamps(self._worker, self._magic, first, intended_ns)
            return list(map(add, stamps, self._content.bodies_in_row(self._worker, first, len(stamps))))
        start = self._content.pool_position(self._worker, first)
        end = start + len(intended_ns)
        write_stamps(self._rows["stamp"][start:end], self._worker, self._magic, first, intended_ns)
        return self._views[start:end]


def _rows(bodies: list[bytes], row_max: int, body_bytes: int) -> NDArray[Any]:
    """Room for the stamp, and the body, of the whole pool and of as many more as may follow in one row."""
    count = len(bodies)
    rows = np.zeros(count + row_max, dtype=[("stamp", STAMP), ("body", f"V{body_bytes}")])
    assert rows.dtype.itemsize == STAMP_BYTES + body_bytes
    rows["body"] = np.frombuffer(b"".join(bodies), dtype=f"V{body_bytes}")[np.arange(count + row_max) % count]
    return rows
