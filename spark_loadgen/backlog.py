"""The backlog of waiting consumers and how they caught up, from counts per tenth of a second. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from highwater.spark_loadgen.consumer import ConsumerReport
from highwater.spark_loadgen.coordination import ConsumerStart
from highwater.spark_loadgen.model import BacklogReport, LoadPlan
from highwater.spark_loadgen.windows import SECOND_NS, Windows

# Consumers have caught up when they are behind by less than this much load.
_BEHIND_S: Final = 0.1
_TENTHS: Final = 10


def backlog_report(
    plan: LoadPlan, consumer_start: ConsumerStart | None, tenths: Windows, consumers: Sequence[ConsumerReport]
) -> BacklogReport | None:
    """tenths: counts of all producers and consumers, index = tenth of a second since T0.

    None when no consumer waited, or no waiting consumer started.
    """
    if consumer_start is None or not consumers:
        return None
    tenths.lengthen(tenths.seconds)
    lag = lag_of(tenths, plan.groups)
    end = len(lag)
    if plan.start_after_load:
        caught_up_s = _last_record_s(consumers, lag)
    elif (found := _caught_up(consumer_start.at_s, tenths.acked, lag)) is not None:
        end, caught_up_s = found, found / _TENTHS
    else:
        caught_up_s = None
    report = BacklogReport(
        bytes=consumer_start.bytes,
        records=consumer_start.records,
        built_at_s=consumer_start.at_s if consumer_start.built else None,
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
    """The lag at the end of each row; never negative, though a record may arrive before its acknowledgement."""
    behind = (
        groups * (acked - aborted) - received
        for acked, aborted, received in zip(rows.acked, rows.aborted, rows.received, strict=True)
    )
    return [max(0, lag) for lag in accumulate(behind)] if groups else []


def _caught_up(start_s: float, acked: Sequence[int], lag: Sequence[int]) -> int | None:
    """The first tenth since T0 at whose end the lag is small, compared with the load of the second before."""
    for end in range(math.ceil(start_s * _TENTHS) + 1, len(lag) + 1):
        if lag[end - 1] <= sum(acked[max(0, end - _TENTHS) : end]) * _BEHIND_S:
            return end
    return None


def _last_record_s(consumers: Sequence[ConsumerReport], lag: Sequence[int]) -> float | None:
    """When the last record arrived; None if records were left unread."""
    if not lag or lag[-1]:
        return None
    return max((report.last_record_ns or 0 for report in consumers), default=0) / SECOND_NS
