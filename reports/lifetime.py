"""What a system cost and held beside its load: CPU, reading, start, memory, partitions, restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from highwater.common.units import duration_text, plural, significant, size_text
from highwater.reports.blocks import Block, Column
from highwater.reports.cells import Run
from highwater.reports.medians import MedianColumn, median_table
from highwater.results.lifetime import Restart, Start
from highwater.results.models import TrialSummary

_READING: Final = "Reading"
_START: Final = "Start"
_MEMORY: Final = "Resident memory"
_PARTITION: Final = "Each partition"
_RESTART: Final = "Start on its log"


def _of_start(read: Callable[[Start], float | None]) -> Callable[[TrialSummary], float | None]:
    return lambda summary: read(summary.start) if summary.start else None


def _of_restart(read: Callable[[Restart], float | None]) -> Callable[[TrialSummary], float | None]:
    return lambda summary: read(summary.restart) if summary.restart else None


def _per_partition_bytes(start: Start) -> float | None:
    if start.idle_rss_bytes is None or start.rss_bytes is None:
        return None
    return (start.idle_rss_bytes - start.rss_bytes) / start.partitions


def _per_second(value: float) -> str:
    return f"{size_text(value)}/s"


_COLUMNS: Final = (
    MedianColumn(Column("broker CPU", "s per GiB"), lambda s: s.host.system_cpu_s_per_gib, significant),
    MedianColumn(
        Column("consumed", group=_READING),
        lambda s: s.consumed_bytes_per_s if s.generator.consumers else None,
        _per_second,
    ),
    MedianColumn(Column("the disk alone", group=_READING), lambda s: s.cold_read_bytes_per_s, _per_second),
    MedianColumn(Column("ready after", group=_START), _of_start(lambda start: start.ready_s), duration_text),
    MedianColumn(Column("idle", group=_MEMORY), _of_start(lambda start: start.idle_rss_bytes), size_text),
    MedianColumn(Column("at its most", group=_MEMORY), _of_start(lambda start: start.peak_rss_bytes), size_text),
    MedianColumn(
        Column("made in", group=_PARTITION),
        _of_start(lambda start: start.make_topics_s / start.partitions),
        duration_text,
    ),
    MedianColumn(Column("holds", group=_PARTITION), _of_start(_per_partition_bytes), size_text),
    MedianColumn(Column("ended after", group=_RESTART), _of_restart(lambda restart: restart.ended_s), duration_text),
    MedianColumn(Column("ready after", group=_RESTART), _of_restart(lambda restart: restart.ready_s), duration_text),
    MedianColumn(Column("CPU", group=_RESTART), _of_restart(lambda restart: restart.cpu_s), duration_text),
)


def lifetime_blocks(run: Run) -> list[Block]:
    """Empty where no trial has any of it."""
    if not any(trial.summary.start for trial in run.result.trials):
        return []
    note = (
        "Medians of the shown trials, with lowest–highest beneath. Start: from its first process until it serves, "
        "ZooKeeper's start included. Memory is that of all brokers."
    )
    again = sum(trial.summary.restart.starts > 1 for trial in run.result.trials if trial.summary.restart)
    if again:
        note += f" In {plural(again, 'trial')} the broker ended while it started on its log, and was started again."
    found = median_table(run, _COLUMNS, "Start, memory, restart", note)
    return [found] if found else []
