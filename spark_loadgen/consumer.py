"""The body of a consumer task: read its partitions from the start, judge every record, time it from its intended send.

Messages are taken one poll at a time with whatever else is there at once; the work per record is done in bulk later, so
that neither a trickle nor a flood makes the consumer itself the slow part.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_loadgen.channel import TaskChannel
from spark_loadgen.content import Content
from spark_loadgen.delivery import ReceivedRecords, ReceivedReport
from spark_loadgen.histogram import HistogramSeries
from spark_loadgen.model import LoadPlan
from spark_loadgen.stamp import STAMP_BYTES
from spark_loadgen.windows import SECOND_NS, SecondMeter, Windows

_BATCH: Final = 500
_JUDGE_AT: Final = 512
_POLL_S: Final = 0.05
_WATERMARK_TIMEOUT_S: Final = 5
_STOPPED_DRAIN_S: Final = 5


@dataclass(frozen=True, slots=True)
class ConsumerReport:
    """What one consumer measured. Times in ns."""

    received: ReceivedReport
    unread: int
    windows: Windows
    cpu_ns: list[int]
    cpu_ratio: list[float]
    e2e_response: dict[int, bytes]
    negative_samples: int
    errors: dict[str, int]


class ConsumerLoad:
    """One consumer: `prepare` may take its time, `run` starts at T0."""

    def __init__(self, plan: LoadPlan, index: int, magic: int, content: Content) -> None:
        """Raises KafkaException when the client refuses its configuration."""
        self._plan = plan
        self._content = content
        schedule = plan.arrivals
        assert schedule is not None, "a closed loop has no totals yet"
        totals = [schedule.total(worker) for worker in range(plan.producers)]
        self._scheduled = sum(totals)
        self._records = ReceivedRecords(magic, totals)
        self._partitions = range(index, plan.partitions, plan.consumers_per_group)
        self._windows = Windows()
        self._e2e_response = HistogramSeries()
        self._meter = SecondMeter()
        self._errors: Counter[str] = Counter()
        self._negative_samples = 0
        self._bad_bodies = 0
        self._values: list[bytes | None] = []
        self._from: list[int] = []
        self._arrivals: list[tuple[int, int]] = []  # (received ns since T0, how many)
        self.client = Consumer(self._configuration())

    def _configuration(self) -> dict[str, Any]:
        return {
            "log_level": 0,  # errors come back as counts, not as lines on the terminal
            "client.id": "highwater-consumer",
            "group.id": "highwater-loadgen",  # the client wants a name; partitions are assigned, no group is joined
            "auto.offset.reset": "error",
            **self._plan.consumer_config,
            "bootstrap.servers": self._plan.bootstrap_servers,
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "error_cb": lambda error: self._errors.update([error.str()]),
        }

    def prepare(self) -> None:
        """Take up the partitions, so that the connections stand before T0."""
        self.client.assign([TopicPartition(self._plan.topics[0], p, OFFSET_BEGINNING) for p in self._partitions])

    def run(self, t0_ns: int, channel: TaskChannel) -> ConsumerReport:
        """Read from `t0_ns` (monotonic) until all that the producers got into the log is read, or time is up."""
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._meter.start()
        unread = self._read(t0_ns, channel)
        self._judge()
        return ConsumerReport(
            received=self._records.report(self._bad_bodies),
            unread=unread,
            windows=self._windows,
            cpu_ns=self._meter.cpu_ns,
            cpu_ratio=self._meter.cpu_ratio,
            e2e_response=self._e2e_response.encode(),
            negative_samples=self._negative_samples,
            errors=dict(self._errors),
        )

    def _read(self, t0_ns: int, channel: TaskChannel) -> int:
        """Returns how many records were left unread: the whole schedule, at most, when no broker tells."""
        # Producers may drain for as long as consumers may; whoever hears nothing more ends by these two instants.
        producers_end_ns = (self._plan.schedule_s + self._plan.drain_max_s) * SECOND_NS
        deadline_ns = producers_end_ns + self._plan.drain_max_s * SECOND_NS
        producers_finished = False
        targets: dict[int, int] | None = None
        while True:
            idle = self._take_some(t0_ns)
            elapsed_ns = time.monotonic_ns() - t0_ns
            self._tick(elapsed_ns, channel, idle=idle)
            if not producers_finished and (channel.producers_finished.is_set() or elapsed_ns > producers_end_ns):
                producers_finished = True
                drain_s = self._plan.drain_max_s
                drain_s = min(drain_s, _STOPPED_DRAIN_S) if channel.stop.is_set() else drain_s
                deadline_ns = min(deadline_ns, elapsed_ns + drain_s * SECOND_NS)
            # Asking for the ends of the log waits for answers, so it is done when nothing else is to be read.
            if producers_finished and targets is None and (idle or elapsed_ns > deadline_ns):
                targets = self._high_watermarks()
                if targets is None:
                    return self._scheduled
            if targets is not None and (idle or elapsed_ns > deadline_ns):
                unread = self._unread(targets)
                if unread == 0 or elapsed_ns > deadline_ns:
                    return unread

    def _take_some(self, t0_ns: int) -> bool:
        """Wait for a message and take what else is there. True when nothing came."""
        message = self.client.poll(_POLL_S)
        if message is None:
            return True
        self._keep([message], time.monotonic_ns() - t0_ns)
        # With a timeout, consume() would wait for the batch to fill and delay its first message by that.
        if more := self.client.consume(_BATCH, 0):
            self._keep(more, time.monotonic_ns() - t0_ns)
        return False

    def _keep(self, messages: list[Message], received_ns: int) -> None:
        if any(message.error() for message in messages):
            self._errors.update(error.str() for message in messages if (error := message.error()) is not None)
            messages = [message for message in messages if message.error() is None]
        self._values += [message.value() for message in messages]
        self._from += [message.partition() for message in messages]  # type: ignore[misc]
        self._arrivals.append((received_ns, len(messages)))
        second = received_ns // SECOND_NS
        self._windows.add("received", second, len(messages))
        self._windows.add("received_bytes", second, sum([len(message) for message in messages]))

    def _tick(self, elapsed_ns: int, channel: TaskChannel, *, idle: bool) -> None:
        turned = self._meter.advance(elapsed_ns)
        if turned or idle or len(self._values) >= _JUDGE_AT:
            self._judge()
        if turned:
            last = self._meter.second - 1
            channel.send(
                {
                    "kind": "progress",
                    "second": last,
                    "received": self._windows.at("received", last),
                    "cpu_ratio": self._meter.cpu_ratio[-1],
                    "p99_ns": self._e2e_response.percentile(last, 99),
                }
            )

    def _judge(self) -> None:
        """Work on the records that were put aside."""
        if not self._values:
            return
        stamps, ours = self._records.check(self._values, self._from)
        received_ns = np.repeat(*np.array(self._arrivals, dtype=np.int64).T)
        intended_ns = stamps["intended_ns"].astype(np.int64)
        latencies = (received_ns - intended_ns)[ours]
        seconds = intended_ns[ours] // SECOND_NS
        if len(latencies):
            # Only clocks of different hosts can disagree so; such a sample would distort a histogram from 0 upwards.
            negative = latencies < 0
            self._negative_samples += int(np.count_nonzero(negative))
            self._e2e_response.record(latencies[~negative], seconds[~negative])
            self._compare_bodies(stamps, ours)
        self._values, self._from, self._arrivals = [], [], []

    def _compare_bodies(self, stamps: np.ndarray[Any, Any], ours: np.ndarray[Any, Any]) -> None:
        """Compare every value with what was sent; librdkafka checks the CRC of what it reads only when told to."""
        bodies = self._content.bodies(
            stamps["worker"][ours].astype(np.int64), stamps["sequence"][ours].astype(np.int64)
        )
        for at, sent in zip(np.flatnonzero(ours).tolist(), bodies, strict=True):
            value = self._values[at]
            # Without a slice, which would copy the value.
            if value is None or len(value) != STAMP_BYTES + len(sent) or not value.endswith(sent):
                self._bad_bodies += 1
                self._errors["a value came back different from what was sent"] += 1

    def _high_watermarks(self) -> dict[int, int] | None:
        """By partition; None when the brokers do not answer, which ends the reading."""
        ends = {}
        for partition in self._partitions:
            try:
                watermarks = self.client.get_watermark_offsets(
                    TopicPartition(self._plan.topics[0], partition), timeout=_WATERMARK_TIMEOUT_S
                )
            except KafkaException as error:
                reason: KafkaError = error.args[0]
                self._errors[f"asking for the end of the log: {reason.str()}"] += 1
                return None
            if watermarks and watermarks[1] > watermarks[0]:
                ends[partition] = watermarks[1]
        return ends

    def _unread(self, targets: dict[int, int]) -> int:
        positions = self.client.position([TopicPartition(self._plan.topics[0], p) for p in targets])
        return sum(max(0, targets[p.partition] - max(0, p.offset)) for p in positions)
