"""Keys of records as pure functions of (seed, worker, sequence): numbers, decimal where they fit."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.spark_loadgen import counter_rng
from highwater.spark_loadgen.records import NumberedKeys, RoundRobinKeys, ZipfKeys
from highwater.spark_loadgen.traces import TracedKeys

_NULL: Final = -1
_DIGITS_MAX: Final = 18


def key_numbers(
    keys: NumberedKeys,
    seed: int,
    producers: int,
    workers: int | NDArray[np.int64],
    sequences: NDArray[np.int64],
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


def traced_keys(
    keys: TracedKeys, seed: int, workers: int | NDArray[np.int64], sequences: NDArray[np.int64]
) -> tuple[list[bytes | None], list[int]]:
    """The keys of records as a trace has them, None for those without, and the partitions that they belong to."""
    table = keys.table
    draws = counter_rng.stratified(seed, counter_rng.KEYS, workers, sequences)
    row = np.minimum(np.searchsorted(table.cumulated, draws, side="right"), len(table.cumulated) - 1)
    start = np.where(row > 0, table.cumulated[row - 1], 0.0)
    place = (draws - start) / (table.cumulated[row] - start)
    number = table.first_number[row] + np.minimum((place * table.keys[row]).astype(np.int64), table.keys[row] - 1)
    lengths = table.key_bytes[row]
    found = np.empty(len(row), object)
    for length in np.unique(lengths).tolist():
        if length != _NULL:
            at = np.flatnonzero(lengths == length)
            encoded = _keys_of_length(number[at], length, table.keys_of_length[length])
            for position, key in zip(at.tolist(), encoded, strict=True):
                found[position] = key
    partitions: list[int] = table.partition[row].tolist()
    return found.tolist(), partitions


def _keys_of_length(numbers: NDArray[np.int64], length: int, count: int) -> list[bytes]:
    """Decimal digits; bytes where `count` keys of that length need more than digits."""
    if not length:
        return [b""] * len(numbers)
    width = min(length, _DIGITS_MAX)
    if count <= 10**width:
        digits = encode_keys(numbers, 10**width)
        zeros = b"0" * (length - width)
        return [zeros + each for each in digits] if zeros else digits
    return [int(number).to_bytes(8, "big")[-length:] for number in numbers]
