from __future__ import annotations

import numpy as np

from highwater.spark_loadgen import counter_rng

INDICES = np.arange(100_000, dtype=np.int64)


def test_numbers_are_spread_evenly() -> None:
    numbers = counter_rng.uniforms(1, counter_rng.KEYS, 0, INDICES)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=100, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 180  # chi-square of 99 degrees of freedom: p = 1e-6
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


def test_seeds_streams_and_workers_are_unrelated() -> None:
    first = counter_rng.uniforms(1, counter_rng.KEYS, 0, INDICES)
    for other in (
        counter_rng.uniforms(2, counter_rng.KEYS, 0, INDICES),
        counter_rng.uniforms(1, counter_rng.ABORTS, 0, INDICES),
        counter_rng.uniforms(1, counter_rng.KEYS, 1, INDICES),
    ):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.02


def test_each_index_may_have_a_worker_of_its_own() -> None:
    workers = INDICES % 3
    mixed = counter_rng.uniforms(7, counter_rng.KEYS, workers, INDICES)
    for worker in range(3):
        chosen = workers == worker
        assert np.array_equal(mixed[chosen], counter_rng.uniforms(7, counter_rng.KEYS, worker, INDICES[chosen]))


def test_the_numbers_are_the_same_for_ever() -> None:
    """Producers and consumers may run on machines with different versions of everything."""
    numbers = counter_rng.uniforms(42, counter_rng.KEYS, 3, np.array([0, 1, 1 << 40], dtype=np.int64))
    assert (numbers * 2**53).astype(np.int64).tolist() == [715953447286082, 7415062748298397, 314329537664538]
