"""The metrics of a running producer: counts per second, latency histograms, progress, report.

Both drivers (client and wire) record their totals since T0 and their timed records here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from highwater.results.histogram import HistogramSeries
from highwater.spark_loadgen.model import LoadPlan, TransactionReport
from highwater.spark_loadgen.telemetry.changes import Changes
from highwater.spark_loadgen.windows import SECOND_NS, TENTH_NS, SecondMeter, Windows


@dataclass(frozen=True, slots=True)
class ProducerReport:
    """The measurements of one producer. Times in ns.

    first_send_delay_ns: of the first timed record; None in a closed loop. backpressure: how often the client's queue
    was full. histograms: metric -> second -> encoded histogram.
    """

    sent: int
    acked: int
    failed_sequences: Sequence[int]
    aborted_sequences: Sequence[int] | NDArray[np.int64]
    windows: Windows
    cpu_ns: list[int]
    cpu_ratio: list[float]
    histograms: dict[str, dict[int, bytes]]
    first_send_delay_ns: int | None
    backpressure: int
    errors: dict[str, int]
    transactions: TransactionReport | None = None
    tenths: Windows | None = None
    """acked and aborted per tenth of a second; None in a plan whose consumers do not wait."""


class Totals(NamedTuple):
    """Counts since T0; the fields are rows of Windows. Records that the client refused count as sent and as failed."""

    sent: int = 0
    acked: int = 0
    acked_bytes: int = 0
    failed: int = 0
    aborted: int = 0


@dataclass(slots=True)
class _Timed:
    """Timed records that were acknowledged since the last progress message."""

    records: int = 0
    service_sum_ns: int = 0
    service_max_ns: int = 0


class ProducerMetrics:
    """Call `start` at T0, then `record_totals` and `advance` a few hundred times a second."""

    def __init__(self, plan: LoadPlan) -> None:
        self._closed_loop = plan.schedule is None
        self._windows = Windows()
        self._tenths = Windows() if plan.consumers_wait else None
        self._meter = SecondMeter()
        self._filed = Totals()
        self._response = HistogramSeries()
        self._service = HistogramSeries()
        self._send_delay = HistogramSeries()
        self._commit = HistogramSeries() if plan.transactions else None
        self._histograms = {
            "produce_response": self._response,
            "produce_service": self._service,
            "send_delay": self._send_delay,
        }
        if self._commit is not None:
            self._histograms["txn_commit"] = self._commit
        self.changes = Changes(self._windows, self._histograms, self._meter)
        self._first_send_delay_ns: int | None = None
        self._timed = _Timed()
        self.errors: Counter[str] = Counter()

    def start(self) -> None:
        self._meter.start()

    def record_totals(self, elapsed_ns: int, totals: Totals) -> None:
        """Add the changes since the last call to the present second."""
        if totals == self._filed:
            return
        second = elapsed_ns // SECOND_NS
        for name, amount, before in zip(Totals._fields, totals, self._filed, strict=True):
            if amount != before:
                self._windows.add(name, second, amount - before)  # type: ignore[arg-type]
        if self._tenths is not None:
            self._tenths.add("acked", elapsed_ns // TENTH_NS, totals.acked - self._filed.acked)
            self._tenths.add("aborted", elapsed_ns // TENTH_NS, totals.aborted - self._filed.aborted)
        self._filed = totals

    def advance(self, elapsed_ns: int) -> bool:
        """True in the first call after a second has ended."""
        return self._meter.advance(elapsed_ns)

    def record_sends(self, intended_ns: NDArray[np.int64], sent_ns: NDArray[np.int64]) -> None:
        """Record when timed records were sent. All instants here are ns since T0; a closed loop has no send delay."""
        if self._closed_loop:
            return
        delays_ns = sent_ns - intended_ns
        if self._first_send_delay_ns is None:
            self._first_send_delay_ns = int(delays_ns[0])
        self._send_delay.record(delays_ns, intended_ns // SECOND_NS)

    def record_acks(
        self, intended_ns: NDArray[np.int64], sent_ns: NDArray[np.int64], acked_ns: NDArray[np.int64]
    ) -> None:
        """Record when timed records were acknowledged."""
        if self._closed_loop:
            intended_ns = sent_ns
        seconds = intended_ns // SECOND_NS
        self._response.record(acked_ns - intended_ns, seconds)
        service_ns = acked_ns - sent_ns
        self._service.record(service_ns, seconds)
        self._timed.records += len(service_ns)
        self._timed.service_sum_ns += int(service_ns.sum())
        self._timed.service_max_ns = max(self._timed.service_max_ns, int(service_ns.max()))

    def record_commit(self, started_ns: int, ended_ns: int) -> None:
        assert self._commit is not None, "the plan has no transactions"
        self._commit.record(np.array([ended_ns - started_ns]), np.array([ended_ns // SECOND_NS]))

    def progress(self) -> dict[str, Any]:
        """The progress message to the driver about the second that has just ended."""
        last = self._meter.second - 1
        timed, self._timed = self._timed, _Timed()
        return {
            "kind": "progress",
            "second": last,
            "sent": self._windows.at("sent", last),
            "acked": self._windows.at("acked", last),
            "acked_bytes": self._windows.at("acked_bytes", last),
            "timed": timed.records,
            "service_sum_ns": timed.service_sum_ns,
            "service_max_ns": timed.service_max_ns,
            "totals": self._filed._asdict(),
            "cpu_ratio": self._meter.cpu_ratio[-1],
            "p50_ns": self._response.percentile(last, 50),
            "p99_ns": self._response.percentile(last, 99),
        }

    def report(
        self,
        failed_sequences: Sequence[int],
        backpressure: int,
        aborted_sequences: Sequence[int] | NDArray[np.int64] = (),
        transactions: TransactionReport | None = None,
    ) -> ProducerReport:
        return ProducerReport(
            sent=self._filed.sent,
            acked=self._filed.acked,
            failed_sequences=failed_sequences,
            aborted_sequences=aborted_sequences,
            windows=self._windows,
            cpu_ns=self._meter.cpu_ns,
            cpu_ratio=self._meter.cpu_ratio,
            histograms={name: series.encode() for name, series in self._histograms.items()},
            first_send_delay_ns=self._first_send_delay_ns,
            backpressure=backpressure,
            errors=dict(self.errors),
            transactions=transactions,
            tenths=self._tenths,
        )
