"""The broker that keeps what it is sent, through the client that others wrote."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from highwater.bench.calibrate.keeping_broker import KeptPartition, keeping_broker
from highwater.kafka.records.record import Record, encode_batch
from tests.reading import read_to_end

DEADLINE_S = 60


def read(address: str, wanted: dict[int, int], **properties: object) -> dict[int, list[tuple[int, bytes]]]:
    """Offsets and values of each partition, once there are so many."""
    errors: list[KafkaError] = []
    client = {"bootstrap.servers": address, "error_cb": errors.append, **properties}
    found: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in wanted}
    for each in read_to_end(client, "t", len(wanted), at_least=sum(wanted.values())):
        found[each.partition].append((each.offset, each.value))
    assert errors == []
    return found


@pytest.mark.parametrize("properties", [{"compression.type": "lz4", "enable.idempotence": True}, {"acks": "1"}])
def test_what_was_sent_is_read_in_its_order_by_everybody(properties: dict[str, object]) -> None:
    with keeping_broker({"t": 3}) as broker:
        producer = Producer({"bootstrap.servers": broker.address, "log_level": 0, **properties})
        for number in range(20_000):
            producer.produce("t", b"%d" % number, partition=number % 2)
        assert producer.flush(DEADLINE_S) == 0
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        ends = admin.list_offsets(
            {TopicPartition("t", partition): OffsetSpec.latest() for partition in range(3)}  # type: ignore[no-untyped-call]
        )
        assert {asked.partition: end.result().offset for asked, end in ends.items()} == {0: 10_000, 1: 10_000, 2: 0}
        for fetched in ({}, {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 2000, "message.max.bytes": 1000}):
            found = read(broker.address, {0: 10_000, 1: 10_000}, log_level=0, **fetched)
            for partition in (0, 1):
                assert found[partition] == [(offset, b"%d" % (2 * offset + partition)) for offset in range(10_000)]
    assert int(broker.rest) == 20_000


def test_who_reads_at_the_end_waits_for_what_comes() -> None:
    with keeping_broker({"t": 1}) as broker:
        reader = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "log_level": 0})
        reader.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        assert reader.poll(0.3) is None
        producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        producer.produce("t", b"late")
        assert producer.flush(DEADLINE_S) == 0
        message = reader.poll(DEADLINE_S)
        assert message is not None
        assert (message.offset(), message.value()) == (0, b"late")
        reader.close()


BATCH = encode_batch([Record(b"a record")] * 5)
TWO_BYTES = 2 * len(BATCH)


@pytest.mark.parametrize(
    ("offset", "max_bytes", "base_offsets"),
    [(0, 1000, [0, 5, 10]), (4, TWO_BYTES, [0, 5]), (5, 1, [5]), (14, 1000, [10]), (15, 1000, []), (-1, 1000, [])],
)
def test_a_read_begins_with_the_batch_that_holds_the_offset(
    offset: int, max_bytes: int, base_offsets: list[int]
) -> None:
    kept = KeptPartition()
    for _ in range(3):
        kept.append(bytearray(BATCH))
    assert kept.log_end_offset == 15
    assert [int.from_bytes(found[:8], "big") for found in kept.read(offset, max_bytes)] == base_offsets
