"""The body of a producer task: keep the schedule through librdkafka and time every acknowledgement that is sampled.

Open loop: a tick of at most half a millisecond sends whatever is due. What cannot be sent in time is sent as soon as it
can be; its latency runs from when it was meant to go, so lateness is never forgiven.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from operator import add
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_loadgen.channel import TaskChannel
from spark_loadgen.content import Content
from spark_loadgen.histogram import HistogramSeries
from spark_loadgen.model import LoadPlan
from spark_loadgen.stamp import STAMP_BYTES, decode_stamps, encode_stamps
from spark_loadgen.windows import SECOND_NS, Count, SecondMeter, Windows

_TICK_NS: Final = 500_000
_IDLE_NS_MAX: Final = 20_000_000
_ACCOUNTS_NS: Final = 5_000_000
_BURST_MAX: Final = 2_000
_SAMPLES_PER_S: Final = 20_000
_SAMPLES_PER_DRAIN: Final = 512
_BLOCK_BYTES: Final = 1 << 20
_STOPPED_FLUSH_S: Final = 5
_ACCOUNTED: Final[tuple[Count, ...]] = ("sent", "acked", "acked_bytes", "failed")
# A delivery callback needs the GIL. With Python's default of 5 ms a sender that catches up would keep it from them that
# long, and the acknowledgements would be timed late.
_SWITCH_INTERVAL_S: Final = 0.0005


@dataclass(frozen=True, slots=True)
class ProducerReport:
    """What one producer measured. Times in ns."""

    sent: int
    acked: int
    failed_sequences: list[int]
    aborted_sequences: list[int]
    windows: Windows
    cpu_ns: list[int]
    cpu_ratio: list[float]
    histograms: dict[str, dict[int, bytes]]
    first_send_delay_ns: int | None
    backpressure: int
    errors: dict[str, int]


def sampling_stride(plan: LoadPlan) -> int:
    """One record in how many is timed: every one up to 20 000/s per producer."""
    assert plan.schedule is not None
    return max(1, -(-int(plan.schedule.rate_max_per_s / plan.producers) // _SAMPLES_PER_S))


class _Deliveries:
    """Delivery reports. Every record is counted; a sampled one leaves its value, the time and its service latency.

    Counting calls back for every record, since a failure is told in no other way; with one callback for the whole
    client this costs about 0.3 µs a record. Which records are sampled follows the schedule's index, so that records
    delayed by a stall keep their weight.
    """

    def __init__(self) -> None:
        self.acked = 0
        self.acked_bytes = 0
        self.failed_sequences: list[int] = []
        self.errors: Counter[str] = Counter()
        self.samples: list[tuple[bytes, int, float]] = []

    def count(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked += 1
            self.acked_bytes += len(message)
        else:
            self._fail(error, message)

    def sample(self, error: KafkaError | None, message: Message) -> None:
        now_ns = time.monotonic_ns()
        if error is None:
            self.acked += 1
            self.acked_bytes += len(message)
            value = message.value()
            assert isinstance(value, bytes)
            # librdkafka's latency() is the time from produce() to this call: ack − send.
            self.samples.append((value[:STAMP_BYTES], now_ns, message.latency() or 0.0))
        else:
            self._fail(error, message)

    def _fail(self, error: KafkaError, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes)
        self.failed_sequences.append(int(decode_stamps(value[:STAMP_BYTES])["sequence"][0]))
        self.errors[error.str()] += 1


class _Block:
    """Consecutive records, ready to send: intended times (ns since T0) and values."""

    __slots__ = ("first", "intended_ns", "values")

    def __init__(self, first: int, intended_ns: list[int], values: list[bytes]) -> None:
        self.first = first
        self.intended_ns = intended_ns
        self.values = values


class ProducerLoad:
    """One worker's load: `prepare` may take its time, `run` starts at T0."""

    def __init__(self, plan: LoadPlan, worker: int, magic: int, content: Content) -> None:
        """Raises KafkaException when the client refuses its configuration."""
        self._plan = plan
        self._worker = worker
        self._magic = magic
        self._content = content
        schedule = plan.arrivals
        assert schedule is not None, "the closed loop is not here yet"
        self._schedule = schedule
        self._total = self._schedule.total(worker)
        self._block_records = max(16, min(1024, int(_BLOCK_BYTES / content.mean_value_bytes)))
        self._stride = sampling_stride(plan)
        self._deliveries = _Deliveries()
        self._windows = Windows()
        self._histograms = {name: HistogramSeries() for name in ("produce_response", "produce_service", "send_delay")}
        self._meter = SecondMeter()
        self._sent = 0
        self._refused: list[int] = []
        self._sent_ns: list[int] = []
        self._sampled_intended_ns: list[int] = []
        self._first_send_delay_ns: int | None = None
        self._backpressure = 0
        self._filed = (0, 0, 0, 0)
        self._next_accounts_ns = 0
        self._sending_ended_ns = 0
        self._block = _Block(0, [], [])
        self.client = Producer(_configuration(plan, self._deliveries))

    def _next_block(self) -> _Block:
        first = self._block.first + len(self._block.values)
        sequences = np.arange(first, min(first + self._block_records, self._total), dtype=np.int64)
        intended_ns = self._schedule.intended_ns(sequences, self._worker)
        stamps = encode_stamps(self._worker, self._magic, first, intended_ns)
        bodies = self._content.bodies_in_row(self._worker, first, len(stamps))
        return _Block(first, intended_ns.tolist(), list(map(add, stamps, bodies)))

    def prepare(self) -> None:
        """Make the first records, so that T0 finds them ready."""
        self._block = self._next_block()

    def close(self) -> None:
        """Nothing is left to do: the client ends with its last reference."""

    def run(self, t0_ns: int, channel: TaskChannel) -> ProducerReport:
        """Keep the schedule from `t0_ns` (monotonic) and wait for what is outstanding. Returns the measurements."""
        switch_interval_s = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        finished = threading.Event()
        # A thread blocked in poll() times an acknowledgement when it arrives; polling between sends would time it at
        # the next tick.
        poller = threading.Thread(target=self._poll_until, args=(finished,), name="poll", daemon=True)
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._meter.start()
        poller.start()
        try:
            self._send_all(t0_ns, channel)
            self._wait_for_acks(t0_ns, channel)
        finally:
            finished.set()
            poller.join()
            sys.setswitchinterval(switch_interval_s)
        self._record_samples(t0_ns, now=True)
        self._account(time.monotonic_ns() - t0_ns)
        deliveries = self._deliveries
        return ProducerReport(
            sent=self._sent,
            acked=deliveries.acked,
            failed_sequences=[*deliveries.failed_sequences, *self._refused],
            aborted_sequences=[],
            windows=self._windows,
            cpu_ns=self._meter.cpu_ns,
            cpu_ratio=self._meter.cpu_ratio,
            histograms={name: series.encode() for name, series in self._histograms.items()},
            first_send_delay_ns=self._first_send_delay_ns,
            backpressure=self._backpressure,
            errors=dict(deliveries.errors),
        )

    def _poll_until(self, finished: threading.Event) -> None:
        while not finished.is_set():
            self.client.poll(0.1)

    def _send_all(self, t0_ns: int, channel: TaskChannel) -> None:
        """Send the whole schedule and stay to its end; a sender that fell behind gets the time of the drain as well."""
        schedule_ns = self._schedule.duration_ns
        while not channel.stop.is_set():
            elapsed_ns = time.monotonic_ns() - t0_ns
            if channel.phases.end_ns != schedule_ns:
                schedule_ns = channel.phases.end_ns
                self._total = self._schedule.count_before(schedule_ns, self._worker)
            give_up_ns = schedule_ns + self._plan.drain_max_s * SECOND_NS
            all_sent = self._sent == self._total
            if elapsed_ns > give_up_ns or (all_sent and elapsed_ns >= schedule_ns):
                break
            more = not all_sent and self._send_due(elapsed_ns)
            self._tick(t0_ns, channel)
            if not more:
                self._sleep_until(self._next_intended_ns(schedule_ns), t0_ns)
        self._tick(t0_ns, channel)
        self._sending_ended_ns = time.monotonic_ns() - t0_ns

    def _next_intended_ns(self, schedule_ns: int) -> int:
        position = self._sent - self._block.first
        return self._block.intended_ns[position] if position < len(self._block.intended_ns) else schedule_ns

    def _sleep_until(self, instant_ns: int, t0_ns: int) -> None:
        wait_ns = instant_ns - (time.monotonic_ns() - t0_ns)
        time.sleep(min(max(wait_ns, _TICK_NS), _IDLE_NS_MAX) / 1e9)

    def _send_due(self, elapsed_ns: int) -> bool:
        """Send what is due, a bounded burst of it. True when more is due and the client would take it."""
        if self._sent - self._block.first == len(self._block.values):
            self._block = self._next_block()
        block = self._block
        start = at = self._sent - block.first
        end = min(bisect_right(block.intended_ns, elapsed_ns, start), start + _BURST_MAX, self._total - block.first)
        stride, values, produce, topic = self._stride, block.values, self.client.produce, self._plan.topics[0]
        sample = self._deliveries.sample
        next_sample = start + -(block.first + start) % stride
        sent_ns, sampled_ns = self._sent_ns, self._sampled_intended_ns
        blocked = False
        while at < end and not blocked:
            try:
                # No key and no partition: the client fills one partition's batch after the other, as it does for most
                # applications. Order can be checked all the same, since a partition keeps the order of these calls.
                while at < end:
                    if at == next_sample:
                        now_ns = time.monotonic_ns()
                        produce(topic, values[at], None, -1, sample)
                        sent_ns.append(now_ns)
                        sampled_ns.append(block.intended_ns[at])
                        next_sample += stride
                        at += 1
                    until = min(end, next_sample)
                    for at in range(at, until):  # noqa: B020 - an exception leaves `at` at its record
                        produce(topic, values[at])
                    at = until
            except BufferError:  # the client's queue is full: back-pressure, felt as lateness
                self._backpressure += 1
                blocked = True
            except KafkaException as refusal:
                self._refuse(block.first + at, refusal)
                next_sample += stride if at == next_sample else 0
                at += 1
        self._sent += at - start
        return not blocked and (at == len(values) or block.intended_ns[at] <= elapsed_ns)

    def _refuse(self, sequence: int, refusal: KafkaException) -> None:
        """The client would not take a record at all, for instance because it is larger than message.max.bytes."""
        self._refused.append(sequence)
        self._deliveries.errors[refusal.args[0].str()] += 1

    def _wait_for_acks(self, t0_ns: int, channel: TaskChannel) -> None:
        flush_s = min(_STOPPED_FLUSH_S, self._plan.drain_max_s) if channel.stop.is_set() else self._plan.drain_max_s
        deadline_ns = self._sending_ended_ns + flush_s * SECOND_NS
        while len(self.client) and time.monotonic_ns() - t0_ns < deadline_ns:
            self.client.flush(0.05)
            self._tick(t0_ns, channel)
        if len(self.client):
            self.client.purge()  # their delivery reports come back as failures
            self.client.flush(5)

    def _tick(self, t0_ns: int, channel: TaskChannel) -> None:
        """What is to be done beside sending, every 5 ms and at the turn of a second."""
        elapsed_ns = time.monotonic_ns() - t0_ns
        turned = self._meter.advance(elapsed_ns)
        if elapsed_ns < self._next_accounts_ns and not turned:
            return
        self._next_accounts_ns = elapsed_ns + _ACCOUNTS_NS
        self._account(elapsed_ns)
        self._record_samples(t0_ns, now=turned)
        if turned:
            last = self._meter.second - 1
            channel.send(
                {
                    "kind": "progress",
                    "second": last,
                    "sent": self._windows.at("sent", last),
                    "acked": self._windows.at("acked", last),
                    "totals": dict(zip(_ACCOUNTED, self._filed, strict=True)),
                    "cpu_ratio": self._meter.cpu_ratio[-1],
                    "p50_ns": self._histograms["produce_response"].percentile(last, 50),
                    "p99_ns": self._histograms["produce_response"].percentile(last, 99),
                }
            )

    def _account(self, elapsed_ns: int) -> None:
        """File what happened since the last time under the present second."""
        deliveries = self._deliveries
        failed = len(deliveries.failed_sequences) + len(self._refused)
        now = (self._sent, deliveries.acked, deliveries.acked_bytes, failed)
        if now == self._filed:
            return
        second = elapsed_ns // SECOND_NS
        for name, amount, before in zip(_ACCOUNTED, now, self._filed, strict=True):
            if amount != before:
                self._windows.add(name, second, amount - before)
        self._filed = now

    def _record_samples(self, t0_ns: int, *, now: bool) -> None:
        """Work on the samples put aside; unless `now`, only when there are many of them."""
        acknowledged = self._deliveries.samples
        if count := len(acknowledged) if now or len(acknowledged) >= _SAMPLES_PER_DRAIN else 0:
            taken = acknowledged[:count]
            del acknowledged[:count]  # the polling thread may have appended more meanwhile
            stamps, acked_ns, service_s = zip(*taken, strict=True)
            intended_ns = decode_stamps(b"".join(stamps))["intended_ns"].astype(np.int64)
            seconds = intended_ns // SECOND_NS
            self._histograms["produce_response"].record(np.array(acked_ns) - t0_ns - intended_ns, seconds)
            self._histograms["produce_service"].record((np.array(service_s) * 1e9).astype(np.int64), seconds)
        if len(self._sent_ns) >= (1 if now else _SAMPLES_PER_DRAIN):
            intended_ns = np.array(self._sampled_intended_ns)
            delays_ns = np.array(self._sent_ns) - t0_ns - intended_ns
            if self._first_send_delay_ns is None:
                self._first_send_delay_ns = int(delays_ns[0])
            self._histograms["send_delay"].record(delays_ns, intended_ns // SECOND_NS)
            self._sent_ns, self._sampled_intended_ns = [], []


def _configuration(plan: LoadPlan, deliveries: _Deliveries) -> dict[str, Any]:
    return {
        "log_level": 0,  # errors come back as counts, not as lines on the terminal
        "client.id": "highwater-producer",
        **plan.producer_config,
        "bootstrap.servers": plan.bootstrap_servers,
        "on_delivery": deliveries.count,
        "error_cb": lambda error: deliveries.errors.update([error.str()]),
    }
