"""What consumers that had to wait found, and how they caught up: read off the counts per tenth of a second. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from highwater.spark_loadgen.consumer import ConsumerReport
from highwater.spark_loadgen.coordination import Release
from highwater.spark_loadgen.model import BacklogReport, LoadPlan
from highwater.spark_loadgen.windows import SECOND_NS, Windows

# Consumers have caught up when they are less than this much load behind.
_BEHIND_S: Final = 0.1
_TENTHS: Final = 10


def backlog_report(
    plan: LoadPlan, release: Release | None, tenths: Windows, consumers: Sequence[ConsumerReport]
) -> BacklogReport | None:
    """tenths: of all producers and consumers, index = tenth of a second since T0.

    None when no consumer waited, or none was let go.
    """
    if release is None or not consumers:
        return None
    tenths.lengthen(tenths.seconds)
    lag = lag_of(tenths, plan.groups)
    end = len(lag)
    if plan.start_after_load:
        caught_up_s = _last_record_s(consumers, lag)
    elif (found := _caught_up(release.at_s, tenths.acked, lag)) is not None:
        end, caught_up_s = found, found / _TENTHS
    else:
        caught_up_s = None
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
    reading_s = caught_up_s - first_poll_s
    return replace(
        report,
        drain_records_per_s=sum(tenths.received[:end]) / reading_s,
        drain_bytes_per_s=sum(tenths.received_bytes[:end]) / reading_s,
    )


def lag_of(rows: Windows, groups: int) -> list[int]:
    """At the end of each second, or tenth; a record may be received before its acknowledgement has arrived."""
    behind = (
        groups * (acked - aborted) - received
        for acked, aborted, received in zip(rows.acked, rows.aborted, rows.received, strict=True)
    )
    return [max(0, lag) for lag in accumulate(behind)] if groups else []


def _caught_up(start_s: float, acked: Sequence[int], lag: Sequence[int]) -> int | None:
    """How many tenths after T0 next to nothing was left to read for the first time, by the load of the last second."""
    for end in range(math.ceil(start_s * _TENTHS) + 1, len(lag) + 1):
        if lag[end - 1] <= sum(acked[max(0, end - _TENTHS) : end]) * _BEHIND_S:
            return end
    return None


def _last_record_s(consumers: Sequence[ConsumerReport], lag: Sequence[int]) -> float | None:
    """When the last record came, if nothing was left after it."""
    if not lag or lag[-1]:
        return None
    return max((report.last_record_ns or 0 for report in consumers), default=0) / SECOND_NS
