"""The null broker, through the client that others wrote."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import KafkaError, Message, Producer

from highwater.bench.calibrate.null_broker import null_broker


@pytest.mark.parametrize(
    "properties",
    [{"acks": "all"}, {"acks": "1", "batch.size": 1000}, {"enable.idempotence": True}, {"compression.type": "lz4"}],
)
def test_records_are_counted_thrown_away_and_acknowledged(properties: dict[str, object]) -> None:
    offsets: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        offsets[partition].append(offset)

    with null_broker({"t": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.address, **properties})
        assert len(producer.list_topics(timeout=60).topics["t"].partitions) == 3
        for number in range(3000):
            producer.produce("t", b"x" * 2000, partition=number % 3, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0
    assert int(broker.rest) == 3000
    assert all(sorted(found) == list(range(1000)) for found in offsets.values())


def test_an_acknowledgement_that_nobody_wants_is_not_sent() -> None:
    with null_broker({"t": 1}) as broker:
        producer = Producer({"bootstrap.servers": broker.address, "acks": 0})
        for _ in range(100):
            producer.produce("t", b"x" * 100_000)
        assert producer.flush(60) == 0
        # What a later request is answered with shows that all before it was read.
        late = Producer({"bootstrap.servers": broker.address})
        late.produce("t", b"x")
        assert late.flush(60) == 0
    assert int(broker.rest) >= 1


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n" + b"x" * 200, b"\x00\x00\x00\x0a\x00\x63" + bytes(20)])
def test_garbage_ends_its_connection_and_nothing_else(garbage: bytes) -> None:
    with null_broker({"t": 1}) as broker:
        host, port = broker.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
        producer = Producer({"bootstrap.servers": broker.address})
        producer.produce("t", b"x")
        assert producer.flush(60) == 0
