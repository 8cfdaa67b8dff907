from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_loadgen.schedule import Schedule

SECOND_NS = 1_000_000_000


def test_workers_interleave_evenly() -> None:
    schedule = Schedule(rate_per_s=1000, workers=4, duration_ns=SECOND_NS)
    sequences = np.arange(3, dtype=np.int64)
    everyone = np.sort(np.concatenate([schedule.intended_ns(sequences, worker) for worker in range(4)]))
    assert everyone.tolist() == [1_000_000 * n for n in range(12)]


@given(
    rate=st.floats(0.01, 3e6, allow_nan=False),
    workers=st.integers(1, 64),
    data=st.data(),
)
def test_count_before_is_the_inverse_of_intended(rate: float, workers: int, data: st.DataObject) -> None:
    schedule = Schedule(rate, workers, duration_ns=3600 * SECOND_NS)
    worker = data.draw(st.integers(0, workers - 1))
    instant_ns = data.draw(st.integers(0, 3600 * SECOND_NS))
    count = schedule.count_before(instant_ns, worker)
    around = schedule.intended_ns(np.array([max(0, count - 1), count], dtype=np.int64), worker)
    assert count == 0 or around[0] < instant_ns
    assert around[1] >= instant_ns


@pytest.mark.parametrize("rate", [1.0, 333.3, 20_000.0, 1e6])
def test_every_offered_record_is_in_exactly_one_second(rate: float) -> None:
    schedule = Schedule(rate, workers=3, duration_ns=7 * SECOND_NS)
    for worker in range(3):
        by_second = [schedule.offered_in_second(second, worker) for second in range(9)]
        assert sum(by_second) == schedule.total(worker)
        assert by_second[7:] == [0, 0]
    assert sum(schedule.total(worker) for worker in range(3)) == pytest.approx(7 * rate, abs=1)


def test_intended_times_depend_on_nothing_but_the_index() -> None:
    schedule = Schedule(rate_per_s=77_777, workers=2, duration_ns=60 * SECOND_NS)
    at_once = schedule.intended_ns(np.arange(10_000, dtype=np.int64), 1)
    in_pieces = np.concatenate([schedule.intended_ns(np.arange(n, n + 100), 1) for n in range(0, 10_000, 100)])
    assert np.array_equal(at_once, in_pieces)
