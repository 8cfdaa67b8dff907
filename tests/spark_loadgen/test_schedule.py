from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.spark_loadgen.schedule import Arrival, OpenSchedule, Schedule, Step
from highwater.spark_loadgen.windows import SECOND_NS

ARRIVALS: tuple[Arrival, ...] = ("uniform", "poisson")


def constant(
    rate_per_s: float, workers: int, seconds: int = 3600, arrival: Arrival = "uniform", seed: int = 1
) -> Schedule:
    return OpenSchedule.constant(rate_per_s, arrival).arrivals(workers, 0, seconds * SECOND_NS, seed)


@st.composite
def schedules(draw: st.DrawFn, rate_max_per_s: float = 3e6) -> Schedule:
    rates = draw(st.lists(st.floats(0.01, rate_max_per_s), min_size=1, max_size=5))
    durations = [draw(st.integers(1, 60)) for _ in rates[:-1]]
    steps = tuple(Step(rate, duration) for rate, duration in zip(rates, [*durations, None], strict=True))
    warmup_s, rest_s = draw(st.integers(0, 10)), draw(st.integers(1, 600))
    return OpenSchedule(steps, draw(st.sampled_from(ARRIVALS))).arrivals(
        workers=draw(st.integers(1, 16)),
        warmup_ns=warmup_s * SECOND_NS,
        duration_ns=(warmup_s + sum(durations) + rest_s) * SECOND_NS,
        seed=draw(st.integers(0, 2**63)),
    )


def test_workers_interleave_evenly() -> None:
    schedule = constant(1000, workers=4)
    sequences = np.arange(3, dtype=np.int64)
    everyone = np.sort(np.concatenate([schedule.intended_ns(sequences, worker) for worker in range(4)]))
    assert everyone.tolist() == [1_000_000 * n for n in range(12)]


@settings(max_examples=150, deadline=None)
@given(schedule=schedules(), data=st.data())
def test_count_before_is_the_inverse_of_intended(schedule: Schedule, data: st.DataObject) -> None:
    worker = data.draw(st.integers(0, schedule.workers - 1))
    # Poisson tables of whole loads would be large: an early end is as good.
    schedule = schedule.until(min(schedule.duration_ns, int(2e6 / max(schedule.rates_per_s) * SECOND_NS)))
    instant_ns = data.draw(st.integers(0, schedule.duration_ns))
    count = schedule.count_before(instant_ns, worker)
    before = schedule.intended_ns(np.arange(max(0, count - 1), count, dtype=np.int64), worker)
    after = schedule.intended_ns(np.array([count], dtype=np.int64), worker)
    assert (before < instant_ns).all()
    assert after[0] >= instant_ns


@settings(max_examples=100, deadline=None)
@given(schedule=schedules(rate_max_per_s=20_000), data=st.data())
def test_times_depend_on_the_index_alone_and_rise(schedule: Schedule, data: st.DataObject) -> None:
    worker = data.draw(st.integers(0, schedule.workers - 1))
    count = min(3000, schedule.total(worker))
    at_once = schedule.intended_ns(np.arange(count, dtype=np.int64), worker)
    chunk = data.draw(st.integers(1, 1500))
    pieces = [np.arange(n, min(n + chunk, count), dtype=np.int64) for n in range(0, count, chunk)]
    in_pieces = [schedule.intended_ns(piece, worker) for piece in pieces]
    assert np.array_equal(at_once, np.concatenate([np.zeros(0, dtype=np.int64), *in_pieces]))
    assert (np.diff(at_once) >= 0).all()
    assert (at_once >= 0).all()
    assert (at_once < schedule.duration_ns).all()


@settings(max_examples=50, deadline=None)
@given(schedule=schedules(rate_max_per_s=20_000), cut=st.floats(0.01, 1))
def test_an_earlier_end_changes_no_record_before_it(schedule: Schedule, cut: float) -> None:
    shorter = schedule.until(int(schedule.duration_ns * cut))
    for worker in range(schedule.workers):
        count = shorter.total(worker)
        assert count == schedule.count_before(shorter.duration_ns, worker)
        last = np.arange(max(0, count - 100), count, dtype=np.int64)
        assert np.array_equal(shorter.intended_ns(last, worker), schedule.intended_ns(last, worker))


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("rate", [1.0, 333.3, 20_000.0, 1e6])
def test_every_offered_record_is_in_exactly_one_second(rate: float, arrival: Arrival) -> None:
    schedule = constant(rate, workers=3, seconds=7, arrival=arrival)
    for worker in range(3):
        by_second = [schedule.offered_in_second(second, worker) for second in range(9)]
        assert sum(by_second) == schedule.total(worker)
        assert by_second[7:] == [0, 0]
    total = sum(schedule.total(worker) for worker in range(3))
    assert total == pytest.approx(7 * rate, abs=1 if arrival == "uniform" else 6 * (7 * rate) ** 0.5)


def test_a_step_goes_on_from_where_the_last_one_ended() -> None:
    steps = (Step(100, 1), Step(1000, 2), Step(10))
    schedule = OpenSchedule(steps).arrivals(workers=1, warmup_ns=SECOND_NS, duration_ns=13 * SECOND_NS, seed=0)
    assert [schedule.offered_in_second(second, 0) for second in range(6)] == [100, 100, 1000, 1000, 10, 10]
    intended_ns = schedule.intended_ns(np.arange(schedule.total(0), dtype=np.int64), 0)
    gaps_ms = np.diff(intended_ns) / 1e6
    assert gaps_ms[:199] == pytest.approx(10)  # no record is due again, or forgiven, at a change of the rate
    assert gaps_ms[200:2199] == pytest.approx(1)
    assert gaps_ms[2200:] == pytest.approx(100)


def test_poisson_arrivals_have_the_rate_and_the_scatter_of_a_poisson_process() -> None:
    schedule = constant(10_000, workers=4, seconds=20, arrival="poisson")
    per_second = np.array([[schedule.offered_in_second(s, worker) for s in range(20)] for worker in range(4)])
    assert per_second.mean() == pytest.approx(2500, rel=0.02)
    assert 0.6 < per_second.var() / per_second.mean() < 1.6  # 1, within the scatter of 80 counts
    gaps_ns = np.diff(schedule.intended_ns(np.arange(40_000, dtype=np.int64), 2)).astype(np.float64)
    assert gaps_ns.mean() == pytest.approx(400_000, rel=0.03)
    assert gaps_ns.std() / gaps_ns.mean() == pytest.approx(1, rel=0.03)  # exponential gaps
    assert np.corrcoef(gaps_ns[:-1], gaps_ns[1:])[0, 1] == pytest.approx(0, abs=0.03)


def test_poisson_workers_and_seeds_are_unrelated() -> None:
    sequences = np.arange(1000, dtype=np.int64)
    schedule = constant(1000, workers=2, arrival="poisson")
    other_seed = constant(1000, workers=2, arrival="poisson", seed=2)
    assert not np.array_equal(schedule.intended_ns(sequences, 0), schedule.intended_ns(sequences, 1))
    assert not np.array_equal(schedule.intended_ns(sequences, 0), other_seed.intended_ns(sequences, 0))
