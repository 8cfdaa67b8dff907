"""Which key a record carries: a pure function of (seed, worker, sequence). A key is a number in decimal."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen import chance
from highwater.spark_loadgen.records import Keys, RoundRobinKeys, ZipfKeys


def key_numbers(
    keys: Keys, seed: int, producers: int, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers from 0 to keys.n − 1; with Zipf's distribution 0 is the commonest."""
    if isinstance(keys, RoundRobinKeys):
        return (sequences * producers + workers) % keys.n
    chances = chance.uniforms(seed, chance.KEYS, workers, sequences)
    if isinstance(keys, ZipfKeys):
        # Inverse of the bounded distribution; rounding may leave the last of the sums a hair below 1.
        return np.minimum(np.searchsorted(_zipf_cumulated(keys), chances, side="right"), keys.n - 1)
    return (chances * keys.n).astype(np.int64)


@lru_cache(maxsize=1)
def _zipf_cumulated(keys: ZipfKeys) -> NDArray[np.float64]:
    cumulated = np.cumsum(np.arange(1, keys.n + 1, dtype=np.float64) ** -keys.s)
    scaled: NDArray[np.float64] = cumulated / cumulated[-1]
    return scaled


def encode_keys(numbers: NDArray[np.int64], n: int) -> list[bytes]:
    """Decimal digits, as many for every key as the largest needs."""
    width = len(str(n - 1))
    digits = numbers[:, np.newaxis] // 10 ** np.arange(width - 1, -1, -1, dtype=np.int64) % 10 + ord("0")
    # As plain memory, which NumPy turns into one bytes object per key.
    encoded: list[bytes] = digits.astype(np.uint8).view(f"V{width}").ravel().tolist()
    return encoded
