"""Copies records in transactions of the target cluster, which also contain the progress.

Each transaction of the target contains records of some partitions and, in the progress topic, the new progress of these
partitions. So a mirror that is killed at any moment continues exactly where its last transaction ended: no record is
lost, and consumers of committed records see none twice. The transactional id fences a second mirror of the same name
(KIP-98).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from highwater.admin.client import Cluster, Partition, refusal
from highwater.admin.mirroring.progress import (
    DamagedProgress,
    Progress,
    decode,
    decode_key,
    encode,
    encode_key,
)
from highwater.admin.terminal import CommandError
from highwater.common.topic_partition import partition_name

_BATCH: Final = 1000
_POLL_S: Final = 0.1
COMMIT_INTERVAL_MS: Final = 1000
_MOST_RECORDS: Final = 50_000
"""The most records of one transaction."""
_START_TIMEOUT_S: Final = 60.0
_FLUSH_TIMEOUT_S: Final = 120.0
_GONE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_PASSING: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)

Report = Callable[[str], None]


class _TryAgain(Exception):  # noqa: N818 - an order, not an error
    """The transaction failed: abort it and read its records again."""


class Copier:
    """Copies the records of one mirror. The caller assigns partitions, calls `work` repeatedly, and closes it."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        name: str,
        progress_topic: str,
        prefix: str,
        compression: str,
        say: Report,
    ) -> None:
        """Fence an earlier mirror of the same name and abort its open transaction. Raises CommandError."""
        self._prefix = prefix
        self._progress_topic = progress_topic
        self._say = say
        self._name = name
        self.progress: dict[Partition, Progress] = {}
        """The committed progress, by partition of the source."""
        self.without_timestamp = 0
        """The number of records without a timestamp; the target gives them the time of their copying."""
        self.record_count = 0
        self._pending: dict[Partition, Progress] = {}
        self._in_flight: dict[Partition, deque[int]] = {}
        self._failure: KafkaError | None = None
        self._began_ns = 0
        self._held_count = 0
        self._is_open = False
        self._at_end: set[Partition] = set()
        self._assigned: set[Partition] = set()
        self._producer = Producer(
            {
                **target.client_config,
                "transactional.id": f"highwater-mirror-{name}",
                "compression.codec": compression,
                "linger.ms": 20,
                # max.message.bytes of the target's topics limits records, not this client.
                "message.max.bytes": 1_000_000_000,
                "queue.buffering.max.messages": 2 * _MOST_RECORDS,
                "transaction.timeout.ms": 60_000,
            }
        )
        try:
            self._producer.init_transactions(_START_TIMEOUT_S)
        except KafkaException as error:
            raise refusal("the target's transactions", error) from None
        self._read_progress(target)
        self._consumer = Consumer(
            {
                **source.client_config,
                # librdkafka requires a group id; nothing is committed to this group.
                "group.id": f"highwater-mirror-{name}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 10_485_760,
                "queued.max.messages.kbytes": 65_536,
            }
        )

    def close(self) -> None:
        """Abort what has not been committed."""
        self._consumer.close()
        if self._is_open:
            try:
                self._producer.purge()
                self._producer.abort_transaction(_POLL_S)
            except KafkaException:
                # The next mirror of this name aborts the transaction, or the target after transaction.timeout.ms.
                return

    # Which partitions

    def assign(self, starts: Iterable[tuple[Partition, str, int]]) -> None:
        """Copy these partitions too: (partition, topic id, the source's log start offset). Known progress wins."""
        added = []
        for partition, topic_id, log_start_offset in starts:
            if partition in self._assigned:
                continue
            progress = self.progress.setdefault(partition, Progress(topic_id))
            progress.topic_id = progress.topic_id or topic_id
            if progress.source_offset < 0:
                progress.source_offset = log_start_offset
            self._assigned.add(partition)
            added.append(TopicPartition(*partition, progress.source_offset))
        if added:
            self._consumer.incremental_assign(added)

    def high_watermarks(self) -> dict[Partition, tuple[int, int]]:
        """Return (log start offset, high watermark) of each partition, from the source's last responses."""
        ranges = {}
        for partition in self._assigned:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            if high >= 0:
                ranges[partition] = (max(low, 0), high)
        return ranges

    @property
    def is_at_end(self) -> bool:
        """Whether all records below the last known high watermarks are copied and committed."""
        return not self._is_open and self._at_end >= self._assigned

    # Copying

    def work(self) -> int:
        """Read some records, send them to the target, and commit when it is time. Returns how many were read.

        Raises CommandError for an error that a retry does not solve.
        """
        messages = self._consumer.consume(_BATCH, _POLL_S)
        try:
            count = 0
            for message in messages:
                if message.error() is not None:
                    self._take_error(message)
                else:
                    self._copy(message)
                    count += 1
            self._producer.poll(0)
            if self._is_open and (self._is_due() or self._at_end >= self._assigned):
                self.commit()
            return count
        except _TryAgain:
            self._begin_again()
        except KafkaException as error:
            self._take_failure(error)
        return 0

    def _take_error(self, message: Message) -> None:
        error: Any = message.error()
        partition = (message.topic() or "", message.partition() or 0)
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(partition)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._skip_deleted(partition)
        elif error.code() in (
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        ):
            raise CommandError(f"{partition_name(*partition)} is gone from the source")
        elif error.code() not in _PASSING and not error.retriable():
            raise refusal(f"{partition_name(*partition)} of the source", KafkaException(error))

    def _skip_deleted(self, partition: Partition) -> None:
        """Continue at the log start offset, when retention deleted the next records. Raises CommandError for loss."""
        start, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=10)
        position = self._position(partition)
        if position > end:
            raise CommandError(
                f"{partition_name(*partition)} of the source ends at offset {end}, and the mirror is at {position}: "
                "the source has lost records or the topic was created again: use another --name and --prefix"
            )
        self._say(
            f"warning: the source deleted offsets {position} to {start - 1} of {partition_name(*partition)} before "
            "they were copied (retention)"
        )
        self._pending_of(partition).source_offset = start
        self._consumer.seek(TopicPartition(*partition, start))

    def _position(self, partition: Partition) -> int:
        in_flight = self._in_flight.get(partition)
        if in_flight:
            return in_flight[-1] + 1
        return (self._pending.get(partition) or self.progress[partition]).source_offset

    def _pending_of(self, partition: Partition) -> Progress:
        if partition not in self._pending:
            self._pending[partition] = self.progress[partition].copy()
        return self._pending[partition]

    def _copy(self, message: Message) -> None:
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True
            self._held_count = 0
            self._began_ns = time.monotonic_ns()
        self._held_count += 1
        partition = (message.topic() or "", message.partition() or 0)
        self._at_end.discard(partition)
        kind, timestamp_ms = message.timestamp()
        if kind == TIMESTAMP_NOT_AVAILABLE or timestamp_ms <= 0:
            self.without_timestamp += 1
            timestamp_ms = 0
        offset: Any = message.offset()
        self._in_flight.setdefault(partition, deque()).append(offset)
        arguments: dict[str, Any] = {
            "value": message.value(),
            "key": message.key(),
            "partition": partition[1],
            "timestamp": timestamp_ms,
            "headers": message.headers(),
            "on_delivery": self._delivered,
        }
        while True:
            try:
                self._producer.produce(self._prefix + partition[0], **arguments)
                return
            except BufferError:
                self._producer.poll(_POLL_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        partition = ((message.topic() or "").removeprefix(self._prefix), message.partition() or 0)
        source_offset = self._in_flight[partition].popleft()
        if error is not None:
            self._failure = self._failure or error
            return
        target_offset: Any = message.offset()
        self._pending_of(partition).copied(source_offset, target_offset)
        self.record_count += 1

    def _is_due(self) -> bool:
        age_ns = time.monotonic_ns() - self._began_ns
        return self._held_count >= _MOST_RECORDS or age_ns >= COMMIT_INTERVAL_MS * 1_000_000

    def finish(self) -> None:
        """Commit what has been read. Raises CommandError."""
        if self._is_open:
            try:
                self.commit()
            except (_TryAgain, KafkaException):
                # The next run copies the aborted records.
                self._begin_again()

    def commit(self) -> None:
        """End the transaction: records and progress become visible together. Raises KafkaException, _TryAgain."""
        left = self._producer.flush(_FLUSH_TIMEOUT_S)
        if self._failure is not None:
            raise KafkaException(self._failure)
        if left:
            raise _TryAgain
        for partition, progress in self._pending.items():
            progress.thin_out()
            self._producer.produce(self._progress_topic, encode(progress), encode_key(*partition), partition=0)
        self._producer.commit_transaction(_FLUSH_TIMEOUT_S)
        self.progress |= self._pending
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self._pending = {}
        self._in_flight = {}
        self._failure = None
        self._is_open = False

    def _take_failure(self, failure: KafkaException) -> None:
        error: KafkaError = failure.args[0]
        if error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            raise CommandError(f"another mirror named {self._name} has taken over; let one of them run") from None
        if error.code() in (
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.INVALID_RECORD,
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
        ):
            raise refusal("a record for the target", failure) from None
        if error.fatal():
            raise refusal("the target", failure) from None
        self._begin_again()

    def _begin_again(self) -> None:
        """Abort, and read again from the committed progress."""
        self._producer.purge()
        self._producer.flush(_POLL_S)
        try:
            self._producer.abort_transaction(_FLUSH_TIMEOUT_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.fatal() or not error.retriable():
                raise refusal("the target", failure) from None
            return
        self._forget_transaction()
        self._at_end.clear()
        self._consumer.assign(
            [TopicPartition(*partition, self.progress[partition].source_offset) for partition in self._assigned]
        )

    # Progress

    def _read_progress(self, target: Cluster) -> None:
        reader = Consumer(
            {
                **target.client_config,
                "group.id": f"highwater-mirror-{self._name}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            reader.assign([TopicPartition(self._progress_topic, 0, 0)])
            deadline_ns = time.monotonic_ns() + int(_START_TIMEOUT_S * 1e9)
            while time.monotonic_ns() < deadline_ns:
                for message in reader.consume(_BATCH, _POLL_S):
                    error = message.error()
                    if error is None:
                        self._take_progress(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return
            raise CommandError(
                f"the target does not let {self._progress_topic} be read within {_START_TIMEOUT_S:.0f} s"
            )
        finally:
            reader.close()

    def _take_progress(self, message: Message) -> None:
        key, value = message.key(), message.value()
        try:
            if not isinstance(key, bytes) or not isinstance(value, bytes):
                raise DamagedProgress("a record without key or value")
            self.progress[decode_key(key)] = decode(value)
        except DamagedProgress as error:
            raise CommandError(
                f"{self._progress_topic} of the target, offset {message.offset()}: {error}; this topic belongs to the "
                "mirror alone: delete it to start again under another --prefix"
            ) from None
