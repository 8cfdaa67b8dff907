"""The topics that brokers write; of those with their state: partition of a key, append, read back.

A coordinator is asked for things by name: a group, a transactional id. All that concerns one name is in one partition,
by the hash of the name, and the broker that leads the partition coordinates the name. What becomes of a partition here:

    elsewhere      this broker becomes its leader         loading: read back a slice at a time while the broker serves
    loading        it is read                             here
    loading        its records cannot be understood       unreadable
    any            the broker leads it no longer          elsewhere: pending requests fail, what was loaded is forgotten
    any            a later leader epoch of this broker    as before: nobody else wrote in between

Names of a partition that is elsewhere answer NOT_COORDINATOR, of one that is loading COORDINATOR_LOAD_IN_PROGRESS, of
an unreadable one COORDINATOR_NOT_AVAILABLE. A broker that runs alone leads all partitions from its start on.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import ClusterView
from highwater.broker.log.partition_log import Appended
from highwater.broker.replica.partition import Partition
from highwater.broker.runtime import Runtime
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.topic import Topic
from highwater.kafka.records.batch import NO_PRODUCER_ID, BatchHeader, Codec, CorruptBatch, headers
from highwater.kafka.records.record import Record, encode_batch

_logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
CLIENT_METRICS_TOPIC: Final = "_highwater_client_metrics"
INTERNAL_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC, CLIENT_METRICS_TOPIC))
"""Shown as internal, and written by brokers only."""
ADMIN_CLIENT_ID: Final = "__admin_client"
"""Kafka lets tools of this name write to internal topics (AdminUtils.ADMIN_CLIENT_ID)."""

_LOAD_SLICE_NS: Final = 10_000_000
_TELL_PROGRESS_NS: Final = 1_000_000_000

MOST_TEXT_BYTES: Final = 32_000
"""The limit of any name in a request: records and older responses have 15 bits for the length of a text."""

KeyValue = tuple[bytes, bytes | None]
"""A record of such a topic; without a value it is a tombstone."""


class TopicPlan(NamedTuple):
    """How an internal topic is created."""

    partition_count: int
    replication_factor: int
    overrides: Mapping[str, str | None]

    def for_one_broker(self) -> TopicPlan:
        """The plan as far as a broker that runs alone can fulfil it."""
        low = {name: "1" for name in self.overrides if name == "min.insync.replicas"}
        return TopicPlan(self.partition_count, 1, {**self.overrides, **low})


def plan_of(name: str, config: BrokerConfig) -> TopicPlan | None:
    """None for a topic that is not internal."""
    if name == OFFSETS_TOPIC:
        return TopicPlan(
            config.integer("offsets.topic.num.partitions"),
            config.integer("offsets.topic.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return TopicPlan(
            config.integer("transaction.state.log.num.partitions"),
            config.integer("transaction.state.log.replication.factor"),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
                "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
            },
        )
    if name == CLIENT_METRICS_TOPIC:
        return TopicPlan(1, config.integer("default.replication.factor"), _OF_CLIENT_METRICS)
    return None


_OF_CLIENT_METRICS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    # Compressed again, a payload may take a little more than `telemetry.max.bytes`.
    "max.message.bytes": str(4 * 1024 * 1024),
    "retention.bytes": str(512 * 1024 * 1024),
    "retention.ms": str(24 * 60 * 60 * 1000),
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
}
"""A day of them, or half a gigabyte."""


class _Led:
    """A partition that this broker leads."""

    __slots__ = ("leader_epoch", "partition", "refusal")

    def __init__(self, partition: Partition, leader_epoch: int, refusal: ErrorCode | None) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.refusal = refusal
        """Why nothing can be said of its names now, or None."""


class InternalTopic:
    """One of these topics as its coordinator uses it."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        cluster: ClusterView,
        name: str,
        holds: str,
        load: Callable[[Partition], Iterator[None]],
        unload: Callable[[int], None],
        *,
        codec: Codec = Codec.NONE,
        read_bytes: int,
    ) -> None:
        """`load` takes up what one partition holds: it yields from time to time, at which it may be abandoned, and
        raises CorruptBatch. `unload` forgets what it held, by its index.
        """
        self._clock = runtime.clock
        self._scheduler = runtime.scheduler
        self._partitions = partitions
        self._cluster = cluster
        self._name = name
        self._holds = holds
        self._load_partition = load
        self._unload_partition = unload
        self._codec = codec
        self._read_bytes = read_bytes
        self._partition_count = 0
        self._led: dict[int, _Led] = {}
        self._to_load: deque[_Led] = deque()

    @property
    def is_loading(self) -> bool:
        return bool(self._to_load)

    @property
    def partition_count(self) -> int:
        """The count when the whole topic was first seen, since keys must not go elsewhere than where their records are.

        0: not known, or there is no topic. (Kafka's coordinators keep the count from their start.) Partitions
        without a live replica may be reported later than the others, or not at all if they never had a leader.
        """
        if not self._partition_count:
            topic = self._cluster.topic(self._name)
            partitions = () if topic is None else topic.partitions
            if all(index in partitions for index in range(len(partitions))):
                self._partition_count = len(partitions)
        return self._partition_count

    def on_leader(self, index: int, leader_epoch: int) -> None:
        """This broker leads that partition now: begin to load it."""
        led = self._led.get(index)
        if led is not None:
            led.leader_epoch = max(led.leader_epoch, leader_epoch)
            return
        partition = self._partitions.find(self._name, index)
        if partition is None:
            raise RuntimeError(f"{self._name}-{index} is led here and not here")
        is_empty = partition.log.log_end_offset == partition.log.log_start_offset
        led = _Led(partition, leader_epoch, None if is_empty else ErrorCode.coordinator_load_in_progress)
        self._led[index] = led
        if not is_empty:
            self._to_load.append(led)
            if len(self._to_load) == 1:
                self._scheduler.call_soon(partial(self._load_slice, self._load()))

    def on_follower(self, index: int) -> None:
        """This broker does not lead that partition, or has it no longer."""
        if self._led.pop(index, None) is not None:
            self._unload_partition(index)

    def take_up(self, topic: Topic) -> None:
        """Lead the whole topic: the broker runs alone."""
        self._partition_count = topic.partition_count
        for index in range(self._partition_count):
            self.on_leader(index, topic.partitions[index].leader_epoch)

    def forget(self) -> None:
        """The topic was deleted."""
        for index in tuple(self._led):
            self.on_follower(index)
        self._partition_count = 0

    def forget_if_gone(self) -> None:
        """Partitions were deleted in the cluster."""
        if self._partition_count and self._cluster.topic(self._name) is None:
            self.forget()

    def refusal(self, key: str) -> ErrorCode | None:
        """Why nothing can be said about `key` now, or None."""
        led = self._led_of(key)
        return ErrorCode.not_coordinator if led is None else led.refusal

    def index_of(self, key: str) -> int | None:
        """The partition that the records of `key` are in, wherever that is; None while there is no topic."""
        count = self.partition_count
        return partition_of(key, count) if count else None

    def _led_of(self, key: str) -> _Led | None:
        index = self.index_of(key)
        return None if index is None else self._led.get(index)

    def partition(self, key: str) -> Partition | None:
        """Where the records of `key` are; None if that is not led here."""
        led = self._led_of(key)
        return None if led is None else led.partition

    def leader_epoch(self, key: str) -> int:
        """The leader epoch of the partition with the records of `key`; -1 if it is not led here."""
        led = self._led_of(key)
        return -1 if led is None else led.leader_epoch

    def append(
        self,
        key: str,
        records: Sequence[KeyValue],
        now_ms: int,
        then: Callable[[ErrorCode], None],
        producer: tuple[int, int] | None = None,
        *,
        by_version_2: bool = False,
        timeout_ms: int | None,
        however_late: Callable[[ErrorCode], None] = lambda _: None,
    ) -> None:
        """Append these as one batch, and call back when they are safe (the high watermark has passed them) or refused.

        That may be before this returns. With `producer`, (id, epoch), they are part of its transaction;
        `by_version_2`: of one of version 2. Replicas that take longer than `timeout_ms` are not waited for:
        REQUEST_TIMED_OUT, though the records may be safe later; only `however_late`, called before `then`, hears of
        that. None: they are waited for.
        """
        partition = self.partition(key)

        def end(error: ErrorCode) -> None:
            however_late(error)
            then(error)

        if partition is None:
            end(ErrorCode.not_leader_or_follower)
            return
        producer_id, producer_epoch = producer or (NO_PRODUCER_ID, -1)
        batch = encode_batch(
            [Record(value, key, now_ms) for key, value in records],
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            # There is no sequence; Kafka writes 0 in a transaction (GroupMetadataManager.storeOffsets).
            base_sequence=-1 if producer is None else 0,
            is_transactional=producer is not None,
        )
        try:
            appended = partition.append(memoryview(batch), -1, now_ms, by_version_2=by_version_2, by_coordinator=True)
        except OSError:  # the partition reports it
            end(ErrorCode.kafka_storage_error)
            return
        if not isinstance(appended, Appended):
            reason = appended if isinstance(appended, ErrorCode) else appended.error_code
            place = f"{self._name}-{partition.index}"
            _logger.error("cannot append %d bytes of %.200s to %s: %s", len(batch), key, place, reason.name)
            end(reason)
        elif partition.is_acknowledged(appended.last_offset):
            end(ErrorCode.none)
        else:
            if timeout_ms is not None and len(partition.replicas) > 1:
                then = self._at_most_after(timeout_ms, then)
            partition.when_acknowledged(appended.last_offset, end)

    def _at_most_after(self, timeout_ms: int, then: Callable[[ErrorCode], None]) -> Callable[[ErrorCode], None]:
        """A callback that is `then`, which hears of a time-out if it is not called in time, and nothing after it."""
        is_open = True

        def once(error: ErrorCode) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                timer.cancel()
                then(error)

        timer = self._scheduler.call_later(timeout_ms, lambda: once(ErrorCode.request_timed_out))
        return once

    def batches(self, partition: Partition) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Every batch of the partition from its start, control batches too, and those that come meanwhile.

        Raises CorruptBatch.
        """
        log = partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            chunk = log.read(offset, self._read_bytes, end_offset=log.log_end_offset, at_least_one_batch=True)
            if isinstance(chunk, ErrorCode):
                raise CorruptBatch(f"offset {offset} cannot be read: {chunk.name}")
            if not chunk:
                return
            for position, header in headers(chunk):
                offset = header.next_offset
                yield header, memoryview(chunk)[position:]

    # Loading

    def _load_slice(self, work: Iterator[None]) -> None:
        clock = self._clock
        until_ns = clock.monotonic_ns() + _LOAD_SLICE_NS
        for _ in work:
            if clock.monotonic_ns() >= until_ns:
                self._scheduler.call_soon(partial(self._load_slice, work))
                return

    def _load(self) -> Iterator[None]:
        clock = self._clock
        told_ns = clock.monotonic_ns()
        done = 0
        while self._to_load:
            led = self._to_load[0]
            try:
                for _ in self._load_partition(led.partition) if self._is_led(led) else ():
                    if clock.monotonic_ns() - told_ns >= _TELL_PROGRESS_NS:
                        told_ns = clock.monotonic_ns()
                        total = done + len(self._to_load)
                        _logger.info("loading %s: %d of %d partitions", self._holds, done, total)
                    yield
                    if not self._is_led(led):
                        break
                else:
                    led.refusal = None
            except CorruptBatch as error:
                led.refusal = ErrorCode.coordinator_not_available
                _logger.error(
                    "the %s in %s-%d are not available: %s; recover the log or delete the topic to begin anew",
                    self._holds,
                    self._name,
                    led.partition.index,
                    error,
                )
            self._to_load.popleft()
            done += 1

    def _is_led(self, led: _Led) -> bool:
        """Not if it was given up meanwhile, though it may be led again since."""
        return self._led.get(led.partition.index) is led


def fits(text: str) -> bool:
    """Return whether a record can hold this text."""
    return len(text) <= MOST_TEXT_BYTES and (text.isascii() or len(text.encode(errors="replace")) <= MOST_TEXT_BYTES)


APPEND_ERRORS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}
"""The errors that clients of a coordinator get when its log refuses a record."""


def partition_of(key: str, partition_count: int) -> int:
    """Where the records of a key are: by Java's hash of it, as Kafka has it."""
    hashed = 0
    utf_16 = key.encode("utf-16-be")
    for unit in struct.unpack(f">{len(utf_16) // 2}H", utf_16):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # Java's abs of its least integer is negative, so Kafka takes 0 there (Utils.abs).
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count
