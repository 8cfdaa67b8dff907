"""A consumer task: reads its partitions from the start, checks every record, measures latency.

One poll returns a first message, and one call of consume() whatever else has arrived. The work per record is done later
in bulk, so that the consumer itself is not the bottleneck, neither at low nor at high rates.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from numpy.typing import NDArray

from highwater.results.histogram import HistogramSeries
from highwater.spark_loadgen.assignment import assigned_partitions
from highwater.spark_loadgen.channel import TaskChannel
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.delivery import ReceivedRecords, ReceivedReport
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.partition_latency import PartitionLatencies
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.spark_loadgen.telemetry.changes import Changes
from highwater.spark_loadgen.telemetry.publisher import Publisher
from highwater.spark_loadgen.windows import SECOND_NS, TENTH_NS, SecondMeter, Windows

_BATCH: Final = 500
_JUDGE_AT: Final = 512
_POLL_S: Final = 0.05
_ENDS_TIMEOUT_S: Final = 5
_STOPPED_DRAIN_S: Final = 5
# About this many records per second and consumer are also timed by partition.
_PARTITION_SAMPLES_PER_S: Final = 20_000


@dataclass(frozen=True, slots=True)
class ConsumerReport:
    """The measurements of one consumer. Instants are ns since T0."""

    group: int
    received: ReceivedReport
    unread: int | None
    """Records left in the log; None when no broker returned the log's end offsets."""
    windows: Windows
    cpu_ns: list[int]
    cpu_ratio: list[float]
    e2e_response: dict[int, bytes]
    negative_samples: int
    partitions: list[tuple[str, int]]
    received_by_partition: list[int]
    e2e_by_partition: dict[int, bytes]
    """Position in `partitions` -> histogram of the measured phase."""
    first_poll_ns: int | None
    last_record_ns: int | None
    errors: dict[str, int]
    tenths: Windows | None = None
    """received and received_bytes per tenth of a second; None for a consumer that did not have to wait."""


