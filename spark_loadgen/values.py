"""The values of consecutive records of one worker: stamp and body joined, some hundred at a time.

Bodies of one size lie ready behind room for their stamps, which are written in bulk: a third of the cost of joining
stamp and body of each record, which is done where sizes vary.
"""

from __future__ import annotations

from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_loadgen.content import Content
from spark_loadgen.stamp import STAMP, STAMP_BYTES, encode_stamps, write_stamps


class Values:
    def __init__(self, content: Content, worker: int, magic: int) -> None:
        self._content = content
        self._worker = worker
        self._magic = magic
        sizes = set(map(len, content.pool))
        self._rows = _rows(content.pool, sizes.pop()) if len(sizes) == 1 and 0 not in sizes else None

    def of_row(self, first: int, intended_ns: NDArray[np.int64]) -> list[bytes]:
        """Of records `first` and following, one for each intended time (ns since T0)."""
        if self._rows is None:
            stamps = encode_stamps(self._worker, self._magic, first, intended_ns)
            return list(map(add, stamps, self._content.bodies_in_row(self._worker, first, len(stamps))))
        count = len(intended_ns)
        start = self._content.pool_position(self._worker, first)
        rows = self._rows[start : start + count]
        if len(rows) < count:  # past the end of the pool
            rows = self._rows[np.arange(start, start + count) % len(self._rows)]
        write_stamps(rows["stamp"], self._worker, self._magic, first, intended_ns)
        # As plain memory, which NumPy turns into one bytes object per record.
        values: list[bytes] = rows.view(f"V{rows.dtype.itemsize}").tolist()
        return values


def _rows(bodies: list[bytes], body_bytes: int) -> NDArray[Any]:
    rows = np.zeros(len(bodies), dtype=[("stamp", STAMP), ("body", f"V{body_bytes}")])
    assert rows.dtype.itemsize == STAMP_BYTES + body_bytes
    rows["body"] = np.frombuffer(b"".join(bodies), dtype=f"V{body_bytes}")
    return rows
