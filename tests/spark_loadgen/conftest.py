"""Fixtures of the load generator's tests: one mock broker for all of them, and plans that suit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule
from tests.spark_loadgen.mock_broker import MockBroker, mock_broker

PlanMaker = Callable[..., LoadPlan]


@pytest.fixture(scope="session")
def broker() -> Iterator[MockBroker]:
    with mock_broker() as running:
        yield running


@pytest.fixture
def make_plan(broker: MockBroker) -> PlanMaker:
    def make(**changes: Any) -> LoadPlan:
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.address,
            "partitions": MockBroker.PARTITIONS,
            "producers": 1,
            "groups": 1,
            "consumers_per_group": 1,
            "schedule": OpenSchedule.constant(2000.0),
            "warmup": 0,
            "measure_s": 2,
            "drain_max_s": 45,  # at most: it ends as soon as all is read
            "sizes": FixedSize(100),
            "payload": GeneratedPayload(0.5),
            "seed": 7,
            # The mock answers a waiting fetch only when its time is up.
            "consumer_config": {"fetch.wait.max.ms": "10"},
            **changes,
        }
        if (rate_per_s := settings.pop("rate_per_s", None)) is not None:
            settings["schedule"] = OpenSchedule.constant(rate_per_s)
        topic = settings.pop("topic", None)
        return LoadPlan(topics=settings.pop("topics", None) or (topic or broker.new_topic(),), **settings)

    return make
