"""Many signed varints at once: how long each is, and their bytes. Pure."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_BITS: Final = 7
_MORE: Final = 0x80
_LIMITS: Final = tuple(np.uint64(1) << np.uint64(_BITS * octets) for octets in range(1, 10))
"""The first number that takes one byte more, for each number of bytes."""


class Varints:
    """Zigzag numbers of 7 bits a byte, the lowest first, as the fields of records are."""

    def __init__(self, value: NDArray[np.int64]) -> None:
        self.value = value
        self._zigzag: NDArray[np.uint64] = ((value << 1) ^ (value >> 63)).view(np.uint64)
        largest = self._zigzag.max(initial=0)
        self._width_max = 1 + sum(bool(largest >= limit) for limit in _LIMITS)
        self.width = np.ones(len(value), np.int64)
        """The bytes of each number."""
        for limit in _LIMITS[: self._width_max - 1]:
            self.width += self._zigzag >= limit

    def write(self, octets: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Write the numbers from the positions `at` on; returns the positions after them."""
        for index in range(self._width_max):
            self._write_byte(octets, at, index)
        return at + self.width

    def _write_byte(self, octets: NDArray[np.uint8], at: NDArray[np.int64], index: int) -> None:
        there: Any = self.width > index
        zigzag, width = self._zigzag, self.width
        if index and not there.all():
            at, zigzag, width = at[there], zigzag[there], width[there]
        bits = (zigzag >> np.uint64(_BITS * index)).astype(np.uint8) & np.uint8(_MORE - 1)
        octets[at + index if index else at] = bits | (width > index + 1).astype(np.uint8) << np.uint8(_BITS)
