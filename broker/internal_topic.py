"""The topics in which the broker keeps its own state, compacted: where a key's records go, appending, reading back.

A coordinator is asked for things by name: a group, a transactional id. All that concerns one name is in one partition,
by the hash of the name. When the broker starts, each partition is read back a slice at a time while the broker already
serves; until then what is in it answers COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.log.partition_log import Appended
from broker.records.batch import NO_PRODUCER_ID, BatchHeader, Codec, CorruptBatch, headers
from broker.records.record import Record, encode_batch
from broker.replica.partition import Partition

if TYPE_CHECKING:
    from broker.config import BrokerConfig
    from broker.node import Node

_logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset((OFFSETS_TOPIC, TRANSACTIONS_TOPIC))
"""Shown as internal, and written by the broker only."""

_LOAD_SLICE_NS: Final = 10_000_000
_TELL_PROGRESS_NS: Final = 1_000_000_000

KeyValue = tuple[bytes, bytes | None]
"""A record of such a topic; without a value it is a tombstone."""


class TopicPlan(NamedTuple):
    """How an internal topic is created. The replication factor that is configured is more than one broker can give."""

    partition_count: int
    overrides: Mapping[str, str | None]


def plan_of(name: str, config: BrokerConfig) -> TopicPlan | None:
    """None for a topic that is not internal."""
    if name == OFFSETS_TOPIC:
        return TopicPlan(
            config.integer("offsets.topic.num.partitions"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return TopicPlan(
            config.integer("transaction.state.log.num.partitions"),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": "1",
                "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
            },
        )
    return None


class InternalTopic:
    """One of these topics as its coordinator uses it."""

    def __init__(
        self,
        node: Node,
        name: str,
        holds: str,
        load: Callable[[Partition], Iterator[None]],
        *,
        codec: Codec = Codec.NONE,
        read_bytes: int,
    ) -> None:
        """`load` takes up what one partition holds; it yields from time to time, and raises CorruptBatch."""
        self._node = node
        self._name = name
        self._holds = holds
        self._load_partition = load
        self._codec = codec
        self._read_bytes = read_bytes
        self._partitions: Sequence[Partition] = ()
        self._loading: set[int] = set()
        self._unreadable: set[int] = set()

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def take_up(self) -> None:
        """Begin to load the topic, if it exists."""
        topic = self._node.topic(self._name)
        # Its size as of now: partitions that are added later would send keys elsewhere than where their records are.
        self._partitions = () if topic is None else tuple(topic.partitions)
        self._loading = {
            partition.index
            for partition in self._partitions
            if partition.log.log_end_offset > partition.log.log_start_offset
        }
        if self._loading:
            self._node.scheduler.call_soon(partial(self._load_slice, self._load()))

    def forget(self) -> None:
        """The topic was deleted."""
        self._partitions = ()
        self._loading.clear()
        self._unreadable.clear()

    def refusal(self, key: str) -> ErrorCode | None:
        """Why nothing can be said about `key` now, or None."""
        if not self._partitions:
            return ErrorCode.not_coordinator
        index = partition_of(key, len(self._partitions))
        if index in self._loading:
            return ErrorCode.coordinator_load_in_progress
        return ErrorCode.coordinator_not_available if index in self._unreadable else None

    def index_of(self, key: str) -> int | None:
        """The partition that the records of `key` are in; None while there is no topic."""
        return partition_of(key, len(self._partitions)) if self._partitions else None

    def partition(self, key: str) -> Partition | None:
        """Where the records of `key` are; None while the topic does not exist."""
        return self._partitions[partition_of(key, len(self._partitions))] if self._partitions else None

    def append(
        self,
        key: str,
        records: Sequence[KeyValue],
        now_ms: int,
        then: Callable[[ErrorCode], None],
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Append these as one batch, and call back when they are safe (the high watermark has passed them) or refused.

        That may be before this returns. With `producer`, (id, epoch), they are part of its transaction.
        """
        partition = self.partition(key)
        if partition is None:
            then(ErrorCode.not_leader_or_follower)
            return
        producer_id, producer_epoch = producer or (NO_PRODUCER_ID, -1)
        batch = encode_batch(
            [Record(value, key, now_ms) for key, value in records],
            codec=self._codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            # There is no sequence to tell; Kafka writes 0 in a transaction (GroupMetadataManager.storeOffsets).
            base_sequence=-1 if producer is None else 0,
            is_transactional=producer is not None,
        )
        try:
            appended = partition.append(memoryview(batch), -1, now_ms, by_coordinator=True)
        except OSError:  # the partition tells of it
            then(ErrorCode.kafka_storage_error)
            return
        if not isinstance(appended, Appended):
            reason = appended if isinstance(appended, ErrorCode) else appended.error_code
            _logger.error("cannot append to %s-%d: %s", self._name, partition.index, reason.name)
            then(reason)
        else:
            partition.call_when_safe(appended.last_offset, then)

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
        clock = self._node.clock
        until_ns = clock.monotonic_ns() + _LOAD_SLICE_NS
        for _ in work:
            if clock.monotonic_ns() >= until_ns:
                self._node.scheduler.call_soon(partial(self._load_slice, work))
                return

    def _load(self) -> Iterator[None]:
        clock = self._node.clock
        told_ns = clock.monotonic_ns()
        partitions = [partition for partition in self._partitions if partition.index in self._loading]
        for done, partition in enumerate(partitions):
            try:
                for _ in self._load_partition(partition):
                    if clock.monotonic_ns() - told_ns >= _TELL_PROGRESS_NS:
                        told_ns = clock.monotonic_ns()
                        _logger.info("loading %s: %d of %d partitions", self._holds, done, len(partitions))
                    yield
                    if partition.index not in self._loading:
                        return  # The topic was deleted meanwhile.
            except CorruptBatch as error:
                self._unreadable.add(partition.index)
                _logger.error(
                    "the %s in %s-%d are not available: %s; recover the log or delete the topic to begin anew",
                    self._holds,
                    self._name,
                    partition.index,
                    error,
                )
            self._loading.discard(partition.index)


def partition_of(key: str, partition_count: int) -> int:
    """Where the records of a key are: by Java's hash of it, as Kafka has it."""
    hashed = 0
    utf_16 = key.encode("utf-16-be")
    for unit in struct.unpack(f">{len(utf_16) // 2}H", utf_16):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    # Java's abs of its least integer is negative, so Kafka takes 0 there (Utils.abs).
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count
