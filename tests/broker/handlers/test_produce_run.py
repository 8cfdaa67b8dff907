"""Requests that are handled as one: the same answers and the same effects as when each is handled alone."""

from __future__ import annotations

import errno
import gc
import struct
from collections.abc import Callable, Iterable
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
from highwater.kafka.protocol.produce_run import PartitionRun, RunBatch, shape_of
from highwater.kafka.protocol.produce_run_reader import MOST_BATCHES, RunReader
from highwater.kafka.records.batch import Codec, update_crc
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import LISTENER, NodeHarness, decode_answer, one_batch, request_frame
from tests.broker.log.simulated_files import SimulatedFiles
from tests.broker.replica.replicating import ReplicaHarness

LOG_DIR: Final = Path("/data")
NOW_MS: Final = 1_700_000_000_000
TOPIC_IDS: Final = {"t": UUID(int=2**127 + 5), "u": UUID(int=2**127 + 6)}
"""What stands in requests for the ids of topics."""
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
        for name, topic_id in self._topic_ids.items():
            data = data.replace(TOPIC_IDS[name].bytes, topic_id.bytes)
        buffer, position = memoryview(bytearray(data)), 0
        while len(buffer) - position >= 4:
            end = position + 4 + int.from_bytes(buffer[position : position + 4], "big", signed=True)
            if not 0 <= end - position - 4 <= MOST_FRAME_BYTES:
                self.answers.append(b"an impossible length")
                return
            try:
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
                self._note(self._node.dispatcher.dispatch(buffer[position + 4 : end], self.client, 0))
            except MalformedRequestError as error:
                self.answers.append(f"malformed: {error}".encode())
                return
            except CloseConnection:
                self.answers.append(b"closed")
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
        answered = b"".join(answer for answer in self.answers if answer)
        for name, topic_id in self._topic_ids.items():
            answered = answered.replace(topic_id.bytes, TOPIC_IDS[name].bytes)
            answered = answered.replace(str(topic_id).encode(), b"its id")
        return answered

    @property
    def _topic_ids(self) -> dict[str, UUID]:
        found = {name: self._node.node.partitions.topic(name) for name in TOPIC_IDS}
        return {name: topic.topic_id for name, topic in found.items() if topic is not None}


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
            )
        found["flushes"] = {partition.index for partition in self.wanted_flushes}
        return found

    def counted(self, *, is_over: bool = False) -> list[Any]:
        """Until it is over, answers may be late that wait for each other."""
        counters = self.node.counters
        produce = counters.requests[0]
        return [
            [_values(partition.counters) for partition in self.node.partitions.all()],
            produce.requests_by_version,
            produce.errors,
            [sum(histogram.counts) for histogram in (produce.queue, produce.local)],
            sum(produce.total.counts) if is_over else 0,
            counters.authorizations_asked,
            _values(counters.unknown_topics),
        ]

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
    batch: bytes | None, number: int = 1, *, topic: Any = "t", partition: int = 0, acks: int = 1, version: int = 9
) -> bytes:
    return request_of([(topic, [(partition, batch)])], number, acks=acks, version=version)


def request_of(
    topics: Iterable[tuple[Any, Iterable[tuple[int, bytes | None]]]],
    number: int = 1,
    *,
    acks: int = 1,
    version: int = 9,
) -> bytes:
    key = "topic_id" if version >= 13 else "name"
    frame = request_frame(
        "produce",
        version,
        number,
        acks=acks,
        timeout=1000,
        topic_data=[
            {key: topic, "partition_data": [{"index": index, "records": batch} for index, batch in partitions]}
            for topic, partitions in topics
        ],
    )
    return struct.pack(">i", len(frame)) + frame


def batch_at(*times_ms: int, **options: Any) -> bytes:
    records = [Record(b"value %d" % number, timestamp_ms=time_ms) for number, time_ms in enumerate(times_ms)]
    return bytes(encode_batch(records, **options))


def topic_of(version: int, name: str = "t") -> str | UUID:
    return TOPIC_IDS.get(name, UUID(int=9)) if version >= 13 else name


