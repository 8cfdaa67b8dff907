"""Rates that the load generator cannot offer here, by its calibrated ceilings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.bench.trials.plan import make_plan
from highwater.bench.trials.reachable_rate import rate_problems
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.results.calibration import Calibration
from tests.bench.fakes import MINIMAL


class Ceilings:
    """A calibration with the same ceilings for every shape; None: not calibrated."""

    def __init__(self, producers_per_s: float | None, consumers_per_s: float | None = None) -> None:
        self._producers, self._consumers = map(_ceiling, (producers_per_s, consumers_per_s))

    def ceiling_of(self, _: object) -> Any:
        return self._producers

    def consumer_ceiling_of(self, _: object) -> Any:
        return self._consumers


def _ceiling(per_s: float | None) -> Any:
    return per_s and SimpleNamespace(ceiling_per_s=per_s, values_per_s=[0.98 * per_s, per_s, 1.02 * per_s])


def problems(text: str, ceilings: Ceilings) -> tuple[list[str], list[str]]:
    return rate_problems(
        make_plan(specify(parse_document(text, "w.yaml"), Path("w.yaml"))), cast(Calibration, ceilings)
    )


@pytest.mark.parametrize("ceilings", [Ceilings(None), Ceilings(112, 112), Ceilings(1000)])
def test_a_rate_that_is_far_enough_below_the_ceiling_or_of_which_nothing_is_known(ceilings: Ceilings) -> None:
    assert problems(MINIMAL, ceilings) == ([], [])


def test_a_rate_near_the_ceiling_can_be_measured_and_will_be_doubted() -> None:
    assert problems(MINIMAL, Ceilings(98)) == (
        [],
        [
            (
                "base: trials at 100/s will be inconclusive: these producers reach 98/s here without a broker, "
                "and the limit is 90 % of it; use more producers on more cores, or lower load.rate"
            )
        ],
    )


def test_a_rate_that_no_calibration_trial_reached_is_hopeless() -> None:
    two_cells = MINIMAL + "matrix: {producers.client.acks: [1, all]}\n"
    assert problems(two_cells, Ceilings(50, 10)) == (
        [
            (
                "acks=1 and 1 more: 100/s cannot be offered: these producers reach 50/s here without a broker; "
                "use more producers on more cores, or lower load.rate, or leave the cell out (exclude:)"
            )
        ],
        [],
    )


def test_of_a_schedule_the_mean_counts() -> None:
    schedule = "load: {schedule: [{rate: 300/s, for: 1s}, {rate: 100/s, for: 3s}]}"
    text = MINIMAL.replace("load: {rate: 100/s}", schedule).replace("measure: 2s, ", "")
    refused, doubted = problems(text, Ceilings(155))
    assert (refused, len(doubted)) == ([], 1)
    assert "trials at 150/s" in doubted[0]


def test_consumers_that_could_not_keep_up_are_a_doubt() -> None:
    _, (doubt,) = problems(MINIMAL, Ceilings(1000, 60))
    assert "these consumers reach 60/s here when all records are written" in doubt


def test_a_closed_loop_has_no_rate_to_keep() -> None:
    assert problems(MINIMAL.replace("rate: 100/s", "model: closed"), Ceilings(1, 1)) == ([], [])
