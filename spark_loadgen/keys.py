"""Keys of records: decimal numbers as pure functions of (seed, worker, sequence)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen import counter_rng
from highwater.spark_loadgen.records import Keys, RoundRobinKeys, ZipfKeys


def key_numbers(
    keys: Keys, seed: int, producers: int, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Key numbers from 0 to keys.n − 1; with Zipf's distribution 0 is the most frequent."""
    if isinstance(keys, RoundRobinKeys):
        return (sequences * producers + workers) % keys.n
    draws = counter_rng.uniforms(seed, counter_rng.KEYS, workers, sequences)
    if isinstance(keys, ZipfKeys):
        # Inverse of the cumulative distribution; rounding may leave its last value slightly below 1.
        return np.minimum(np.searchsorted(_zipf_cumulated(keys), draws, side="right"), keys.n - 1)
    return (draws * keys.n).astype(np.int64)


@lru_cache(maxsize=1)
def _zipf_cumulated(keys: ZipfKeys) -> NDArray[np.float64]:
    cumulated = np.cumsum(np.arange(1, keys.n + 1, dtype=np.float64) ** -keys.s)
    scaled: NDArray[np.float64] = cumulated / cumulated[-1]
    return scaled


def encode_keys(numbers: NDArray[np.int64], n: int) -> list[bytes]:
    """Keys as decimal digits, all as long as the largest key."""
    width = len(str(n - 1))
    digits = numbers[:, np.newaxis] // 10 ** np.arange(width - 1, -1, -1, dtype=np.int64) % 10 + ord("0")
    # A view as void type, because tolist() then returns one bytes object per key.
    encoded: list[bytes] = digits.astype(np.uint8).view(f"V{width}").ravel().tolist()
    return encoded