class Stream:
    """What one client sends; `draw` decides."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw
        self._version = draw(st.sampled_from((9, 7, 8, 11, 12, 13, 6)))
        self._acks = draw(st.sampled_from((1, -1, 0)))
        self._number = 0
        self._sequences: dict[tuple[str, int], int] = {}
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
        options["topic"] = topic_of(options["version"], options["topic"])
        return request(batch, self._number, **options)

    def _count(self) -> int:
        return int(self._draw(st.integers(1, 3)))

    def _partition(self) -> int:
        return int(self._draw(st.sampled_from((0, 0, 1))))

    def plain(self) -> bytes:
        return self._request(batch_at(*[NOW_MS] * self._count()), partition=self._partition())

    def large(self) -> bytes:
        return self._request(one_batch(bytes(self._draw(st.integers(500, 1500)))))

    def _next(self, topic: str = "t", partition: int = 0) -> bytes:
        count, sequence = self._count(), self._sequences.get((topic, partition), 0)
        self._last = batch_at(*[NOW_MS] * count, producer_id=7, producer_epoch=0, base_sequence=sequence)
        self._sequences[topic, partition] = sequence + count
        return self._last

    def next(self) -> bytes:
        partition = self._partition()
        return self._request(self._next("t", partition), partition=partition)

    def several(self) -> bytes:
        """Several topics and partitions in one request."""
        topics = []
        for topic in self._draw(st.lists(st.sampled_from("tu"), min_size=1, max_size=3)):
            partitions = self._draw(st.lists(st.sampled_from((0, 0, 1, 1, 1, 2)), min_size=1, max_size=3))
            parts = [(partition, self._one_of_several(topic, partition)) for partition in partitions]
            topics.append((topic_of(self._version, topic), parts))
        self._number += 1
        return request_of(topics, self._number, version=self._version, acks=self._acks)

    def _one_of_several(self, topic: str, partition: int) -> bytes | None:
        kind = self._draw(st.integers(0, 20))
        if kind == 0:
            return self._last
        if kind == 1:
            return None
        if kind == 2:
            return batch_at(NOW_MS - 20_000)
        return self._next(topic, partition) if kind & 1 else batch_at(*[NOW_MS] * self._count())

    def round_robin(self) -> bytes:
        return b"".join(
            self._request(
                self._next("tu"[number // 2 % 2], number % 2), topic="tu"[number // 2 % 2], partition=number % 2
            )
            for number in range(self._draw(st.integers(1, 8)))
        )

    def again(self) -> bytes:
        return self._request(self._last)

    def gap(self) -> bytes:
        sequence = self._sequences.get(("t", 0), 0) + self._draw(st.integers(-2, 3))
        return self._request(batch_at(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=max(sequence, -1)))

    def other_epoch(self) -> bytes:
        epoch, sequence = self._draw(st.integers(-1, 1)), self._sequences.get(("t", 0), 0)
        return self._request(batch_at(NOW_MS, producer_id=7, producer_epoch=epoch, base_sequence=sequence))

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
            batch_at(
                *(NOW_MS,),
                producer_id=7,
                producer_epoch=0,
                base_sequence=self._sequences.get(("t", 0), 0),
                is_transactional=True,
            )
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


_USUAL: Final = (Stream.plain, Stream.next, Stream.large, Stream.several, Stream.round_robin)
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
        broker.create_topic("u", 2)
    stream = Stream(data.draw)
    was_full = False
    for _ in range(data.draw(st.integers(1, 3))):
        sent = stream.requests()
        is_full = disk_fails and data.draw(st.booleans())
        was_full |= is_full
        for broker in (alone, together):
            broker.set_disk(errno.ENOSPC if is_full else 0)
            broker.sender.receive(sent)
            broker.set_disk(0)
        assert together.effects() == alone.effects()
        assert was_full or together.counted() == alone.counted()
        if data.draw(st.booleans()):
            for broker in (alone, together):
                broker.flush()
    for broker in (alone, together):
        broker.scheduler.run(60_000)
        broker.flush()
    assert together.effects() == alone.effects()
    if was_full:
        # Behind a batch that found no room the next one of its producer is out of order, if it is handled alone.
        assert len(together.sender.answered) == len(alone.sender.answered)
    else:
        assert together.sender.answered == alone.sender.answered
        assert together.counted(is_over=True) == alone.counted(is_over=True)
    event(f"runs of {sorted(set(together.sender.runs))}")


def _both_receive(sent: bytes, **config: str) -> tuple[Broker, Broker]:
    alone, together = Broker(takes_runs=False), Broker(takes_runs=True)
    for broker in (alone, together):
        broker.create_topic("t", 8, **config)
        broker.create_topic("u")
        broker.sender.receive(sent)
    assert together.effects() == alone.effects()
    assert together.counted(is_over=True) == alone.counted(is_over=True)
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


def writes_of(broker: Broker, sent: bytes) -> int:
    before = broker.files.changes_made
    broker.sender.receive(sent)
    return broker.files.changes_made - before


@pytest.mark.parametrize("version", [7, 8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1, 0])
def test_a_run_over_several_partitions_is_a_write_for_each(version: int, acks: int) -> None:
    """As librdkafka sends: one partition in each request, and in turns."""
    first = request_of([(topic_of(version), [(index, batch_at(NOW_MS)) for index in range(8)])], version=version)
    sent = b"".join(
        request(
            batch_at(*[NOW_MS] * (1 + n % 3)), n, topic=topic_of(version), partition=n % 8, version=version, acks=acks
        )
        for n in range(64)
    )
    _, together = _both_receive(first + sent)
    assert together.sender.runs == [64]
    assert writes_of(together, sent) == 8


@pytest.mark.parametrize("version", [7, 8, 9, 13])
@pytest.mark.parametrize("acks", [1, -1, 0])
def test_a_run_of_requests_with_several_topics_is_a_write_for_each_partition(version: int, acks: int) -> None:
    """As Java's client sends: all that a broker is to get in one request."""
    sent = b"".join(
        request_of(
            [
                (topic_of(version), [(index, batch_at(NOW_MS)) for index in range(number % 3, 4)]),
                (topic_of(version, "u"), [(0, batch_at(NOW_MS, NOW_MS))]),
            ],
            number,
            version=version,
            acks=acks,
        )
        for number in range(10)
    )
    _, together = _both_receive(sent)
    assert together.sender.runs == [9]
    assert writes_of(together, sent) == 5


