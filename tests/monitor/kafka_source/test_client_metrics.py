"""The collector follows what clients push to a broker of ours, from tick to tick."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from highwater.kafka.client.settings import settings_of
from highwater.monitor.kafka_source.source import KafkaSource
from highwater.monitor.model import ClientPush, Snapshot
from tests.broker.running import RunningBroker, running_broker
from tests.broker.test_telemetry_clients import INTERVAL_MS, subscribe

pytestmark = pytest.mark.clients


def pushes_of(found: Snapshot, client_id: str) -> list[ClientPush]:
    known = found.client_metrics
    return [] if known is None else [push for push in known.pushes if push.client_id == client_id]


async def followed(broker: RunningBroker) -> None:
    source = KafkaSource("test", settings_of({"bootstrap.servers": broker.address}), 5.0)
    assert (await source.snapshot(0)).client_metrics is None
    await asyncio.to_thread(subscribe, broker.address)
    producer = Producer({"bootstrap.servers": broker.address, "client.id": "orders"})
    latencies: set[float] = set()
    found = await source.snapshot(1)
    for number in range(2, 1000):
        if len(latencies) >= 3:
            break
        for _ in range(20):
            producer.produce("t", b"value")
            producer.poll(0.01)
        found = await source.snapshot(number)
        latencies |= {push.values["produce_ms"] for push in pushes_of(found, "orders") if push.values}
    assert len(latencies) >= 3
    (push,) = pushes_of(found, "orders")
    assert (push.software, push.address, push.broker, push.interval_ms) == (
        "confluent-kafka-python",
        "127.0.0.1",
        0,
        INTERVAL_MS,
    )
    assert push.broker_produce_ms is not None
    assert found.sources["kafka client metrics"].error == ""
    producer.flush(30)
    await source.close()


def test_a_broker_that_runs_alone(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log") as broker:
        asyncio.run(followed(broker))
