"""Loads that begin right after their topic was made."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from highwater.spark_loadgen import new_topics
from highwater.spark_loadgen.new_topics import ask_until
from tests.spark_loadgen.conftest import PlanMaker
from tests.spark_loadgen.mock_broker import MockBroker
from tests.spark_loadgen.running import run_load


@pytest.mark.parametrize("driver", ["client", "wire"])
def test_a_broker_that_has_not_heard_of_the_topic_is_asked_again(
    broker: MockBroker, make_plan: PlanMaker, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    topic = f"heard-of-late-by-{driver}"

    def make_topic(_: float) -> None:
        Producer({"bootstrap.servers": broker.address, "log_level": 0}).list_topics(topic, timeout=60)

    monkeypatch.setattr(new_topics, "time", SimpleNamespace(monotonic=time.monotonic, sleep=make_topic))
    plan = make_plan(driver=driver, topic=topic, measure_s=1, groups=0)
    assert run_load(plan).delivery.acked == 2000


def test_the_last_answer_counts_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(new_topics, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    assert ask_until(lambda: now_s, lambda _: False) == pytest.approx(3.0, abs=0.1)
    assert ask_until(lambda: now_s, lambda _: True) == now_s
