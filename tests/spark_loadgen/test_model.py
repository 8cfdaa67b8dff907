from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from highwater.spark_loadgen.errors import LoadSetupError
from highwater.spark_loadgen.model import LoadPlan, SteadyWarmup, TransactionPlan
from highwater.spark_loadgen.records import (
    FilePayload,
    FixedSize,
    GeneratedPayload,
    UniformSizes,
    WeightedSizes,
    ZipfKeys,
)
from highwater.spark_loadgen.schedule import OpenSchedule, Step

TWO_STEPS = OpenSchedule((Step(10.0, 5.0), Step(20.0, 2.0)))
SOUND: dict[str, Any] = {
    "bootstrap_servers": "b:1",
    "topics": ("t",),
    "partitions": 2,
    "producers": 1,
    "groups": 1,
    "consumers_per_group": 1,
    "schedule": OpenSchedule.constant(10.0),
    "warmup": 1,
    "measure_s": 1,
    "drain_max_s": 1,
    "sizes": FixedSize(100),
    "payload": GeneratedPayload(0.5),
    "seed": 1,
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"producers": 0}, "producers is 0"),
        ({"consumers_per_group": 3}, "3 consumers cannot share 2 partitions"),
        ({"measure_s": 0}, "measure_s is 0"),
        ({"drain_max_s": 0}, "drain_max_s is 0"),
        ({"sizes": None}, "needs sizes"),
        ({"topics": ("t", "t")}, "each named once"),
        ({"warmup": SteadyWarmup(0.01, 5, 20), "schedule": TWO_STEPS}, "one step"),
        ({"schedule": TWO_STEPS}, "steps take 7 s, the measured phase 1 s"),
        ({"driver": "wire", "transactions": TransactionPlan(records=10)}, "wire driver sends no transactions"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(LoadSetupError, match=said):
        LoadPlan(**{**SOUND, **changes})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: OpenSchedule.constant(0.0), "rate of 0/s"),
        (lambda: OpenSchedule.constant(float("nan")), "rate of nan/s"),
        (lambda: OpenSchedule(()), "without a step"),
        (lambda: OpenSchedule((Step(1.0), Step(2.0, 1.0))), "step of a schedule except the last needs a duration"),
        (lambda: Step(1.0, 0.0), "step of 0 s"),
        (lambda: FixedSize(23), "stamp of 24 bytes"),
        (lambda: WeightedSizes(()), "need at least one size"),
        (lambda: WeightedSizes(((100, 0.0),)), "weight 0"),
        (lambda: UniformSizes(200, 100), "first is larger"),
        (lambda: ZipfKeys(10, 0.0), "exponent of 0"),
        (lambda: ZipfKeys(10**9, 1.0), "too many"),
        (lambda: SteadyWarmup(0.01, 30, 20), "window of 30 s must be"),
        (lambda: TransactionPlan(), "name one of the two"),
        (lambda: TransactionPlan(records=1, abort_ratio=1.5), "abort ratio of 1.5"),
    ],
)
def test_parts_that_cannot_be_are_refused_in_one_sentence(make: Callable[[], object], said: str) -> None:
    with pytest.raises(LoadSetupError, match=said):
        make()


def test_a_share_outside_0_to_1_is_refused() -> None:
    with pytest.raises(LoadSetupError, match=r"1\.5"):
        GeneratedPayload(1.5)


def test_a_file_may_do_without_a_size() -> None:
    assert LoadPlan(**{**SOUND, "payload": FilePayload("f"), "sizes": None}).tasks == 2