@pytest.mark.parametrize("unfit", [None, b"", bytes(100), batch_at(NOW_MS, base_sequence=5, producer_id=1)])
def test_a_request_with_a_partition_that_does_not_fit_is_handled_alone(unfit: bytes | None) -> None:
    """The parts of it that are read already are appended once."""
    fit = [(index, batch_at(NOW_MS)) for index in range(3)]
    requests = [request_of([("t", fit)], number) for number in range(5)]
    requests[3] = request_of([("t", [*fit[:2], (2, unfit)])], 3)
    _, together = _both_receive(b"".join(requests))
    assert together.sender.runs == [2, 1]


def test_a_request_may_have_a_partition_twice() -> None:
    batches = [batch_at(NOW_MS, producer_id=7, producer_epoch=0, base_sequence=number) for number in range(6)]
    sent = b"".join(
        request_of([("t", [(0, batches[number]), (0, batches[number + 1])])], number) for number in range(0, 6, 2)
    )
    _, together = _both_receive(sent)
    assert together.sender.runs == [2]


def test_a_request_with_more_batches_than_a_run_is_handled_alone() -> None:
    many = request_of([("t", [(number % 8, batch_at(NOW_MS)) for number in range(MOST_BATCHES + 1)])])
    _, together = _both_receive(many + request(batch_at(NOW_MS)) + many)
    assert together.sender.runs == [1]


def test_a_run_has_an_end() -> None:
    sent = b"".join(request(batch_at(NOW_MS), number) for number in range(MOST_BATCHES + 10))
    _, together = _both_receive(sent)
    assert together.sender.runs == [MOST_BATCHES, 9]


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


def _two_partitions(*, acks: int = 1) -> tuple[Broker, bytes]:
    """A broker, and requests to its two partitions that it takes as one run."""
    broker = Broker(takes_runs=True)
    broker.create_topic("t", 2)
    broker.sender.receive(b"".join(request(batch_at(NOW_MS), 1, partition=index) for index in range(2)))
    broker.sender.answers.clear()
    return broker, b"".join(request(batch_at(NOW_MS), n, partition=n % 2, acks=acks) for n in range(6))


