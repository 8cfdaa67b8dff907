"""What consumers that had to wait found, and how they caught up: read off the counts per second. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from spark_loadgen.consumer import ConsumerReport
from spark_loadgen.model import BacklogReport, LoadPlan
from spark_loadgen.windows import SECOND_NS, Windows

# Consumers have caught up when they are less than this much load behind.
_BEHIND_S: Final = 0.1


def backlog_report(
    plan: LoadPlan, start_s: float | None, rows: Windows, lag: Sequence[int], consumers: Sequence[ConsumerReport]
) -> BacklogReport | None:
    """`start_s`: when the consumers were let go, since T0; None when none had to wait, or the load ended before.

    rows, lag: per second since T0, lag at the end of each.
    """
    if start_s is None or not consumers:
        return None
    built_bytes = _until(rows.acked_bytes, start_s)
    wanted_bytes = plan.start_after_backlog_bytes
    first_poll_s = min(report.first_poll_ns or 0 for report in consumers) / SECOND_NS
    caught_up_s = _last_record_s(consumers, lag) if plan.start_after_load else _caught_up_s(start_s, rows.acked, lag)
    report = BacklogReport(
        bytes=round(built_bytes),
        records=round(_until(rows.acked, start_s)),
        built_at_s=start_s if wanted_bytes is None or built_bytes >= wanted_bytes else None,
        caught_up_at_s=caught_up_s,
        drain_records_per_s=None,
        drain_bytes_per_s=None,
    )
    if caught_up_s is None or caught_up_s <= first_poll_s:
        return report
    # The last record of all ends the reading, whatever share of its second that is.
    end_s = math.ceil(caught_up_s)
    reading_s = caught_up_s - first_poll_s
    return replace(
        report,
        drain_records_per_s=sum(rows.received[:end_s]) / reading_s,
        drain_bytes_per_s=sum(rows.received_bytes[:end_s]) / reading_s,
    )


def _until(row: Sequence[int], instant_s: float) -> float:
    """The sum up to an instant; a second that is not over counts by its share."""
    whole = math.floor(instant_s)
    share = row[whole] * (instant_s - whole) if whole < len(row) else 0.0
    return sum(row[:whole]) + share


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
