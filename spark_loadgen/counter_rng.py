"""A counter-based random number generator: a pure function of (seed, stream, worker, index).

It mixes the counter with the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
Generators, 2014). A generator with state would have to be advanced to each record that a consumer checks.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1

# Each use has its own stream, so that no two choices about a record are correlated.
ARRIVALS_IN_SLICE: Final = 1
ARRIVAL_PLACES: Final = 2
KEYS: Final = 3
ABORTS: Final = 4
HEADERS: Final = 5
_STRATA: Final = 1024
# Added to the stream of a choice, for the order of its strata.
_TURN: Final = 1 << 16
_STEP: Final = 2 << 16


def uniforms(
    seed: int, stream: int, workers: int | NDArray[np.int64], indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1), one for each index. workers: one worker for all indices, or one per index."""
    state = np.full(1, (seed * _GOLDEN_GAMMA + stream) & _MASK, dtype=np.uint64)
    state = _mixed(_mixed(state) + np.atleast_1d(np.asarray(workers)).astype(np.uint64) * np.uint64(_GOLDEN_GAMMA))
    numbers = _mixed(state + (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN_GAMMA))
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


def stratified(
    seed: int, stream: int, workers: int | NDArray[np.int64], indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) of which each 1024 in a row have one in each 1024th, in an order that looks random.

    What is drawn with them comes as often as it should, also in short loads: shares of independent draws would differ
    from load to load by a percentage point in 5000 records.
    """
    blocks, places = indices // _STRATA, indices % _STRATA
    turns, steps = (
        (uniforms(seed, stream + part, workers, blocks) * _STRATA).astype(np.int64) for part in (_TURN, _STEP)
    )
    order = ((places ^ turns) * (2 * steps + 1) + turns) % _STRATA
    return (order + uniforms(seed, stream, workers, indices)) / _STRATA


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))
