"""Requests that are handled as one: the same answers and the same effects as when each is handled alone."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from highwater.broker.counters import TopicCounters
from highwater.broker.handlers.shared.reply import Client as Peer
from highwater.broker.handlers.shared.reply import CloseConnection, PendingResponse
from highwater.broker.log.producer_state import ProducerState
from highwater.kafka.protocol.frame import Part
from highwater.kafka.protocol.primitives import MalformedRequestError
from highwater.kafka.protocol.produce_run import MOST_REQUESTS, read_run, shape_of
from highwater.kafka.records.batch import Codec, update_crc
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import LISTENER, NodeHarness, one_batch, request_frame
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.replica.replicating import ReplicaHarness

LOG_DIR: Final = Path("/data")
NOW_MS: Final = 1_700_000_000_000
TOPIC_ID: Final = UUID(int=2**127 + 5)
"""What stands in requests for the id of the first topic."""
MOST_FRAME_BYTES: Final = 100_000
# Machine code has no __slots__ to look at.
_OF_COUNTERS: Final = ("bytes_in", "failed_produces", "messages_in", "produces")
_OF_PRODUCERS: Final = (
    *("batches", "coordinator_epoch", "epoch", "is_added", "last_append_ms", "last_marker", "last_timestamp_ms"),
    "transaction_first_offset",
)


class Sender:
    """One client of a broker, whose requests come together."""

    def __init__(self, node: NodeHarness, *, takes_runs: bool) -> None:
        self._node = node
        self._takes_runs = takes_runs
        self.client = Peer(LISTENER, "192.0.2.7")
        self.answers: list[bytes | None] = []
        """None: not yet."""
        self.runs: list[int] = []
        """How many requests each had."""

    def receive(self, data: bytes) -> None:
        """Handle all whole requests, as a connection does."""
        buffer, position = memoryview(bytearray(data.replace(TOPIC_ID.bytes, self._topic_id.bytes))), 0
        while len(buffer) - position >= 4:
            end = position + 4 + int.from_bytes(buffer[position : position + 4], "big", signed=True)
            if not 0 <= end - position - 4 <= MOST_FRAME_BYTES:
                self.answers.append(b"an impossible length")
                return
            taken = (
                self._node.dispatcher.take_run(buffer, position, len(buffer), MOST_FRAME_BYTES, self.client, 0)
                if self._takes_runs
                else None
            )
            if taken is not None:
                self.runs.append(_frames_in(buffer[position : taken[0]]))
                position = taken[0]
                self._note(taken[1])
                continue
            if end > len(buffer):
                return
            try:
                self._note(self._node.dispatcher.dispatch(buffer[position + 4 : end], self.client, 0))
            except (MalformedRequestError, CloseConnection) as error:
                self.answers.append(f"{type(error).__name__} {error}".encode())
                return
            position = end

    def _note(self, answer: list[Part] | PendingResponse | None) -> None:
        if isinstance(answer, PendingResponse):
            place = len(self.answers)
            self.answers.append(None)

            def ready(answered: Any) -> None:
                self.answers[place] = b"".join(answer.frame(answered))

            answer.deferred.on_ready(ready)
        elif answer:
            self.answers.append(b"".join(answer))

    @property
    def answered(self) -> bytes:
        assert None not in self.answers
        answered = b"".join(answer for answer in self.answers if answer).replace(self._topic_id.bytes, TOPIC_ID.bytes)
        return answered.replace(str(self._topic_id).encode(), b"its id")

    @property
    def _topic_id(self) -> UUID:
        topic = self._node.node.partitions.topic("t")
        assert topic is not None
        return topic.topic_id


class Broker(NodeHarness):
    def __init__(self, *, takes_runs: bool, **properties: str) -> None:
        self.files = SimulatedFiles()
        self.files.make_directory(LOG_DIR)
        super().__init__(LOG_DIR, (), self.files, **properties)
        self.sender = Sender(self, takes_runs=takes_runs)

    def set_disk(self, error: int) -> None:
        """Let all operations that need space fail from now on, or none."""
        now = self.files.changes_made
        self.files.full_during = range(now, now + 1000) if error else range(0)

    def effects(self) -> dict[str, Any]:
        """All that the requests have changed."""
        found: dict[str, Any] = {}
        for partition in self.node.partitions.all():
            log = partition.log
            indexes = log._segments.active.indexes
            found[f"{partition.topic}-{partition.index}"] = (
                (log.log_end_offset, log.size_bytes, log.segment_sizes, partition.high_watermark),
                (partition.safe_end_offset, partition.last_stable_offset, partition.has_failed),
                [(path, self.files.read(log.directory / path)) for path in self._logs(log.directory)],
                None if indexes.by_offset is None else indexes.by_offset.entries,
                None if indexes.by_time is None else indexes.by_time.entries,
                indexes.largest_timestamp,
                [(key, *_values(state)) for key, state in log.producer_states],
                log.leader_epochs.entries,
                _values(partition.counters),
            )
        counters = self.node.counters
        produce = counters.requests[0]
        found["counters"] = (
            produce.requests_by_version,
            produce.errors,
            [sum(histogram.counts) for histogram in (produce.queue, produce.local, produce.total)],
            counters.authorizations_asked,
            _values(counters.unknown_topics),
        )
        found["flushes"] = {partition.index for partition in self.wanted_flushes}
        return found

    def _logs(self, directory: Path) -> list[str]:
        return sorted(entry.name for entry in self.files.list(directory) if entry.name.endswith(".log"))


def _frames_in(data: memoryview) -> int:
    count = position = 0
    while position < len(data):
        position += 4 + int.from_bytes(data[position : position + 4], "big")
        count += 1
    return count


def _values(thing: TopicCounters | ProducerState) -> list[str]:
    names = _OF_COUNTERS if isinstance(thing, TopicCounters) else _OF_PRODUCERS
    return [repr(getattr(thing, name)) for name in names]


def request(
    batch: bytes | None,
    number: int = 1,
    *,
    topic: Any = "t",
    partition: int = 0,
    acks: int = 1,
    version: int = 9,
) -> bytes:
    key = {"topic_id": topic} if version >= 13 else {"name": topic}
    frame = request_frame(
        "produce",
        version,
        number,
        acks=acks,
        timeout=1000,
        topic_data=[{**key, "partition_data": [{"index": partition, "records": batch}]}],
    )
    return struct.pack(">i", len(frame)) + frame


def batch_at(*times_ms: int, **options: Any) -> bytes:
    records = [Record(b"value %d" % number, timestamp_ms=time_ms) for number, time_ms in enumerate(times_ms)]
    return bytes(encode_batch(records, **options))


def topic_of(version: int) -> str | UUID:
    return TOPIC_ID if version >= 13 else "t"


class Stream:
    """What one client sends; `draw` decides."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        self._version = draw(st.sampled_from((9, 7, 8, 11, 12, 13, 6)))
        self._acks = draw(st.sampled_from((1, -1, 0)))
        self._number = 0
        self._sequence = 0
        self._last = batch_at(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0)

    def requests(self) -> bytes:
        draw = self._draw
        out = bytearray()
        for _ in range(draw(st.integers(1, 16))):
            kind = draw(st.sampled_from(KINDS))
            out += kind(self)
        if draw(st.integers(0, 9)) == 0:
            del out[draw(st.integers(0, len(out))) :]
        return bytes(out)

    def _request(self, batch: bytes | None, **others: Any) -> bytes:
        self._number += 1
        options = {"topic": "t", "version": self._version, "acks": self._acks} | others
        if options["version"] >= 13:
            options["topic"] = TOPIC_ID
        return request(batch, self._number, **options)

    def _count(self) -> int:
        return int(self._draw(st.integers(1, 3)))

    def plain(self) -> bytes:
        return self._request(batch_at(*[NOW_MS] * self._count()))

    def large(self) -> bytes:
        return self._request(one_batch(bytes(self._draw(st.integers(500, 1500)))))

    def next(self) -> bytes:
        count = self._count()
        self._last = batch_at(*[NOW_MS] * count, producer_id=7, producer_epoch=0, base_sequence=self._sequence)
        self._sequence += count
        return self._request(self._last)

    def again(self) -> bytes:
        return self._request(self._last)

    def gap(self) -> bytes:
        sequence = self._sequence + self._draw(st.integers(-2, 3))
        return self._request(batch_at(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=max(sequence, -1)))

    def other_epoch(self) -> bytes:
        epoch = self._draw(st.integers(-1, 1))
        return self._request(batch_at(NOW_MS, producer_id=7, producer_epoch=epoch, base_sequence=self._sequence))

    def other_partition(self) -> bytes:
        return self._request(batch_at(NOW_MS), partition=self._draw(st.sampled_from((1, 1, 2, -1))))

    def other_topic(self) -> bytes:
        return self._request(
            batch_at(NOW_MS), topic=self._draw(st.sampled_from(("u", "missing", "__consumer_offsets")))
        )

    def other_acks(self) -> bytes:
        return self._request(batch_at(NOW_MS), acks=self._draw(st.sampled_from((1, -1, 2))))

    def times(self) -> bytes:
        distances = self._draw(
            st.lists(st.sampled_from((0, -20_000, 20_000, -5000, -(10**12))), min_size=1, max_size=3)
        )
        return self._request(batch_at(*(NOW_MS + distance for distance in distances)))

    def compressed(self) -> bytes:
        time_ms = NOW_MS - self._draw(st.sampled_from((0, 0, 20_000)))
        return self._request(batch_at(time_ms, time_ms, codec=self._draw(st.sampled_from((Codec.GZIP, Codec.ZSTD)))))

    def transactional(self) -> bytes:
        return self._request(
            batch_at(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=self._sequence, is_transactional=True)
        )

    def wrong_max(self) -> bytes:
        """A max timestamp that is none of the records, in a batch that is intact else."""
        batch = bytearray(batch_at(NOW_MS, NOW_MS))
        struct.pack_into(">q", batch, 35, NOW_MS - self._draw(st.sampled_from((1, 50_000))))
        update_crc(batch, 0, len(batch))
        return self._request(bytes(batch))

    def two_batches(self) -> bytes:
        batch = batch_at(NOW_MS)
        return self._request(batch + batch[: self._draw(st.sampled_from((1, 20, len(batch))))])

    def no_records(self) -> bytes:
        return self._request(self._draw(st.sampled_from((None, b""))))

    def damaged(self) -> bytes:
        # Not with a topic's id, whose bytes differ between the brokers: they may come to be read as something else.
        data = bytearray(self._request(batch_at(NOW_MS), version=min(self._version, 12)))
        data[self._draw(st.integers(4, len(data) - 1))] ^= 1 << self._draw(st.integers(0, 7))
        return bytes(data)

    def versions(self) -> bytes:
        frame = struct.pack(">hhih", 18, 0, 5, -1)
        return struct.pack(">i", len(frame)) + frame


