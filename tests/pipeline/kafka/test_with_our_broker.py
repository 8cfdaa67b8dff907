"""The client and the reader with a process of our broker, and records that librdkafka wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as Librdkafka
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kio.schema.errors import ErrorCode

from highwater.kafka.requests.broker_error import BrokerError
from highwater.kafka.requests.fetch import Fetch
from highwater.pipeline.kafka.client import Client
from highwater.pipeline.kafka.model import (
    EARLIEST,
    LATEST,
    Appended,
    CommittedOffset,
    ListedOffset,
    OutOfRange,
    Producer,
)
from highwater.pipeline.kafka.reader import OffsetOutOfRangeError, OffsetRange, UnreadableError, read_range
from highwater.pipeline.kafka.sender import FENCED, FORGOTTEN
from tests.broker.running import RunningBroker, running_broker
from tests.pipeline.kafka.asking import NOW_MS, batch_at, client_of
from tests.pipeline.kafka.fake_broker import TOPIC_ID
from tests.waiting import wait_until

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    properties = ["group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1"]
    with running_broker(tmp_path_factory.mktemp("client") / "log", properties=properties) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    with client_of(broker.port) as client:
        yield client


def create(broker: RunningBroker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)


def produce(broker: RunningBroker, topic: str, count: int, **conf: Any) -> None:
    """Through librdkafka: record n has the value `vn`, the time NOW_MS + n."""
    producer = Librdkafka({"bootstrap.servers": broker.address, **conf})
    for n in range(count):
        producer.produce(topic, b"v%d" % n, b"k%d" % n, 0, timestamp=NOW_MS + n, headers=[("h", b"%d" % n)])
    assert producer.flush(60) == 0


def test_topics_partitions_and_offsets(broker: RunningBroker, client: Client) -> None:
    create(broker, "orders", 2)
    produce(broker, "orders", 10)
    cluster = client.cluster(["orders", "none"])
    assert set(cluster.topics["orders"].partitions) == {0, 1}
    assert cluster.topics["orders"].topic_id is not None
    assert str(cluster.topics["none"].error) == "UNKNOWN_TOPIC_OR_PARTITION (3)"
    assert set(client.cluster().topics) >= {"orders"}
    found = client.list_offsets({("orders", 0): LATEST, ("orders", 1): LATEST})
    assert [each.offset for each in found.values() if isinstance(each, ListedOffset)] == [10, 0]
    by_time = {NOW_MS + 4: 4, NOW_MS - 1: 0, NOW_MS + 10: None, 2**63: None, 10**30: None}
    # Kafka gives negative timestamps meanings of their own: the end, the largest time, and others to come.
    by_time |= dict.fromkeys([0, -1, -2, -3, -4, -5, -6, -(2**63), -(10**30)], 0)
    for timestamp, offset in by_time.items():
        listed = client.list_offsets({("orders", 0): timestamp})["orders", 0]
        assert isinstance(listed, ListedOffset)
        assert listed.offset == offset
    assert client.fetch(Fetch("orders", 0, 11)) == OutOfRange(0, 10)
    assert client.fetch(Fetch("orders", 5, 0)) == BrokerError(
        ErrorCode.unknown_topic_or_partition, "orders has 2 partitions"
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_ranges_of_what_librdkafka_wrote(broker: RunningBroker, client: Client, codec: str) -> None:
    topic = f"ranges-{codec}"
    create(broker, topic)
    produce(broker, topic, 3000, **{"compression.type": codec, "batch.num.messages": 100})
    topic_id = client.cluster([topic]).topics[topic].topic_id
    for start, end in ((0, 3000), (50, 2950), (7, 8), (9, 9)):
        wanted = OffsetRange(topic, 0, start, end, topic_id)
        rows = [
            row
            for decoded in read_range(client, wanted, columns=("offset", "key", "value", "headers"), fetch_bytes=10_000)
            for row in decoded.rows.to_pylist()
        ]
        assert rows == [
            {
                "offset": n,
                "key": b"k%d" % n,
                "value": b"v%d" % n,
                "headers": [{"key": "h", "value": b"%d" % n}],
            }
            for n in range(start, end)
        ]


def test_a_range_that_is_abandoned_leaves_the_client_usable(broker: RunningBroker, client: Client) -> None:
    create(broker, "abandoned")
    produce(broker, "abandoned", 500, **{"batch.num.messages": 10})
    reading = read_range(client, OffsetRange("abandoned", 0, 0, 500), fetch_bytes=1000)
    next(reading)
    assert client.list_offsets({("abandoned", 0): EARLIEST})["abandoned", 0] == ListedOffset(0, -1, 0)
    assert sum(decoded.rows.num_rows for decoded in reading) > 400


def test_ranges_that_are_not_there(broker: RunningBroker, client: Client) -> None:
    create(broker, "short")
    produce(broker, "short", 3)
    with pytest.raises(OffsetOutOfRangeError, match=r"^short-0 has the offsets from 0 up to 3, and 5 was asked for"):
        list(read_range(client, OffsetRange("short", 0, 5, 6)))
    with client_of(broker.port, api_timeout_s=0.1) as impatient:
        with pytest.raises(UnreadableError, match=r"^short-0 at offset 3: REQUEST_TIMED_OUT \(7\): no records came"):
            list(read_range(impatient, OffsetRange("short", 0, 0, 4)))
        with pytest.raises(UnreadableError, match=r"^short-0 at offset 0: UNKNOWN_TOPIC_ID \(100\)"):
            list(read_range(impatient, OffsetRange("short", 0, 0, 3, TOPIC_ID)))


def test_transactions_and_offsets_of_groups(broker: RunningBroker, client: Client) -> None:
    create(broker, "tx", 2)
    producer = client.init_producer_id("tx-1")
    assert isinstance(producer, Producer)
    for commit in (False, True):
        assert client.add_partitions_to_transaction("tx-1", producer, [("tx", 0), ("tx", 1)]) == {}
        for partition in (0, 1):
            batch = batch_at(
                0,
                2,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=2 if commit else 0,
                is_transactional=True,
            )
            first = client.produce("tx", partition, batch, transactional_id="tx-1")
            assert isinstance(first, Appended)
            again = client.produce("tx", partition, batch, transactional_id="tx-1")
            assert isinstance(again, Appended)
            assert again.base_offset == first.base_offset
        assert client.add_offsets_to_transaction("tx-1", producer, "tx-group") is None
        offsets = {("tx", 0): CommittedOffset(7 + commit, "batch 1")}
        assert client.commit_offsets_in_transaction("tx-1", producer, "tx-group", offsets) == {}
        assert client.end_transaction("tx-1", producer, commit=commit) is None

        def is_over() -> bool:
            ends = [client.list_offsets({("tx", 0): LATEST}, read_committed=each)["tx", 0] for each in (True, False)]
            return ends[0] == ends[1]

        wait_until(is_over, "the marker of the transaction")
    assert client.committed_offsets("tx-group") == {("tx", 0): CommittedOffset(8, "batch 1")}
    assert client.committed_offsets("tx-group", [("tx", 1)]) == {}
    assert client.commit_offsets("tx-group", {("tx", 1): CommittedOffset(3)}) == {}
    assert client.committed_offsets("tx-group", [("tx", 1)]) == {("tx", 1): CommittedOffset(3)}

    def offsets_read(*, read_committed: bool) -> list[int]:
        ranges = read_range(client, OffsetRange("tx", 0, 0, 6), read_committed=read_committed)
        return [offset for decoded in ranges for offset in decoded.rows.column("offset").to_pylist()]

    assert offsets_read(read_committed=True) == [3, 4]
    assert offsets_read(read_committed=False) == [0, 1, 3, 4]

    assert isinstance(client.init_producer_id("tx-1"), Producer)
    assert client.end_transaction("tx-1", producer, commit=True) == BrokerError(ErrorCode.producer_fenced)


def test_a_group_offset_that_a_transaction_holds_is_waited_for(broker: RunningBroker) -> None:
    create(broker, "held")
    with client_of(broker.port, api_timeout_s=0.2) as client:
        producer = client.init_producer_id("held-1")
        assert isinstance(producer, Producer)
        assert client.add_offsets_to_transaction("held-1", producer, "held") is None
        held = {("held", 0): CommittedOffset(7)}
        assert client.commit_offsets_in_transaction("held-1", producer, "held", held) == {}
        stable = client.committed_offsets("held", [("held", 0)])
        assert stable == {("held", 0): BrokerError(ErrorCode.unstable_offset_commit)}
        assert client.committed_offsets("held", [("held", 0)], require_stable=False) == {}
        assert client.end_transaction("held-1", producer, commit=True) is None
        wait_until(lambda: client.committed_offsets("held", [("held", 0)]) == held, "the end of the transaction")


def test_a_producer_that_was_forgotten_has_one_successor(tmp_path: Path) -> None:
    """After transactional.id.expiration.ms: the sink goes on with it, unless another driver came first."""
    properties = [
        "transactional.id.expiration.ms=1",
        "transaction.remove.expired.transaction.cleanup.interval.ms=50",
        "offsets.topic.num.partitions=1",
        "transaction.state.log.num.partitions=1",
    ]
    with running_broker(tmp_path / "log", properties=properties) as broker, client_of(broker.port) as client:
        create(broker, "t")

        def forgotten(producer: Producer) -> bool:
            errors = client.add_partitions_to_transaction("id", producer, [("t", 0)])
            if not errors:
                client.end_transaction("id", producer, commit=True)
            return [each.code for each in errors.values()] == [FORGOTTEN]

        first = client.init_producer_id("id")
        assert isinstance(first, Producer)
        wait_until(lambda: forgotten(first), "the producer is forgotten")
        second = client.init_producer_id("id", known=first)
        assert isinstance(second, Producer)
        assert second.producer_id != first.producer_id
        late = client.init_producer_id("id", known=first)
        assert isinstance(late, BrokerError)
        assert late.code in FENCED
