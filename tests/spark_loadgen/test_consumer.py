"""What a consumer makes of a log that was tampered with, against the mock broker."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer

from highwater.spark_loadgen.channel import DriverChannel, TaskChannel
from highwater.spark_loadgen.consumer import ConsumerLoad, ConsumerReport
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.phases import Phases
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.stamp import encode_stamps
from tests.spark_loadgen.conftest import PlanMaker

MAGIC, RECORDS = 4711, 300


def read_back(make_plan: PlanMaker, bodies: list[bytes]) -> ConsumerReport:
    """Put `bodies` behind the stamps of a whole schedule and let a consumer that expects b"body" judge them."""
    plan = make_plan(rate_per_s=float(len(bodies)), measure_s=1, sizes=FixedSize(24 + len(b"body")))
    producer = Producer({"bootstrap.servers": plan.bootstrap_servers, "log_level": 0})
    stamps = encode_stamps(0, MAGIC, 0, np.zeros(len(bodies), dtype=np.int64))
    for stamp, body in zip(stamps, bodies, strict=True):
        producer.produce(plan.topics[0], stamp + body, partition=0)
    assert producer.flush(60) == 0
    with DriverChannel("127.0.0.1", "127.0.0.1") as driver:
        channel = TaskChannel(driver.address, driver.token, 0, Phases(plan.warmup_max_s, plan.measure_s))
        channel.producers_finished.set()
        content = Content(plan, GeneratedPayload())
        content.pool = [b"body"]
        load = ConsumerLoad(plan, 0, MAGIC, content)
        load.prepare()
        try:
            return load.run(time.monotonic_ns(), channel)
        finally:
            load.client.close()
            channel.close()


@pytest.mark.parametrize("changed", [b"bodY", b"Body", b"bod", b"bodyy", b""])
def test_one_changed_body_among_many_is_found(make_plan: PlanMaker, changed: bytes) -> None:
    bodies = [b"body"] * RECORDS
    bodies[RECORDS // 2 + 7] = changed
    report = read_back(make_plan, bodies)
    assert (report.received.received, report.received.corrupt, report.unread) == (RECORDS, 1, 0)


def test_sound_bodies_are_sound(make_plan: PlanMaker) -> None:
    report = read_back(make_plan, [b"body"] * RECORDS)
    assert (report.received.received, report.received.corrupt, report.unread) == (RECORDS, 0, 0)


def test_who_leads_is_known_before_ends_are_asked_for(make_plan: PlanMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for at once, one start in five waited for one second or three."""
    load = ConsumerLoad(plan := make_plan(), 0, MAGIC, Content(plan, GeneratedPayload()))
    asked: list[str] = []

    class Asking:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(asking, name)

    asking = load._admin
    monkeypatch.setattr(load, "_admin", Asking())
    load.prepare()
    load.close()
    assert asked == ["list_topics", "list_offsets"]