class ConsumerLoad:
    """The load of one consumer: call `prepare` before T0, then `run`."""

    def __init__(self, plan: LoadPlan, index: int, magic: int, content: Content) -> None:
        """index: number of the consumer from 0, group by group.

        Raises KafkaException when the client refuses its configuration.
        """
        self._plan = plan
        self._group, member = divmod(index, plan.consumers_per_group)
        self._content = content
        arrivals = plan.arrivals
        totals = None if arrivals is None else [arrivals.total(worker) for worker in range(plan.producers)]
        self._records = ReceivedRecords(magic, plan.producers, totals, marking=plan.check_delivery)
        self._waits = plan.consumers_wait
        self._partitions = assigned_partitions(plan.topics, plan.partitions, plan.consumers_per_group, member)
        self._positions = _positions_by_topic(self._partitions, plan.partitions)
        self._received_by_partition = np.zeros(len(self._partitions), dtype=np.int64)
        self._ends: dict[tuple[str, int], int] = {}
        self._windows = Windows()
        self._tenths = Windows() if plan.consumers_wait else None
        self._e2e_response = HistogramSeries()
        self._e2e_by_partition = PartitionLatencies()
        self._partition_stride = 1
        self._meter = SecondMeter()
        self._changes = Changes(self._windows, {"e2e_response": self._e2e_response}, self._meter)
        self._publisher: Publisher | None = None
        self._errors: Counter[str] = Counter()
        self._negative_samples = 0
        self._bad_contents = 0
        self._received = 0
        self._messages: list[Message] = []
        self._arrivals: list[tuple[int, int]] = []  # (received ns since T0, how many)
        self._first_poll_ns: int | None = None
        self._last_record_ns: int | None = None
        self.client = Consumer(self._configuration())
        # On the consumer's own connection a ListOffsets request would wait behind a fetch that waits for records.
        self._admin = AdminClient(self._configuration())

    def _configuration(self) -> dict[str, Any]:
        return {
            "log_level": 0,  # errors come back as counts, not as lines on the terminal
            "client.id": "highwater-consumer",
            # The client requires a group id, but the consumer assigns its partitions itself and joins no group.
            "group.id": f"highwater-loadgen-{self._group}",
            "auto.offset.reset": "error",
            # By default a client whose queue has once been full sends no fetch for a whole second. A consumer that
            # catches up would then measure its own pauses.
            "fetch.queue.backoff.ms": 10,
            **self._plan.consumer_config,
            **self._plan.connection,
            "bootstrap.servers": self._plan.bootstrap_servers,
            "enable.auto.commit": False,
            # Only this event shows that a consumer has read past the markers at the end of transactions.
            "enable.partition.eof": self._plan.transactions is not None,
            "error_cb": lambda error: self._errors.update([error.str()]),
        }

    def prepare(self) -> None:
        """Assign the partitions and list their end offsets once, so that all connections exist before T0."""
        self._fetch_metadata()
        self._end_offsets()
        if not self._waits:
            self._assign()

    def _assign(self) -> None:
        self.client.assign(
            [TopicPartition(topic, partition, OFFSET_BEGINNING) for topic, partition in self._partitions]
        )

    def close(self) -> None:
        self.client.close()

    def run(self, t0_ns: int, channel: TaskChannel, publisher: Publisher | None = None) -> ConsumerReport:
        """Read from `t0_ns` (CLOCK_MONOTONIC) on until the end of the log or the end of the drain."""
        self._publisher = publisher
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._meter.start()
        if self._waits:
            self._wait_for_consume(t0_ns, channel)
            self._assign()
        self._first_poll_ns = time.monotonic_ns() - t0_ns
        unread = self._read(t0_ns, channel)
        self._meter.finish()
        self._judge(channel)
        if publisher is not None:
            publisher.offer(self._changes, last=True)
        return ConsumerReport(
            group=self._group,
            received=self._records.report(self._bad_contents),
            unread=unread,
            windows=self._windows,
            cpu_ns=self._meter.cpu_ns,
            cpu_ratio=self._meter.cpu_ratio,
            e2e_response=self._e2e_response.encode(),
            negative_samples=self._negative_samples,
            partitions=self._partitions,
            received_by_partition=self._received_by_partition.tolist(),
            e2e_by_partition=self._e2e_by_partition.encode(),
            first_poll_ns=self._first_poll_ns,
            last_record_ns=self._last_record_ns,
            errors=dict(self._errors),
            tenths=self._tenths,
        )

    def _producers_end_ns(self, channel: TaskChannel) -> int:
        """The latest instant at which producers finish; used when no message of the driver arrives."""
        return channel.phases.end_ns + self._plan.drain_max_s * SECOND_NS

    def _wait_for_consume(self, t0_ns: int, channel: TaskChannel) -> None:
        """Wait until the backlog is built or the producers have finished."""
        elapsed_ns = 0
        while not (channel.consume.is_set() or channel.stop.is_set() or elapsed_ns > self._producers_end_ns(channel)):
            channel.consume.wait(_POLL_S)
            elapsed_ns = time.monotonic_ns() - t0_ns
            self._tick(elapsed_ns, channel, idle=True)

    def _read(self, t0_ns: int, channel: TaskChannel) -> int | None:
        """Read until the end. Returns how many records were left unread; None when no broker returned end offsets."""
        deadline_ns: int | None = None
        targets: dict[tuple[str, int], int] | None = None
        while True:
            idle = self._poll(t0_ns)
            elapsed_ns = time.monotonic_ns() - t0_ns
            self._tick(elapsed_ns, channel, idle=idle)
            if deadline_ns is None:
                if not channel.producers_finished.is_set() and elapsed_ns <= self._producers_end_ns(channel):
                    continue
                drain_s = self._plan.drain_max_s
                drain_s = min(drain_s, _STOPPED_DRAIN_S) if channel.stop.is_set() else drain_s
                deadline_ns = elapsed_ns + drain_s * SECOND_NS
            # Listing the end offsets blocks, so the consumer does it when it has nothing to read.
            if not idle and elapsed_ns <= deadline_ns:
                continue
            if targets is None:
                targets = self._end_offsets()
                if targets is None:
                    # A broker may be restarting: try again.
                    if channel.stop.is_set() or elapsed_ns > deadline_ns:
                        return None
                    continue
            unread = self._unread(targets)
            if unread == 0 or elapsed_ns > deadline_ns:
                return unread

    def _poll(self, t0_ns: int) -> bool:
        """Wait for a message and take all others that have arrived. True when none arrived."""
        message = self.client.poll(_POLL_S)
        if message is None:
            return True
        self._collect([message], time.monotonic_ns() - t0_ns)
        # With a timeout, consume() would wait for a full batch and delay the batch's first message.
        if more := self.client.consume(_BATCH, 0):
            self._collect(more, time.monotonic_ns() - t0_ns)
        return False

    def _collect(self, messages: list[Message], received_ns: int) -> None:
        valid = [message for message in messages if message.error() is None]
        if len(valid) != len(messages):
            self._take_errors(messages)
            messages = valid
        if not messages:
            return
        self._messages += messages
        self._arrivals.append((received_ns, len(messages)))
        self._received += len(messages)
        self._last_record_ns = received_ns
        count, count_bytes = len(messages), sum([len(message) for message in messages])
        self._windows.add("received", received_ns // SECOND_NS, count)
        self._windows.add("received_bytes", received_ns // SECOND_NS, count_bytes)
        if self._tenths is not None:
            self._tenths.add("received", received_ns // TENTH_NS, count)
            self._tenths.add("received_bytes", received_ns // TENTH_NS, count_bytes)

    def _take_errors(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if (error := message.error()) is None:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                self._ends[message.topic(), message.partition()] = message.offset()  # type: ignore[assignment,index]
            else:
                self._errors[error.str()] += 1

    def _tick(self, elapsed_ns: int, channel: TaskChannel, *, idle: bool) -> None:
        second_ended = self._meter.advance(elapsed_ns)
        if second_ended or idle or len(self._messages) >= _JUDGE_AT:
            self._judge(channel)
        if second_ended:
            last = self._meter.second - 1
            received = self._windows.at("received", last)
            self._partition_stride = max(1, received // _PARTITION_SAMPLES_PER_S)
            channel.send(
                {
                    "kind": "progress",
                    "second": last,
                    "received": received,
                    "totals": {"received": self._received},
                    "cpu_ratio": self._meter.cpu_ratio[-1],
                    "p99_ns": self._e2e_response.percentile(last, 99),
                }
            )
            if self._publisher is not None:
                self._publisher.offer(self._changes)

    def _judge(self, channel: TaskChannel) -> None:
        """Check and time the records that have been collected."""
        if not self._messages:
            return
        messages = self._messages
        values = [message.value() for message in messages]
        positions = self._positions_of(messages)
        self._received_by_partition += np.bincount(positions, minlength=len(self._partitions))
        stamps, in_run = self._records.check(values, positions)  # type: ignore[arg-type]
        received_ns = np.repeat(*np.array(self._arrivals, dtype=np.int64).T)[in_run]
        if len(received_ns):
            self._time(stamps["intended_ns"][in_run].astype(np.int64), received_ns, positions[in_run], channel)
            if self._plan.check_delivery:
                self._compare(values, stamps, in_run)
        self._messages, self._arrivals = [], []

    def _positions_of(self, messages: list[Message]) -> NDArray[np.int64]:
        """For each message the index of its partition in `partitions`."""
        partitions = np.array([message.partition() for message in messages])
        if len(self._positions) == 1:  # spares a string per message
            (positions,) = self._positions.values()
            own: NDArray[np.int64] = positions[partitions]
            return own
        topics: list[Any] = [message.topic() for message in messages]
        return np.array([self._positions[topic][at] for topic, at in zip(topics, partitions, strict=True)])

    def _time(
        self,
        intended_ns: NDArray[np.int64],
        received_ns: NDArray[np.int64],
        positions: NDArray[np.int64],
        channel: TaskChannel,
    ) -> None:
        latencies_ns = received_ns - intended_ns
        # Only clocks of different hosts give negative latencies; a histogram starts at 0 and cannot record these.
        negative = latencies_ns < 0
        if negative.any():
            self._negative_samples += int(np.count_nonzero(negative))
            intended_ns, latencies_ns, positions = (row[~negative] for row in (intended_ns, latencies_ns, positions))
        if not len(latencies_ns):
            return
        self._e2e_response.record(latencies_ns, intended_ns // SECOND_NS)
        phases = channel.phases
        measured = (intended_ns >= phases.measure_start_s * SECOND_NS) & (intended_ns < phases.end_ns)
        if measured.any():
            stride = self._partition_stride
            self._e2e_by_partition.record(positions[measured][::stride], latencies_ns[measured][::stride])

    def _compare(self, values: list[bytes | None], stamps: NDArray[np.void], in_run: NDArray[np.bool_]) -> None:
        """Compare every record with what was sent: by default librdkafka does not check the CRC of batches."""
        workers, sequences = stamps["worker"][in_run].astype(np.int64), stamps["sequence"][in_run].astype(np.int64)
        at = np.flatnonzero(in_run).tolist()
        for position, sent in zip(at, self._content.bodies(workers, sequences), strict=True):
            value = values[position]
            # endswith() instead of a slice, which would copy the value.
            if value is None or len(value) != STAMP_BYTES + len(sent) or not value.endswith(sent):
                self._bad_contents += 1
                self._errors["a value came back different from what was sent"] += 1
        keys = self._content.keys(workers, sequences)
        for position, key in zip(at, keys, strict=True) if keys else ():
            if self._messages[position].key() != key:
                self._bad_contents += 1
                self._errors["a key came back different from what was sent"] += 1

    def _end_offsets(self) -> dict[tuple[str, int], int] | None:
        """End offsets of the partitions that are not empty; None when the brokers do not answer."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        specs = {TopicPartition(*partition): latest for partition in self._partitions}
        level = IsolationLevel.READ_COMMITTED if reads_committed(self._plan) else IsolationLevel.READ_UNCOMMITTED
        answers = self._admin.list_offsets(specs, isolation_level=level, request_timeout=_ENDS_TIMEOUT_S)
        try:
            ends = {(asked.topic, asked.partition): answer.result().offset for asked, answer in answers.items()}
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            self._errors[f"asking for the end of the log: {reason.str()}"] += 1
            self._fetch_metadata()  # else the client keeps using the leaders that it knew before a broker left
            return None
        return {partition: end for partition, end in ends.items() if end > 0}

    def _fetch_metadata(self) -> None:
        """Fetch metadata now, so that the admin client knows the leaders before it lists offsets.

        Without this, list_offsets() may run between the bootstrap connection and the first connection to a broker by
        its id. The admin client then finds "no usable brokers" and retries only after one to three seconds (librdkafka
        2.16, one start in five on loopback).
        """
        with suppress(KafkaException):
            self._admin.list_topics(timeout=_ENDS_TIMEOUT_S)

    def _unread(self, targets: dict[tuple[str, int], int]) -> int:
        positions = self.client.position([TopicPartition(topic, partition) for topic, partition in targets])
        return sum(
            max(0, targets[key] - max(0, position.offset, self._ends.get(key, 0)))
            for position in positions
            for key in ((position.topic, position.partition),)
        )


def _positions_by_topic(own: Sequence[tuple[str, int]], partitions: int) -> dict[str, NDArray[np.int64]]:
    """For each topic, an array from partition to index in `own`."""
    positions = {topic: np.zeros(partitions, dtype=np.int64) for topic, _ in own}
    for position, (topic, partition) in enumerate(own):
        positions[topic][partition] = position
    return positions


def reads_committed(plan: LoadPlan) -> bool:
    """Whether consumers read committed records only, which is librdkafka's default."""
    return plan.consumer_config.get("isolation.level", "read_committed") == "read_committed"
