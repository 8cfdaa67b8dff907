"""A producer task on librdkafka: sends records on schedule and times a sample of them.

Open loop: every 0.2 ms the task sends all records that are due. A late record is sent as soon as possible; its latency
runs from its intended send time, so lateness always counts. Closed loop: the task sends as fast as the client accepts.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException, Producer

from highwater.spark_loadgen.acknowledgements import ONLY_ERRORS, Acknowledgements, TimedRecord
from highwater.spark_loadgen.channel import TaskChannel
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.producer_metrics import ProducerMetrics, ProducerReport, Totals
from highwater.spark_loadgen.ready_records import RecordMaker
from highwater.spark_loadgen.sampling import sampling_stride
from highwater.spark_loadgen.telemetry.publisher import Publisher
from highwater.spark_loadgen.transactions import Transactions
from highwater.spark_loadgen.windows import SECOND_NS

# The sending thread also polls the client. A polling thread of its own would time acknowledgements to the microsecond
# on an idle machine, but on a busy machine it waits for Python's lock: tails of tens of milliseconds that the generator
# itself causes. So an acknowledgement is timed late by at most one tick or one burst.
_TICK_NS: Final = 200_000
_BURST_MAX: Final = 512
# poll() counts in milliseconds, so it serves for longer waits only. It returns at the first acknowledgement.
_BLOCKING_POLL_NS_MIN: Final = 1_000_000
# poll() also returns as soon as the queue has room again.
_FULL_QUEUE_POLL_S: Final = 0.001
_IDLE_NS_MAX: Final = 20_000_000
_TOTALS_NS: Final = 5_000_000
_SAMPLES_PER_DRAIN: Final = 512
_STOPPED_FLUSH_S: Final = 5


class ProducerLoad:
    """The load of one worker: call `prepare` before T0, then `run`."""

    def __init__(self, plan: LoadPlan, worker: int, magic: int, content: Content) -> None:
        """Raises KafkaException when the client refuses its configuration."""
        self._plan = plan
        self._worker = worker
        self._content = content
        self._schedule = plan.arrivals
        self._total = self._schedule.total(worker) if self._schedule else None
        self._blocks = RecordMaker(plan, worker, magic, content, self._schedule)
        self._block = None if self._schedule is None else self._blocks.after(None, self._total, 0)
        self._stride = sampling_stride(plan)
        self._metrics = ProducerMetrics(plan)
        self._acknowledgements = Acknowledgements(self._metrics.errors)
        self._sent = 0
        self._acked = 0
        self._timed_sends: list[tuple[int, int]] = []
        self._backpressure = 0
        self._next_totals_ns = 0
        self._sending_ended_ns = 0
        self._publisher: Publisher | None = None
        self.client = Producer(self._configuration(magic))
        self._transactions = (
            Transactions(plan.transactions, self.client, plan.seed, worker) if plan.transactions else None
        )

    def _configuration(self, magic: int) -> dict[str, Any]:
        identity = {"transactional.id": f"highwater-{magic:08x}-{self._worker}"} if self._plan.transactions else {}
        return {
            "log_level": 0,  # errors come back as counts, not as lines on the terminal
            "client.id": "highwater-producer",
            **self._plan.producer_config,
            **self._plan.connection,
            **identity,
            **ONLY_ERRORS,
            "bootstrap.servers": self._plan.bootstrap_servers,
            "on_delivery": self._acknowledgements.on_failed,
            "error_cb": lambda error: self._metrics.errors.update([error.str()]),
        }

    def prepare(self) -> None:
        """Raises LoadSetupError when the plan has transactions and the cluster does not start any."""
        if self._transactions is not None:
            self._transactions.initialise()

    def close(self) -> None:
        """Nothing is left to do: the client ends with its last reference."""

    def run(self, t0_ns: int, channel: TaskChannel, publisher: Publisher | None = None) -> ProducerReport:
        """Send on schedule from `t0_ns` (CLOCK_MONOTONIC) on, wait for outstanding records, return the measurements."""
        self._publisher = publisher
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._metrics.start()
        self._send_all(t0_ns, channel)
        self._wait_for_acks(t0_ns, channel)
        self._record_samples(t0_ns, now=True)
        self._record_totals(time.monotonic_ns() - t0_ns)
        if publisher is not None:
            publisher.offer(self._metrics.changes, last=True)
        transactions = self._transactions
        return self._metrics.report(
            self._acknowledgements.failed_sequences,
            self._backpressure,
            transactions.aborted_sequences() if transactions else (),
            transactions.report() if transactions else None,
        )

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_all(self, t0_ns: int, channel: TaskChannel) -> None:
        """Send the whole schedule and wait for its end. A sender that is late may also use the time of the drain."""
        end_ns = self._schedule.duration_ns if self._schedule else channel.phases.end_ns
        while not channel.stop.is_set():
            elapsed_ns = time.monotonic_ns() - t0_ns
            if channel.phases.end_ns != end_ns:
                end_ns = channel.phases.end_ns
                self._total = self._schedule.count_before(end_ns, self._worker) if self._schedule else None
            if elapsed_ns >= end_ns and (self._sent == self._total or elapsed_ns >= self._give_up_ns(end_ns)):
                break
            more_is_due = self._sent != self._total and self._send_due(elapsed_ns, t0_ns)
            self.client.poll(0)
            self._tick(t0_ns, channel)
            if not more_is_due:
                self._wait_until(self._next_due_ns(end_ns) + t0_ns)
        self._end_transaction(t0_ns)
        self._sending_ended_ns = time.monotonic_ns() - t0_ns

    def _give_up_ns(self, end_ns: int) -> int:
        return end_ns if self._schedule is None else end_ns + self._plan.drain_max_s * SECOND_NS

    def _next_due_ns(self, end_ns: int) -> int:
        """The instant at which the next record is due, or the schedule ends."""
        block = self._block
        if self._sent == self._total:
            return end_ns
        return block.intended_ns[self._sent - block.first] if block and self._sent < block.end else 0

    def _wait_until(self, instant_ns: int) -> None:
        wait_ns = instant_ns - time.monotonic_ns()
        if wait_ns >= _BLOCKING_POLL_NS_MIN:
            self.client.poll(min(wait_ns, _IDLE_NS_MAX) / 1e9)
        else:
            time.sleep(_TICK_NS / 1e9)

    def _send_due(self, elapsed_ns: int, t0_ns: int) -> bool:
        """Send the records that are due, at most one burst. True when more may be due."""
        block = self._block
        if block is None or self._sent == block.end:
            block = self._block = self._blocks.after(block, self._total, elapsed_ns)
        due_end = block.due_end(self._sent, elapsed_ns)
        end = min(due_end, self._sent + _BURST_MAX)
        if self._total is not None:
            end = min(end, self._total)
        transactions = self._transactions
        if transactions is not None and self._sent < end:
            transactions.begin_if_none(self._sent)
            end = min(end, transactions.room_end(self._sent))
        while self._sent < end:
            refusal = self._send_some(end)
            if isinstance(refusal, BufferError):  # the client's queue is full: the records become late
                self._backpressure += 1
                self.client.poll(_FULL_QUEUE_POLL_S)
                break
            if isinstance(refusal, KafkaException):
                self._acknowledgements.add_failed(self._sent, block.value_bytes(self._sent), refusal.args[0])
                self._sent += 1
        if transactions is not None and transactions.due(self._sent):
            self._end_transaction(t0_ns)
        return self._sent == block.end or self._sent < due_end

    def _send_some(self, end: int) -> Exception | None:
        """Send one timed record, or all records up to the next timed one. Returns the client's error, if any."""
        block, produce, start = self._block, self.client.produce, self._sent
        assert block is not None
        to_next = -start % self._stride
        if to_next:
            self._sent, refusal = block.produce(produce, start, min(end, start + to_next))
            return refusal
        intended_ns = block.intended_ns[start - block.first]
        record = TimedRecord(self._acknowledgements, intended_ns)
        try:
            block.produce_timed(produce, start, record)
        except (BufferError, KafkaException) as refusal:
            record.cancel()
            return refusal
        self._timed_sends.append((intended_ns, record.sent_ns))
        self._sent += 1
        return None

    def _end_transaction(self, t0_ns: int) -> None:
        transactions = self._transactions
        if transactions is None or not transactions.open:
            return
        committed = transactions.end(self._sent)
        if committed is not None:
            self._metrics.record_commit(committed[0] - t0_ns, committed[1] - t0_ns)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _wait_for_acks(self, t0_ns: int, channel: TaskChannel) -> None:
        flush_s = min(_STOPPED_FLUSH_S, self._plan.drain_max_s) if channel.stop.is_set() else self._plan.drain_max_s
        deadline_ns = self._sending_ended_ns + flush_s * SECOND_NS
        while len(self.client) and time.monotonic_ns() - t0_ns < deadline_ns:
            self.client.flush(0.05)
            self._tick(t0_ns, channel)
        if len(self.client):
            self.client.purge()  # their delivery reports come back as failures
            self.client.flush(5)

    # --- totals ------------------------------------------------------------------------------------------------------

    def _tick(self, t0_ns: int, channel: TaskChannel) -> None:
        """Update the counts every 5 ms, and report progress at the end of each second."""
        elapsed_ns = time.monotonic_ns() - t0_ns
        second_ended = self._metrics.advance(elapsed_ns)
        if elapsed_ns < self._next_totals_ns and not second_ended:
            return
        self._next_totals_ns = elapsed_ns + _TOTALS_NS
        self._record_totals(elapsed_ns)
        self._record_samples(t0_ns, now=second_ended)
        if second_ended:
            channel.send(self._metrics.progress())
            if self._publisher is not None:
                self._publisher.offer(self._metrics.changes)

    def _record_totals(self, elapsed_ns: int) -> None:
        acknowledgements = self._acknowledgements
        # A record that is neither outstanding nor failed is acknowledged. A failing record counts as outstanding until
        # its callback has run, so with this order of reads the figure may be too low for a moment but never too high.
        settled = self._sent - len(self.client)
        failed = len(acknowledgements.failed_sequences)
        self._acked = max(self._acked, settled - failed)
        settled_bytes = self._content.value_bytes_before(self._worker, settled)
        self._metrics.record_totals(
            elapsed_ns,
            Totals(
                sent=self._sent,
                acked=self._acked,
                # Assumes that records are settled in the order of sending; exact as soon as none is outstanding.
                acked_bytes=settled_bytes - acknowledgements.failed_bytes,
                failed=failed,
                aborted=self._transactions.aborted_records if self._transactions else 0,
            ),
        )

    def _record_samples(self, t0_ns: int, *, now: bool) -> None:
        """File the collected samples; unless `now`, only when there are many of them."""
        least = 1 if now else _SAMPLES_PER_DRAIN
        timed = self._acknowledgements.timed
        if (count := len(timed)) >= least:
            taken = np.array(timed[:count], dtype=np.int64)
            del timed[:count]
            self._metrics.record_acks(taken[:, 0], taken[:, 1] - t0_ns, taken[:, 2] - t0_ns)
        if len(self._timed_sends) >= least:
            sends = np.array(self._timed_sends, dtype=np.int64)
            self._timed_sends = []
            self._metrics.record_sends(sends[:, 0], sends[:, 1] - t0_ns)
