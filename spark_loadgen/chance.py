"""Random numbers by index: number i of a stream is a pure function of (seed, stream, worker, i), on every machine.

A counter is mixed by the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
2014). Generators with a state would have to be wound forward to the record that a consumer happens to look at.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_GOLDEN_GAMMA: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1

# Whatever draws has a stream of its own, so that no two choices about a record are related.
ARRIVALS_IN_SLICE: Final = 1
ARRIVAL_PLACES: Final = 2
KEYS: Final = 3
ABORTS: Final = 4


def uniforms(
    seed: int, stream: int, workers: int | NDArray[np.int64], indices: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Evenly spread over [0, 1). `workers`: one for all indices, or one for each."""
    state = np.full(1, (seed * _GOLDEN_GAMMA + stream) & _MASK, dtype=np.uint64)
    state = _mixed(_mixed(state) + np.atleast_1d(np.asarray(workers)).astype(np.uint64) * np.uint64(_GOLDEN_GAMMA))
    numbers = _mixed(state + (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN_GAMMA))
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return states ^ (states >> np.uint64(31))
