"""Costs of bytes and batches from trials: exact, never negative, silent about what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.studies.capacity.costs import MeasuredWork, Work, fitted, measured_kinds, traffic
from highwater.studies.capacity.draws import predictions
from tests.studies.capacity.samples import MOST_CORES, TRUE_COSTS, WAKING_S, cores, measured, work

ALL = [trial for cell in measured().cells for trial in cell.trials]


def test_costs_without_noise_are_found_exactly() -> None:
    costs = fitted(ALL, MOST_CORES)
    assert costs.cpu_s == pytest.approx(TRUE_COSTS, rel=1e-6)
    assert costs.waking_s == pytest.approx(WAKING_S)
    assert all(costs.cpu_cores(seen.work) == pytest.approx(seen.cpu_cores) for seen in ALL)


def test_a_held_out_cell_is_predicted() -> None:
    noisy = measured(noise=0.05)
    costs = fitted([trial for cell in noisy.cells for trial in cell.trials], MOST_CORES)
    found, *closed = predictions(noisy, costs)
    assert (found.cell, found.in_turn) == ("held-out-read", False)
    assert abs(found.error_ratio) < 0.02
    assert [(each.cell, each.in_turn) for each in closed] == [("full-4096", True), ("full-65536", True)]
    assert all(abs(each.error_ratio) < 0.05 for each in closed)


def test_a_batch_costs_less_in_a_busy_broker() -> None:
    """Trials by the clock alone take the cost of waking up for the cost of a batch."""
    by_the_clock = [seen for seen in ALL if seen.cpu_cores < 0.9]
    busy = next(seen for seen in ALL if seen.cpu_cores >= 0.99 and seen.batch_bytes == 4096)
    alone, all_of_them = fitted(by_the_clock, 1e9), fitted(ALL, MOST_CORES)
    assert alone.cpu_cores(busy.work) > 1.3 * busy.cpu_cores
    assert all_of_them.cpu_cores(busy.work) == pytest.approx(busy.cpu_cores)


def test_more_work_never_takes_less_time() -> None:
    costs = fitted(ALL, MOST_CORES)
    done = work(20e6, 4096, groups=1)
    times = [costs.cpu_cores(done.times(factor)) for factor in (0, 0.1, 0.5, 1, 2, 5, 100)]
    assert times == sorted(times)
    twice = done + done
    assert costs.cpu_cores(twice) == pytest.approx(2 * costs.cpu_cores(done))


@given(st.lists(st.floats(0.01, 10), min_size=6, max_size=6))
def test_costs_are_never_negative_and_not_worse_than_none(factors: list[float]) -> None:
    disturbed = [
        replace(seen, cpu_cores=seen.cpu_cores * factors[index % len(factors)]) for index, seen in enumerate(ALL)
    ]
    costs = fitted(disturbed, 1e9)
    assert all(cost >= 0 for cost in (*costs.cpu_s, *costs.waking_s))
    missed = sum((costs.cpu_cores(seen.work) / seen.cpu_cores - 1) ** 2 for seen in disturbed)
    assert missed <= len(disturbed)


def test_one_size_of_batches_does_not_tell_bytes_and_batches_apart() -> None:
    one_size = [seen for seen in ALL if seen.batch_bytes == 4096]
    assert measured_kinds(one_size) == {}
    assert fitted(one_size, MOST_CORES).batch_bytes == {}


def test_a_kind_that_is_not_known_spoils_no_other() -> None:
    strange = work(5e6, 4096, copies=2)
    produced = [seen for seen in ALL if seen.work.kinds() == ["produced"]]
    costs = fitted([*produced, MeasuredWork(strange, 100 * cores(strange), 4096)], MOST_CORES)
    assert list(costs.batch_bytes) == ["produced"]
    assert costs.cpu_s[:2] == pytest.approx(TRUE_COSTS[:2], rel=1e-6)


def test_a_batch_between_two_sizes_counts_to_both() -> None:
    assert traffic(1024, 1024.0, 0.0, 0.0).by_size == (1.0, 0.0, 0.0)
    assert traffic(32_768, 32_768.0, 0.0, 32_768.0).by_size == pytest.approx((0.0, 1.0, 1.0))
    assert traffic(1 << 20, 0.0, 1 << 20, 0.0).by_size == (0.0, 0.0, 1.0)


def test_a_batch_for_several_groups_wakes_the_broker_once() -> None:
    assert traffic(4096, 4096.0, 3 * 4096.0, 0.0, groups=3).by_size == (2.0, 0.0, 0.0)


def test_works_add_up() -> None:
    assert Work(1, 2) + Work(3, 4, 5, brokers=1).times(2) == Work(7, 10, 10, brokers=2)
    assert Work(consumed_bytes=1).kinds() == ["consumed"]
