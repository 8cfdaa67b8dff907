"""The last offset of each key in the dirty part of a log, by which compaction decides what to keep.

A hash of 128 bits stands for a key, so each entry takes 24 bytes: an open-addressed table in flat arrays, which needs
the memory that the configuration allows. (Apache Kafka, SkimpyOffsetMap.java.)
"""

from __future__ import annotations

import struct
from array import array
from hashlib import blake2b
from typing import Final

ENTRY_BYTES: Final = 24
_DIGEST: Final = struct.Struct("QQ")


class OffsetMap:
    def __init__(self, slots: int) -> None:
        """A table for fewer than `slots` keys; it has the next prime number of slots."""
        self._slots = _prime_from(max(slots, 3))
        self._first = array("Q", bytes(8 * self._slots))
        self._second = array("Q", bytes(8 * self._slots))
        # An entry is the offset plus one, so that zeroed memory is an empty table.
        self._offsets = array("q", bytes(8 * self._slots))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, offset: int) -> None:
        slot, first, second = self._find(key)
        if self._offsets[slot] == 0:
            if self._count == self._slots - 1:
                raise OverflowError("the offset map is full")
            self._count += 1
            self._first[slot], self._second[slot] = first, second
        self._offsets[slot] = offset + 1

    def get(self, key: bytes) -> int:
        """The last offset that `put` got for the key; −1 if there was none."""
        return self._offsets[self._find(key)[0]] - 1

    def _find(self, key: bytes) -> tuple[int, int, int]:
        """(slot, both halves of the hash): the slot that the key has, or would get."""
        first, second = _DIGEST.unpack(blake2b(key, digest_size=16).digest())
        slots, offsets, firsts, seconds = self._slots, self._offsets, self._first, self._second
        slot = first % slots
        step = 1 + second % (slots - 1)
        while offsets[slot] and (firsts[slot] != first or seconds[slot] != second):
            slot += step
            if slot >= slots:
                slot -= slots
        return slot, first, second


def _prime_from(number: int) -> int:
    """The next prime. With a prime number of slots, steps of any size visit all of them."""
    number |= 1
    while any(number % divisor == 0 for divisor in range(3, int(number**0.5) + 1, 2)):
        number += 2
    return number