_USUAL: Final = (Stream.plain, Stream.next, Stream.large)
KINDS: Final = (
    *_USUAL * 8,
    Stream.again,
    Stream.gap,
    Stream.other_epoch,
    Stream.other_partition,
    Stream.other_topic,
    Stream.other_acks,
    Stream.times,
    Stream.compressed,
    Stream.transactional,
    Stream.wrong_max,
    Stream.two_batches,
    Stream.no_records,
    Stream.damaged,
    Stream.versions,
)

SETTINGS: Final = st.fixed_dictionaries(
    {},
    optional={
        "segment_bytes": st.sampled_from(("1000", "3000")),
        "segment_index_bytes": st.sampled_from(("24", "60")),
        "segment_ms": st.just("20000"),
        "index_interval_bytes": st.sampled_from(("0", "200")),
        "flush_messages": st.sampled_from(("1", "5")),
        "max_message_bytes": st.just("900"),
        "message_timestamp_type": st.just("LogAppendTime"),
        "message_timestamp_before_max_ms": st.just("15000"),
        "min_insync_replicas": st.just("2"),
    },
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), SETTINGS, st.booleans())
def test_requests_that_come_together_are_answered_as_alone(
    data: st.DataObject, config: dict[str, str], disk_fails: bool
) -> None:
    alone, together = Broker(takes_runs=False), Broker(takes_runs=True)
    for broker in (alone, together):
        broker.create_topic("t", 2, **config)
        broker.create_topic("u")
    stream = Stream(data.draw)
    for _ in range(data.draw(st.integers(1, 3))):
        sent = stream.requests()
        is_full = disk_fails and data.draw(st.booleans())
        for broker in (alone, together):
            broker.set_disk(errno.ENOSPC if is_full else 0)
            broker.sender.receive(sent)
            broker.set_disk(0)
        assert together.effects() == alone.effects()
        if data.draw(st.booleans()):
            for broker in (alone, together):
                broker.flush()
    for broker in (alone, together):
        broker.scheduler.run(60_000)
        broker.flush()
    assert together.sender.answered == alone.sender.answered
    assert together.effects() == alone.effects()
    event(f"runs of {sorted(set(together.sender.runs))}")


