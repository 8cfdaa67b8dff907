"""A stock client above its quota: it is told so, and loses nothing."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.broker.handlers.harness import request_frame
from tests.broker.running import running_broker
from tests.waiting import wait_until


@pytest.mark.clients
def test_librdkafka_is_told_its_throttle_time(tmp_path: Path) -> None:
    throttled: list[float] = []
    delivered: list[object] = []

    def on_stats(text: str) -> None:
        throttled.extend(broker["throttle"]["max"] for broker in json.loads(text)["brokers"].values())

    with running_broker(tmp_path / "log", properties=["quota.window.num=2"]) as broker:
        entity = [{"entity_type": "client-id", "entity_name": "slow"}]
        operations = [{"key": "producer_byte_rate", "value": 20_000.0, "remove": False}]
        frame = request_frame("alter_client_quotas", 1, entries=[{"entity": entity, "ops": operations}])
        with socket.create_connection(("127.0.0.1", broker.port), timeout=60) as client:
            client.sendall(struct.pack(">i", len(frame)) + frame)
            assert client.recv(4, socket.MSG_WAITALL)
        producer = Producer(
            {
                "log_level": 0,
                "bootstrap.servers": broker.address,
                "client.id": "slow",
                "statistics.interval.ms": 100,
                "stats_cb": on_stats,
                "on_delivery": lambda error, message: delivered.append(error),
            }
        )
        for _ in range(50):
            producer.produce("t", b"x" * 1000)
            producer.flush(60)
        wait_until(lambda: producer.poll(0.1) >= 0 and any(throttled), "statistics of the client")
        assert delivered == [None] * 50
        assert 0 < max(throttled) < 5_000
