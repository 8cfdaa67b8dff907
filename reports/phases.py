"""Other figures of a trial: time to steady state, backlog, lag, skew, transactions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from highwater.common.units import count_text, duration_text, percent_text, significant, size_text
from highwater.drawing.quantity import NS_PER_S
from highwater.reports.blocks import Block, Column
from highwater.reports.cells import Run
from highwater.reports.medians import MedianColumn, median_table
from highwater.results.models import TrialSummary

_STEADY: Final = "Steady state"
_BACKLOG: Final = "Backlog"
_CONSUMING: Final = "Consuming"
_TRANSACTIONS: Final = "Transactions"


def _commit_s(summary: TrialSummary, percentile: str) -> float | None:
    commit = summary.transactions.commit_ns if summary.transactions else None
    return None if commit is None else getattr(commit, percentile) / NS_PER_S


_COLUMNS: Final = (
    MedianColumn(
        Column("attained after", group=_STEADY),
        lambda s: s.steady.at_s if s.steady and s.steady.attained else None,
        duration_text,
    ),
    MedianColumn(
        Column("slope", "of a window", group=_STEADY),
        lambda s: s.steady.slope_ratio if s.steady else None,
        percent_text,
    ),
    MedianColumn(Column("laid up", group=_BACKLOG), lambda s: s.backlog.bytes if s.backlog else None, size_text),
    MedianColumn(
        Column("read at", group=_BACKLOG),
        lambda s: s.backlog.drain_bytes_per_s if s.backlog else None,
        lambda v: f"{size_text(v)}/s",
    ),
    MedianColumn(
        Column("caught up after", group=_BACKLOG),
        lambda s: s.backlog.caught_up_at_s if s.backlog else None,
        duration_text,
    ),
    MedianColumn(Column("largest lag", "records", group=_CONSUMING), lambda s: s.lag_max, count_text),
    MedianColumn(
        Column("partition skew", "busiest ÷ mean", group=_CONSUMING),
        lambda s: s.partition_skew_ratio,
        lambda v: f"{significant(v)}×",
    ),
    MedianColumn(
        Column("committed", group=_TRANSACTIONS),
        lambda s: s.transactions.committed if s.transactions else None,
        count_text,
    ),
    MedianColumn(
        Column("aborted", group=_TRANSACTIONS), lambda s: s.transactions.aborted if s.transactions else None, count_text
    ),
    MedianColumn(Column("commit p50", group=_TRANSACTIONS), lambda s: _commit_s(s, "p50"), duration_text),
    MedianColumn(Column("commit p99", group=_TRANSACTIONS), lambda s: _commit_s(s, "p99"), duration_text),
)


def phase_blocks(run: Run) -> list[Block]:
    """The table; empty when no trial has any of these figures."""
    note = "Medians of the shown trials, with lowest–highest beneath. Times count from the start of the load."
    unsteady = [
        f"{cell.label}, trial {t.summary.trial}"
        for cell in run.cells
        for t in cell.trials
        if t.summary.steady and not t.summary.steady.attained
    ]
    if unsteady:
        note += f" Never steady, and measured all the same: {_some(unsteady)}."
    found = median_table(run, _COLUMNS, "Phases", note)
    return [found] if found else []


def skipped_sentences(run: Run) -> Iterable[str]:
    """Why cells have fewer trials than planned, each reason once."""
    reasons: dict[str, list[str]] = {}
    for cell in run.cells:
        for plan in cell.planned:
            if plan.status == "skipped":
                reasons.setdefault(plan.error or "no reason was recorded", []).append(cell.label)
    for reason, labels in reasons.items():
        yield f"Trials left out, as they could change nothing ({reason}): {_some(list(dict.fromkeys(labels)))}."


def _some(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return "; ".join(names[:most]) + more