def _both_receive(sent: bytes, **config: str) -> tuple[Broker, Broker]:
    alone, together = Broker(takes_runs=False), Broker(takes_runs=True)
    for broker in (alone, together):
        broker.create_topic("t", 2, **config)
        broker.sender.receive(sent)
    assert together.effects() == alone.effects()
    assert together.sender.answered == alone.sender.answered
    return alone, together


@pytest.mark.parametrize("version", [7, 8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1, 0])
def test_a_run_is_one_write_and_one_answer(version: int, acks: int) -> None:
    sent = b"".join(
        request(batch_at(*[NOW_MS] * (1 + number % 3)), number, topic=topic_of(version), version=version, acks=acks)
        for number in range(20)
    )
    _, together = _both_receive(sent)
    # The first batch of a segment is appended alone.
    assert together.sender.runs == [19]


def test_a_run_has_an_end() -> None:
    sent = b"".join(request(batch_at(NOW_MS), number) for number in range(MOST_REQUESTS + 10))
    _, together = _both_receive(sent)
    assert together.sender.runs == [MOST_REQUESTS, 9]


def test_sequence_numbers_come_round_within_a_run() -> None:
    sequences = [2**31 - 4, 2**31 - 2, 0, 2]
    sent = b"".join(
        request(batch_at(NOW_MS, NOW_MS, producer_id=7, producer_epoch=3, base_sequence=sequence), number)
        for number, sequence in enumerate(sequences)
    )
    _, together = _both_receive(sent)
    assert together.sender.runs == [3]