def _ends_of_logs(broker: Broker) -> list[int]:
    return [partition.log.log_end_offset for partition in broker.node.partitions.all()]


def test_a_run_leaves_nothing_to_the_garbage_collector() -> None:
    broker, sent = _two_partitions()
    gc.collect()
    gc.disable()
    try:
        broker.sender.receive(sent)
        left = [thing for thing in gc.get_objects() if isinstance(thing, RunBatch | PartitionRun | RunReader)]
    finally:
        gc.enable()
    assert broker.sender.runs == [6]
    assert left == []


def test_a_write_that_fails_fails_for_each_batch_of_its_partition() -> None:
    broker, sent = _two_partitions()
    broker.files.fail_at = {broker.files.changes_made: errno.ENOSPC}
    broker.sender.receive(sent)
    assert broker.sender.runs == [6]
    assert _ends_of_logs(broker) == [1, 4]
    size = len(broker.sender.answered) // 6
    answers = [decode_answer("produce", 9, [broker.sender.answered[at : at + size]]) for at in range(0, 6 * size, size)]
    errors = [answer.responses[0].partition_responses[0].error_code for answer in answers]
    assert errors == [ErrorCode.kafka_storage_error, ErrorCode.none] * 3
    assert broker.node.counters.requests[0].errors == {ErrorCode.kafka_storage_error: 3}
    broker.sender.receive(sent)
    assert _ends_of_logs(broker) == [4, 7]


def test_a_write_that_fails_without_an_answer_ends_the_connection() -> None:
    broker, sent = _two_partitions(acks=0)
    broker.files.fail_at = {broker.files.changes_made: errno.ENOSPC}
    broker.sender.receive(sent)
    assert broker.sender.answers == [b"closed"]
    assert _ends_of_logs(broker) == [1, 4]


def test_a_disk_that_fails_ends_the_use_of_its_directory() -> None:
    broker, sent = _two_partitions()
    broker.files.fail_at = {broker.files.changes_made: errno.EIO}
    broker.sender.receive(sent)
    assert all(partition.has_failed for partition in broker.node.partitions.all())
    assert broker.node.counters.requests[0].errors == {ErrorCode.kafka_storage_error: 6}


@pytest.mark.parametrize("takes_runs", [True, False])
def test_who_waits_hears_of_a_disk_that_fails_in_the_same_request(takes_runs: bool) -> None:
    """The first partition was to be flushed when the write to the second one failed."""
    broker = Broker(takes_runs=takes_runs)
    broker.create_topic("t", 2, flush_messages="2")
    both = request_of([("t", [(0, batch_at(NOW_MS)), (1, batch_at(NOW_MS))])])
    broker.sender.receive(both)
    broker.files.fail_at = {broker.files.changes_made + 1: errno.EIO}
    broker.sender.receive(both)
    assert len(broker.sender.answers) == 2
    assert None not in broker.sender.answers
    assert broker.node.counters.requests[0].errors == {ErrorCode.kafka_storage_error: 2}


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


@settings(deadline=None)
@given(st.data(), st.binary(max_size=200))
def test_whatever_comes_reading_a_run_ends(data: st.DataObject, noise: bytes) -> None:
    """Bytes of strangers: an answer, or none, and never an exception or a read past the end."""
    version = data.draw(st.sampled_from((7, 9, 13)))
    broker = Broker(takes_runs=True)
    topic = broker.create_topic("t").topic_id if version >= 13 else broker.create_topic("t").name
    good = b"".join(request(batch_at(NOW_MS), number, topic=topic, version=version) for number in range(4))
    broker.sender.receive(request(batch_at(NOW_MS), topic=topic, version=version))
    sent = bytearray(good)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(sent) - 1))
        sent[at : at + data.draw(st.integers(0, 5))] = noise[: data.draw(st.integers(0, 20))]
    start = data.draw(st.integers(0, len(sent)))
    end = data.draw(st.integers(start, len(sent)))
    shape_of(memoryview(sent)[start:end])
    taken = broker.dispatcher.take_run(memoryview(sent), start, end, 10_000, broker.sender.client, 0)
    if taken is not None:
        assert start < taken[0] <= end
        assert _ends_of_logs(broker) == [1 + _frames_in(memoryview(sent)[start : taken[0]])]
