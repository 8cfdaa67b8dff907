"""How often keys come, without their names: counts by a salted hash that never leaves the process. Pure.

All keys are counted exactly up to KEYS_MAX different ones. Beyond that, the rarer half is dropped and only counted
together (lossy counting: Manku, Motwani, VLDB 2002), and the number of different keys is estimated from the smallest
hashes (the k minimum values of Bar-Yossef and others, RANDOM 2002). Both are merged by addition.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.studies.capture.counts import rounded

KEYS_MAX: Final = 400_000
RANKS_MAX: Final = 10_000
"""Ranks whose counts are kept exactly; rarer keys are kept as "so many keys with about so many records"."""
_SMALLEST_MAX: Final = 4096
_HASH_BYTES: Final = 8
_HASHES: Final = 2.0**64


@dataclass(slots=True)
class _Key:
    count: int
    key_bytes: int
    partition: int


@dataclass(frozen=True, slots=True)
class KeyRow:
    """`keys` keys with `count` records each, keys of `key_bytes` bytes, in `partition`."""

    count: int
    key_bytes: int
    partition: int
    keys: int


@dataclass(slots=True)
class KeyCounts:
    """Captures that are to be merged need the same salt, which is a secret of their run."""

    salt: bytes = field(repr=False)
    known: dict[int, _Key] = field(default_factory=dict, repr=False)
    smallest: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False)
    dropped: Counter[tuple[int, int]] = field(default_factory=Counter)
    """Records of keys that were dropped, by size of key and partition."""
    dropped_count_max: int = 0
    """How much too low the count of any key can be."""
    moved: int = 0
    """Records in another partition than the first record of their key."""

    def add(self, keys: Sequence[bytes], partition: int) -> None:
        """Count the keys of records of one partition."""
        if not keys:
            return
        salt = self.salt
        joined = b"".join([blake2b(key, digest_size=_HASH_BYTES, key=salt).digest() for key in keys])
        hashes, firsts, counts = np.unique(np.frombuffer(joined, np.uint64), return_index=True, return_counts=True)
        self._keep_smallest(hashes)
        known = self.known
        for number, first, count in zip(hashes.tolist(), firsts.tolist(), counts.tolist(), strict=True):
            key = known.get(number)
            if key is None:
                known[number] = _Key(count, len(keys[first]), partition)
                continue
            key.count += count
            if key.partition != partition:
                self.moved += count
        if len(known) > KEYS_MAX:
            self._drop_the_rarer_half()

    def merge(self, other: KeyCounts) -> None:
        """Add the counts of `other`. Raises ValueError for another salt."""
        if other.salt != self.salt:
            raise ValueError("key counts with different salts cannot be merged")
        for number, theirs in other.known.items():
            ours = self.known.get(number)
            if ours is None:
                self.known[number] = _Key(theirs.count, theirs.key_bytes, theirs.partition)
            else:
                ours.count += theirs.count
                self.moved += theirs.count if ours.partition != theirs.partition else 0
        self._keep_smallest(other.smallest)
        self.dropped.update(other.dropped)
        self.dropped_count_max += other.dropped_count_max
        self.moved += other.moved
        if len(self.known) > KEYS_MAX:
            self._drop_the_rarer_half()

    def _keep_smallest(self, hashes: NDArray[np.uint64]) -> None:
        if len(self.smallest) == _SMALLEST_MAX:
            hashes = hashes[hashes < self.smallest[-1]]
        if len(hashes):
            self.smallest = np.unique(np.concatenate((self.smallest, hashes)))[:_SMALLEST_MAX]

    def _drop_the_rarer_half(self) -> None:
        least = int(statistics.median_low(key.count for key in self.known.values()))
        for key in self.known.values():
            if key.count <= least:
                self.dropped[key.key_bytes, key.partition] += key.count
        self.known = {number: key for number, key in self.known.items() if key.count > least}
        self.dropped_count_max += least

    @property
    def distinct(self) -> int:
        """The number of different keys: exact up to KEYS_MAX, then an estimate with a standard error of 1.6 %."""
        if not self.dropped:
            return len(self.known)
        estimate = (len(self.smallest) - 1) / (float(self.smallest[-1]) / _HASHES)
        return max(round(estimate), len(self.known))

    def rows(self) -> list[KeyRow]:
        """The popularity of all keys, the most frequent first: nothing of it can be traced to a name."""
        ranked = sorted(self.known.values(), key=lambda key: -key.count)
        rows: Counter[tuple[int, int, int]] = Counter(
            (key.count, key.key_bytes, key.partition) for key in ranked[:RANKS_MAX]
        )
        rare = ranked[RANKS_MAX:]
        counts = rounded(np.array([key.count for key in rare], np.int64)).tolist()
        rows.update((count, key.key_bytes, key.partition) for count, key in zip(counts, rare, strict=True))
        left_keys, left_records = self.distinct - len(ranked), sum(self.dropped.values())
        for (key_bytes, partition), records in self.dropped.items():
            keys = max(1, round(left_keys * records / left_records))
            rows[max(1, round(records / keys)), key_bytes, partition] += keys
        return [KeyRow(*row, keys) for row, keys in sorted(rows.items(), key=lambda item: -item[0][0])]