def test_a_run_with_a_batch_that_was_there_before_is_handled_one_by_one() -> None:
    batches = [
        batch_at(NOW_MS, producer_id=7, producer_epoch=3, base_sequence=sequence) for sequence in (0, 1, 1, 2, 3)
    ]
    _, together = _both_receive(b"".join(request(batch, number) for number, batch in enumerate(batches)))
    assert together.sender.runs == [1, 2]


def test_what_finds_room_on_a_full_disk_is_appended() -> None:
    """The write of the run fails, and the batches are appended one by one as far as there is room."""
    broker = Broker(takes_runs=True)
    broker.create_topic("t")
    broker.sender.receive(request(batch_at(NOW_MS)))
    broker.files.fail_at = {broker.files.changes_made: errno.ENOSPC}
    broker.sender.receive(b"".join(request(batch_at(NOW_MS), number) for number in range(2, 6)))
    assert broker.sender.runs == [3]
    partition = broker.node.partitions.find("t", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 5
    answered = b"".join(answer for answer in broker.sender.answers if answer)
    size = len(answered) // 5
    assert [answered[at + 4 : at + 8] for at in range(0, 5 * size, size)] == [
        struct.pack(">i", number) for number in range(1, 6)
    ]


def test_a_disk_that_fails_ends_the_use_of_its_directory() -> None:
    broker = Broker(takes_runs=True)
    broker.create_topic("t")
    broker.sender.receive(request(batch_at(NOW_MS)))
    broker.files.fail_at = {broker.files.changes_made: errno.EIO}
    broker.sender.receive(b"".join(request(batch_at(NOW_MS), number) for number in range(2, 6)))
    partition = broker.node.partitions.find("t", 0)
    assert partition is not None
    assert partition.has_failed
    assert broker.node.counters.requests[0].errors == {ErrorCode.kafka_storage_error: 4}


@pytest.mark.parametrize("in_time", [True, False])
def test_a_run_waits_for_replicas_as_each_of_its_requests(in_time: bool, tmp_path: Path) -> None:
    """What followers have when the time is over is acknowledged; the rest is not."""
    answered = []
    for takes_runs in (False, True):
        broker = ReplicaHarness(tmp_path / f"log {takes_runs}")
        broker.tell(leader=0, leader_epoch=0, in_sync=[0, 1], replicas=[0, 1])
        sender = Sender(broker, takes_runs=takes_runs)
        sender.receive(b"".join(request(batch_at(NOW_MS, NOW_MS), number, acks=-1) for number in range(5)))
        assert sender.runs == ([4] if takes_runs else [])
        broker.fetch_as(1, 6)
        if in_time:
            broker.fetch_as(1, 10)
        broker.pass_time(1000)
        broker.fetch_as(1, 10)
        produce = broker.node.counters.requests[0]
        answered.append((sender.answered, produce.errors, sum(produce.total.counts)))
        broker.close(clean=False)
    assert answered[0] == answered[1]
    assert answered[1][1:] == (({}, 5) if in_time else ({ErrorCode.request_timed_out: 2}, 5))


@pytest.mark.parametrize("quota", ["limits_bytes", "limits_requests"])
def test_requests_under_a_quota_are_handled_alone(quota: str) -> None:
    broker = Broker(takes_runs=True)
    broker.create_topic("t")
    setattr(broker.node.quotas, quota, True)
    broker.sender.receive(b"".join(request(batch_at(NOW_MS), number) for number in range(5)))
    assert broker.sender.runs == []
    assert len(broker.sender.answers) == 5


def test_a_client_that_is_refused_for_ever_costs_no_more_each_time() -> None:
    broker = Broker(takes_runs=True)
    broker.create_topic("t")
    duplicate = batch_at(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0)
    for number in range(100):
        broker.sender.receive(request(duplicate, number))
    assert len(broker.sender.answers) == 100
    assert 0 < broker.sender.client.refused_runs <= MOST_REQUESTS.bit_length()


@settings(deadline=None)
@given(st.data(), st.binary(max_size=200))
def test_whatever_comes_reading_a_run_ends(data: st.DataObject, noise: bytes) -> None:
    """Bytes of strangers: an answer, or none, and never an exception or a read past the end."""
    version = data.draw(st.sampled_from((7, 9, 13)))
    good = b"".join(request(batch_at(NOW_MS), number, topic=topic_of(version), version=version) for number in range(4))
    sent = bytearray(good)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(sent) - 1))
        sent[at : at + data.draw(st.integers(0, 5))] = noise[: data.draw(st.integers(0, 20))]
    start = data.draw(st.integers(0, len(sent)))
    end = data.draw(st.integers(start, len(sent)))
    buffer = memoryview(sent)
    shape = shape_of(memoryview(bytearray(good))[4:])
    assert shape is not None
    shape_of(buffer[start:end])
    run = read_run(buffer, start, end, shape, most_frame_bytes=10_000, most_batch_bytes=1000, now_ms=NOW_MS)
    if run is not None:
        assert start < run.end <= end
        assert run.size_bytes == sum(len(batch.records) for batch in run.batches)
