"""A latency histogram per partition, in memory that grows with the values and not with partitions."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.results.histogram import COUNTS_LENGTH, Histogram, bucket_indices

_PENDING_MAX: Final = 1 << 16


class PartitionLatencies:
    """Sparse counts of (partition, bucket): some hundred buckets of 16 bytes per partition."""

    def __init__(self) -> None:
        self._keys = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._pending: list[NDArray[np.int64]] = []
        self._pending_count = 0

    def record(self, partitions: NDArray[np.int64], values_ns: NDArray[np.int64]) -> None:
        """Record values_ns[i] for partitions[i]; partitions are small numbers from 0."""
        self._pending.append(partitions * COUNTS_LENGTH + bucket_indices(values_ns))
        self._pending_count += len(values_ns)
        if self._pending_count >= _PENDING_MAX:
            self._fold()

    def _fold(self) -> None:
        keys, counts = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *self._pending]), return_counts=True)
        self._keys, positions = np.unique(np.concatenate((self._keys, keys)), return_inverse=True)
        self._counts = np.bincount(
            positions, weights=np.concatenate((self._counts, counts)), minlength=len(self._keys)
        ).astype(np.int64)
        self._pending, self._pending_count = [], 0

    def encode(self) -> dict[int, bytes]:
        """Partition -> Histogram.encode(), for partitions with at least one value."""
        self._fold()
        partitions = self._keys // COUNTS_LENGTH
        return {
            int(partition): Histogram(self._keys[own] - partition * COUNTS_LENGTH, self._counts[own]).encode()
            for partition in np.unique(partitions)
            for own in (partitions == partition,)
        }
