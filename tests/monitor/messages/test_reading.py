"""The message viewer on a real broker: what it reads equals what a consumer reads, and it leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from highwater.kafka.client.settings import settings_of
from highwater.monitor.actions.plan import ActionError
from highwater.monitor.messages.reading import (
    BEGINNING,
    NEWEST,
    OFFSET,
    TIME,
    MessageReader,
    Page,
    Start,
    WantedRecords,
)
from highwater.monitor.users import Role, User
from tests.broker.running import RunningBroker, running_broker
from tests.reading import read_to_end

pytestmark = pytest.mark.clients
ANN = User("ann", Role.OPERATOR, is_disabled=False, changed_s=0)
AT_MS = 1_790_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with running_broker(directory / "log") as made:
        open_transaction = fill(made.address)
        yield made
        open_transaction.abort_transaction(30)


def fill(address: str) -> Producer:
    """Batches of each codec, and transactions: one aborted, one committed, one open, whose producer is returned."""
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic("orders", 1, 1)]).values():
        made.result(60)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 100})
        for each in range(20):
            at_ms = AT_MS + 1000 * (20 * number + each)
            producer.produce(
                "orders", f"{codec}-{each}" * 10, b"k%d" % each, 0, timestamp=at_ms, headers={"n": b"\xff"}
            )
        assert producer.flush(60) == 0
    for name in ("aborted", "committed", "open"):
        producer = Producer({"bootstrap.servers": address, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", name.encode(), partition=0)
        producer.flush(60)
        if name == "aborted":
            producer.abort_transaction(30)
        elif name == "committed":
            producer.commit_transaction(30)
    return producer


def consumed(address: str, isolation: str) -> list[tuple[int, bytes | None, bytes | None, int]]:
    found = read_to_end(address, "orders", committed=isolation == "read_committed")
    return [(each.offset, each.key, each.value, each.timestamp[1]) for each in found]


def read(broker: RunningBroker, start: Start, most: int = 100, *, is_committed: bool = True, user: User = ANN) -> Page:
    (page,) = pages(broker, WantedRecords("orders", 0, start, most, is_committed), user)
    return page


def pages(broker: RunningBroker, wanted: WantedRecords, user: User = ANN) -> list[Page]:
    return MessageReader(settings_of({"bootstrap.servers": broker.address})).read(user, wanted)


def rows(page: Page) -> list[tuple[int, bytes | None, bytes | None, int | None]]:
    return [
        (each.offset, each.key and each.key.data, each.value and each.value.data, each.timestamp_ms)
        for each in page.messages
    ]


@pytest.mark.parametrize("is_committed", [True, False])
def test_it_reads_what_a_consumer_reads(broker: RunningBroker, is_committed: bool) -> None:
    expected = consumed(broker.address, "read_committed" if is_committed else "read_uncommitted")
    first = read(broker, Start(BEGINNING), is_committed=is_committed)
    assert len(first.messages) == 100
    rest = read(broker, Start(OFFSET, first.next_offset), is_committed=is_committed)
    assert rows(first) + rows(rest) == expected
    assert rest.is_at_end
    assert len(expected) == (101 if is_committed else 103)
    assert [each for page in (first, rest) for each in page.notes] == (
        ["1 records of aborted transactions are left out."] if is_committed else []
    )
    assert first.messages[0].headers[0][0] == "n"


def test_it_begins_where_somebody_says(broker: RunningBroker) -> None:
    assert read(broker, Start(TIME, AT_MS + 30_000), 10).messages[0].offset == 30
    assert [each.offset for each in read(broker, Start(OFFSET, 42), 10).messages] == list(range(42, 52))
    newest = read(broker, Start(NEWEST, 10), 10, is_committed=False)
    assert newest.is_at_end
    assert newest.messages[-1].value is not None
    assert newest.messages[-1].value.data == b"open"
    late = read(broker, Start(OFFSET, 10_000), 10)
    assert late.messages == ()
    assert "10000 is not between" in late.notes[0]


def test_it_finds_the_records_of_a_key_in_all_partitions(broker: RunningBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for made in admin.create_topics([NewTopic("keyed", 3, 1)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": "lz4"})
    for number in range(3_000):
        producer.produce("keyed", str(number), b"k%d" % (number % 500), number % 3)
    assert producer.flush(60) == 0
    for start in (BEGINNING, NEWEST):
        found = pages(broker, WantedRecords("keyed", None, Start(start), 100, is_committed=True, key=b"k42"))
        values = [(page.partition, each.value.data) for page in found for each in page.messages if each.value]
        assert sorted(values, key=lambda each: int(each[1])) == [
            (number % 3, str(number).encode()) for number in range(42, 3_000, 500)
        ]
        assert all(page.is_at_end for page in found)
    (one,) = pages(broker, WantedRecords("keyed", 0, Start(BEGINNING), 1, is_committed=True, key=b"k42"))
    (rest,) = pages(broker, WantedRecords("keyed", 0, Start(OFFSET, one.next_offset), 9, is_committed=True, key=b"k42"))
    assert [each.offset for each in (*one.messages, *rest.messages)] == [14, 514]
    assert not one.is_at_end


def test_it_leaves_no_trace(broker: RunningBroker) -> None:
    read(broker, Start(BEGINNING))
    admin = AdminClient({"bootstrap.servers": broker.address})
    assert admin.list_consumer_groups().result(60).valid == []


def test_what_cannot_be_read_is_told(broker: RunningBroker) -> None:
    reader = MessageReader(settings_of({"bootstrap.servers": broker.address}))
    for topic, partition, reason in (("nothing", 0, "There is no topic"), ("orders", 7, "has no partition 7")):
        with pytest.raises(ActionError, match=reason):
            reader.read(ANN, WantedRecords(topic, partition, Start(BEGINNING), 10, is_committed=True))
    with pytest.raises(ActionError, match="needs the role operator"):
        read(broker, Start(BEGINNING), user=User("bo", Role.VIEWER, is_disabled=False, changed_s=0))
    gone = MessageReader(settings_of({"bootstrap.servers": "127.0.0.1:1"}))
    with pytest.raises(ActionError, match="does not answer"):
        gone.read(ANN, WantedRecords("orders", 0, Start(BEGINNING), 10, is_committed=True))
