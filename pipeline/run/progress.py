"""What the queries of a run have done, from Spark's progress reports: counts, rates, lag. Pure."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from highwater.common.units import NONE, count_text, plural, rate_text

Report = Mapping[str, Any]
"""One StreamingQueryProgress, as its JSON."""
Pace = Literal["falls behind", "does not catch up", "catches up", "keeps up"]
_PACE_S: Final = 60.0
_PACE_REPORTS: Final = 4
"""The pace is that of the last minute; with fewer reports than these nothing is said of it."""
_AGGREGATIONS: Final = ("stateStoreSave", "sessionWindowStateStoreSaveExec")
"""Operators that see, and count, one row for all rows of a group that a batch brings."""


@dataclass(slots=True)
class FlowProgress:
    """lag: offsets that brokers have and the query has not read; None if the source does not say.

    rows_per_s: in the latest batch that had rows. rows_per_s_now: in the latest report, so 0 while nothing comes.
    batch_s: what the latest batch took. sink_s: of that, what computing its rows and writing them took.
    """

    name: str
    batches: int = 0
    last_batch: int | None = None
    rows_in: int = 0
    rows_per_s: float = 0.0
    rows_per_s_now: float = 0.0
    batch_s: float | None = None
    sink_s: float | None = None
    lag: int | None = None
    state_rows: int | None = None
    late_rows: int = 0
    late_groups: int = 0
    watermark: str = ""
    _seen: set[str] = field(default_factory=set)
    _recent: deque[tuple[float, int, int]] = field(default_factory=deque)
    """Unix time in seconds, lag and rows read, of the reports that the pace is from."""

    def add(self, reports: Iterable[Report]) -> bool:
        """Take the reports in that are new; returns whether there was one."""
        is_new = False
        for report in reports:
            if report["timestamp"] in self._seen:
                continue
            self._seen.add(report["timestamp"])
            is_new = True
            self._take(report)
        return is_new

    def _take(self, report: Report) -> None:
        if report["batchId"] != self.last_batch:
            self.batches += 1
        self.last_batch = report["batchId"]
        self.rows_in += report["numInputRows"]
        self.rows_per_s_now = float(report["processedRowsPerSecond"]) if report["numInputRows"] else 0.0
        if report["numInputRows"]:
            self.rows_per_s = self.rows_per_s_now
        durations_ms = report.get("durationMs") or {}
        if "addBatch" in durations_ms:
            self.batch_s, self.sink_s = (durations_ms[name] / 1000 for name in ("triggerExecution", "addBatch"))
        operators = report.get("stateOperators") or ()
        if operators:
            self.state_rows = sum(each["numRowsTotal"] for each in operators)
        for each in operators:
            dropped = each.get("numRowsDroppedByWatermark", 0)
            if each["operatorName"] in _AGGREGATIONS:
                self.late_groups += dropped
            else:
                self.late_rows += dropped
        self.watermark = (report.get("eventTime") or {}).get("watermark", self.watermark)
        lags = [lag_of(each.get("endOffset"), each.get("latestOffset")) for each in report["sources"]]
        known = [each for each in lags if each is not None]
        self.lag = sum(known) if known else None
        if self.lag is not None:
            at_s = datetime.fromisoformat(report["timestamp"]).timestamp()
            self._recent.append((at_s, self.lag, report["numInputRows"]))
            while len(self._recent) > _PACE_REPORTS and at_s - self._recent[0][0] > _PACE_S:
                self._recent.popleft()

    @property
    def pace(self) -> Pace | None:
        """Whether the lag of the newer reports is wholly above, or below, that of the older ones; None if too few."""
        if len(self._recent) < _PACE_REPORTS:
            return None
        lags = [lag for _, lag, _ in self._recent]
        older, newer = lags[: len(lags) // 2], lags[len(lags) // 2 :]
        if min(newer) > max(older):
            return "falls behind"
        if max(newer) < min(older):
            return "catches up"
        return "does not catch up" if min(newer) > sum(rows for _, _, rows in self._recent) else "keeps up"

    @property
    def late(self) -> str:
        """What watermarks dropped; empty for nothing. Spark does not count how many records a group had."""
        counted = ((self.late_rows, "row"), (self.late_groups, "group"))
        found = [plural(count, word) for count, word in counted if count]
        return " and ".join(found) + (" of rows" if self.late_groups else "")

    def line(self) -> str:
        """`per_minute: batch 3, 12,000 rows (24,000/s), lag 0, watermark 2026-01-01T00:00:50Z`."""
        if self.last_batch is None:
            return f"{self.name}: waits for its first batch"
        parts = [f"{plural(self.rows_in, 'row')} up to batch {self.last_batch} ({rate_text(self.rows_per_s)})"]
        parts.append(f"lag {NONE if self.lag is None else count_text(self.lag)}")
        if self.state_rows is not None:
            parts.append(f"rows in state: {count_text(self.state_rows)}")
        if late := self.late:
            parts.append(f"dropped as late: {late}")
        if self.watermark and not self.watermark.startswith("1970-01-01T00:00:00"):
            parts.append(f"watermark {self.watermark.replace('.000Z', 'Z')}")
        return f"{self.name}: {', '.join(parts)}"


def lag_of(end: object, latest: object) -> int | None:
    """The offsets between two positions of a source of topics; None if they are not of topics."""
    read, there = _by_partition(end), _by_partition(latest)
    if read is None or there is None:
        return None
    return sum(max(0, offset - read.get(of, 0)) for of, offset in there.items())


def _by_partition(offsets: object) -> dict[tuple[str, str], int] | None:
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except ValueError:
            return None
    if not isinstance(offsets, dict):
        return None
    found = {}
    for topic, partitions in offsets.items():
        if not isinstance(partitions, dict):
            return None
        if not topic.startswith("#"):
            found.update({(topic, partition): int(offset) for partition, offset in partitions.items()})
    return found or None
