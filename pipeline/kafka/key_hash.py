"""murmur2 of many keys at once, as Apache Kafka's partitioner computes it (Utils.java, murmur2). Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_R: Final = np.uint32(24)


def murmur2(octets: NDArray[np.uint8], start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int32]:
    """The hash of the `length` bytes at each `start`; of an empty key where the length is negative.

    The partition of a key is `(hash & 0x7fffffff) % partitions`.
    """
    length = np.maximum(length, 0)
    digest = _SEED ^ length.astype(np.uint32)
    words = length // 4
    rows = np.arange(len(start))
    for word in range(int(words.max(initial=0))):
        rows = rows[words[rows] > word]
        at = start[rows] + 4 * word
        k = _word(octets, at, 4) * _M
        k ^= k >> _R
        k *= _M
        digest[rows] = (digest[rows] * _M) ^ k
    rest = length % 4
    for size in (1, 2, 3):
        rows = np.flatnonzero(rest == size)
        at = start[rows] + 4 * words[rows]
        digest[rows] = (digest[rows] ^ _word(octets, at, size)) * _M
    digest ^= digest >> np.uint32(13)
    digest *= _M
    digest ^= digest >> np.uint32(15)
    return digest.view(np.int32)


def _word(octets: NDArray[np.uint8], at: NDArray[np.int64], size: int) -> NDArray[np.uint32]:
    """The `size` bytes at each position as a little-endian number."""
    word = octets[at].astype(np.uint32)
    for index in range(1, size):
        word |= octets[at + index].astype(np.uint32) << np.uint32(8 * index)
    return word
