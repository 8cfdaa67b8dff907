"""The body of a producer task: keep the schedule through librdkafka, time the records that are sampled.

Open loop: a tick of a fifth of a millisecond sends whatever is due. What cannot be sent in time is sent as soon as it
can be; its latency runs from when it was meant to go, so lateness is never forgiven. Closed loop: the client gets
records as fast as it takes them.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
from confluent_kafka import KafkaException, Producer

from highwater.spark_loadgen.acknowledgements import ONLY_ERRORS, Acknowledgements, TimedRecord
from highwater.spark_loadgen.blocks import Blocks
from highwater.spark_loadgen.channel import TaskChannel
from highwater.spark_loadgen.content import Content
from highwater.spark_loadgen.ledger import Ledger, ProducerReport, Totals
from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.sampling import sampling_stride
from highwater.spark_loadgen.transactions import Transactions
from highwater.spark_loadgen.windows import SECOND_NS

# The sender polls its client itself. A thread for that would time acknowledgements to the microsecond on an idle
# machine, and on a busy one wait for Python's lock, which showed as tails of tens of milliseconds that were nobody's
# but the generator's. So an acknowledgement is timed late by at most this tick, or by the time that this burst takes.
_TICK_NS: Final = 200_000
_BURST_MAX: Final = 512
# poll() counts in milliseconds; it serves for longer waits, and ends at the first acknowledgement.
_BLOCKING_POLL_NS_MIN: Final = 1_000_000
# It ends as soon as there is room again, too.
_FULL_QUEUE_POLL_S: Final = 0.001
_IDLE_NS_MAX: Final = 20_000_000
_ACCOUNTS_NS: Final = 5_000_000
_SAMPLES_PER_DRAIN: Final = 512
_STOPPED_FLUSH_S: Final = 5


class ProducerLoad:
    """One worker's load: `prepare` may take its time, `run` starts at T0."""

    def __init__(self, plan: LoadPlan, worker: int, magic: int, content: Content) -> None:
        """Raises KafkaException when the client refuses its configuration."""
        self._plan = plan
        self._worker = worker
        self._content = content
        self._schedule = plan.arrivals
        self._total = self._schedule.total(worker) if self._schedule else None
        self._blocks = Blocks(plan, worker, magic, content, self._schedule)
        self._block = None if self._schedule is None else self._blocks.after(None, self._total, 0)
        self._stride = sampling_stride(plan)
        self._ledger = Ledger(plan)
        self._acknowledgements = Acknowledgements(self._ledger.errors)
        self._sent = 0
        self._acked = 0
        self._timed_sends: list[tuple[int, int]] = []
        self._backpressure = 0
        self._next_accounts_ns = 0
        self._sending_ended_ns = 0
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
            "on_delivery": self._acknowledgements.failed,
            "error_cb": lambda error: self._ledger.errors.update([error.str()]),
        }

    def prepare(self) -> None:
        """Raises LoadSetupError when the cluster gives no transactions that were asked for."""
        if self._transactions is not None:
            self._transactions.initialise()

    def close(self) -> None:
        """Nothing is left to do: the client ends with its last reference."""

    def run(self, t0_ns: int, channel: TaskChannel) -> ProducerReport:
        """Keep the schedule from `t0_ns` (monotonic) and wait for what is outstanding. Returns the measurements."""
        time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
        self._ledger.start()
        self._send_all(t0_ns, channel)
        self._wait_for_acks(t0_ns, channel)
        self._record_samples(t0_ns, now=True)
        self._account(time.monotonic_ns() - t0_ns)
        transactions = self._transactions
        return self._ledger.report(
            self._acknowledgements.failed_sequences,
            self._backpressure,
            transactions.aborted_sequences() if transactions else (),
            transactions.report() if transactions else None,
        )

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send_all(self, t0_ns: int, channel: TaskChannel) -> None:
        """Send the whole schedule and stay to its end; a sender that fell behind gets the time of the drain as well."""
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
        """When the next record is due, or the schedule is over."""
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
        """Send what is due, a bounded burst of it. True when more may be due."""
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
            if isinstance(refusal, BufferError):  # the client's queue is full: back-pressure, felt as lateness
                self._backpressure += 1
                self.client.poll(_FULL_QUEUE_POLL_S)
                break
            if isinstance(refusal, KafkaException):
                self._acknowledgements.refused(self._sent, block.value_bytes(self._sent), refusal.args[0])
                self._sent += 1
        if transactions is not None and transactions.due(self._sent):
            self._end_transaction(t0_ns)
        return self._sent == block.end or self._sent < due_end

    def _send_some(self, end: int) -> Exception | None:
        """One record that is timed, or the records up to the next one. Returns why the client would not take one."""
        block, produce, start = self._block, self.client.produce, self._sent
        assert block is not None
        to_next = -start % self._stride
        if to_next:
            self._sent, refusal = block.hand_over(produce, start, min(end, start + to_next))
            return refusal
        intended_ns = block.intended_ns[start - block.first]
        record = TimedRecord(self._acknowledgements, intended_ns)
        try:
            block.hand_over_timed(produce, start, record)
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
            self._ledger.record_commit(committed[0] - t0_ns, committed[1] - t0_ns)

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

    # --- accounts ----------------------------------------------------------------------------------------------------

    def _tick(self, t0_ns: int, channel: TaskChannel) -> None:
        """What is to be done beside sending, every 5 ms and at the turn of a second."""
        elapsed_ns = time.monotonic_ns() - t0_ns
        turned = self._ledger.turn(elapsed_ns)
        if elapsed_ns < self._next_accounts_ns and not turned:
            return
        self._next_accounts_ns = elapsed_ns + _ACCOUNTS_NS
        self._account(elapsed_ns)
        self._record_samples(t0_ns, now=turned)
        if turned:
            channel.send(self._ledger.progress())

    def _account(self, elapsed_ns: int) -> None:
        acknowledgements = self._acknowledgements
        # What is neither outstanding nor failed is acknowledged. In this order, and since a record that fails counts as
        # outstanding until its callback is through, the figure may lag behind but never leads.
        settled = self._sent - len(self.client)
        failed = len(acknowledgements.failed_sequences)
        self._acked = max(self._acked, settled - failed)
        settled_bytes = self._content.value_bytes_before(self._worker, settled)
        self._ledger.account(
            elapsed_ns,
            Totals(
                sent=self._sent,
                acked=self._acked,
                # As if records were settled in the order they were sent; exact as soon as none is outstanding.
                acked_bytes=settled_bytes - acknowledgements.failed_bytes,
                failed=failed,
                aborted=self._transactions.aborted_records if self._transactions else 0,
            ),
        )

    def _record_samples(self, t0_ns: int, *, now: bool) -> None:
        """Work on the samples put aside; unless `now`, only when there are many of them."""
        least = 1 if now else _SAMPLES_PER_DRAIN
        timed = self._acknowledgements.timed
        if (count := len(timed)) >= least:
            taken = np.array(timed[:count], dtype=np.int64)
            del timed[:count]
            self._ledger.record_acks(taken[:, 0], taken[:, 1] - t0_ns, taken[:, 2] - t0_ns)
        if len(self._timed_sends) >= least:
            sends = np.array(self._timed_sends, dtype=np.int64)
            self._timed_sends = []
            self._ledger.record_sends(sends[:, 0], sends[:, 1] - t0_ns)
