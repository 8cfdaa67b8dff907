"""Costs of bytes and batches from trials: exact, never negative, silent about what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.bench.capacity.costs import Observation, Work, fitted, measured_kinds
from highwater.bench.capacity.draws import predictions
from tests.bench.capacity.samples import TRUE_COSTS, cores, measured, work

ALL = [trial for cell in measured().cells for trial in cell.trials]


def test_costs_without_noise_are_found_exactly() -> None:
    assert fitted(ALL).cpu_s == pytest.approx(TRUE_COSTS, rel=1e-6)


def test_a_held_out_cell_is_predicted() -> None:
    noisy = measured(noise=0.05)
    costs = fitted([trial for cell in noisy.cells for trial in cell.trials])
    (found,) = predictions(noisy, costs)
    assert found.cell == "held-out-read"
    assert abs(found.error_ratio) < 0.02


@given(st.lists(st.floats(0.01, 10), min_size=6, max_size=6))
def test_costs_are_never_negative_and_not_worse_than_none(factors: list[float]) -> None:
    disturbed = [
        replace(seen, cpu_cores=seen.cpu_cores * factors[index % len(factors)]) for index, seen in enumerate(ALL)
    ]
    costs = fitted(disturbed)
    assert all(cost >= 0 for cost in costs.cpu_s)
    missed = sum((costs.cpu_cores(seen.work) / seen.cpu_cores - 1) ** 2 for seen in disturbed)
    assert missed <= len(disturbed)


def test_one_size_of_batches_does_not_tell_bytes_and_batches_apart() -> None:
    one_size = [seen for seen in ALL if seen.batch_bytes == 4096]
    assert measured_kinds(one_size) == {}
    assert fitted(one_size).batch_bytes == {}


def test_a_kind_that_is_not_known_spoils_no_other() -> None:
    strange = work(5e6, 4096, copies=2)
    produced = [seen for seen in ALL if seen.work.kinds() == ["produced"]]
    costs = fitted([*produced, Observation(strange, 100 * cores(strange), 4096)])
    assert list(costs.batch_bytes) == ["produced"]
    assert costs.cpu_s[:2] == pytest.approx(TRUE_COSTS[:2], rel=1e-6)


def test_works_add_up() -> None:
    assert Work(1, 2) + Work(3, 4, 5, brokers=1).times(2) == Work(7, 10, 10, brokers=2)
    assert Work(consumed_bytes=1).kinds() == ["consumed"]
