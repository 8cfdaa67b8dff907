"""What consumers that had to wait found, and how they caught up: read off the counts per second. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from spark_loadgen.consumer import ConsumerReport
from spark_loadgen.coordination import Release
from spark_loadgen.model import BacklogReport, LoadPlan
from spark_loadgen.windows import SECOND_NS, Windows

# Consumers have caught up when they are less than this much load behind.
_BEHIND_S: Final = 0.1


def backlog_report(
    plan: LoadPlan, release: Release | None, rows: Windows, lag: Sequence[int], consumers: Sequence[ConsumerReport]
) -> BacklogReport | None:
    """rows, lag: per second since T0, lag at the end of each. None when no consumer waited, or none was let go."""
    if release is None or not consumers:
        return None
    if plan.start_after_load:
        caught_up_s = _last_record_s(consumers, lag)
    else:
        caught_up_s = _caught_up_s(release.at_s, rows.acked, lag)
    report = BacklogReport(
        bytes=release.bytes,
        records=release.records,
        built_at_s=release.at_s if release.built else None,
        caught_up_at_s=caught_up_s,
        drain_records_per_s=None,
        drain_bytes_per_s=None,
    )
    first_poll_s = min(report.first_poll_ns or 0 for report in consumers) / SECOND_NS
    if caught_up_s is None or caught_up_s <= first_poll_s:
        return report
    # Catching up ends with a second, reading after the load with the last record of all.
    end_s = math.ceil(caught_up_s)
    reading_s = caught_up_s - first_poll_s
    return replace(
        report,
        drain_records_per_s=sum(rows.received[:end_s]) / reading_s,
        drain_bytes_per_s=sum(rows.received_bytes[:end_s]) / reading_s,
    )


def _caught_up_s(start_s: float, acked: Sequence[int], lag: Sequence[int]) -> float | None:
    """The end of the first whole second after the start at which next to nothing is left to read."""
    for second in range(math.ceil(start_s), len(lag)):
        if lag[second] <= acked[second] * _BEHIND_S:
            return second + 1.0
    return None


def _last_record_s(consumers: Sequence[ConsumerReport], lag: Sequence[int]) -> float | None:
    """When the last record came, if nothing was left after it."""
    if not lag or lag[-1]:
        return None
    return max((report.last_record_ns or 0 for report in consumers), default=0) / SECOND_NS
