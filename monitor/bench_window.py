"""Cuts the time of a bench run out of the history, into monitor.json in the run's result directory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from highwater.common.units import count_text
from highwater.monitor.errors import HistoryError
from highwater.monitor.history.reader import HistoryReader, Series, metrics_of, unit_of
from highwater.results.files import ResultDirectoryError
from highwater.results.monitor import MonitorEvent, MonitorLine, MonitorWindow, write_monitor_window
from highwater.results.reader import RunResult

_AROUND_MS: Final = 30_000
"""Before and after the trials, to see what was usual."""
_MOST_POINTS: Final = 2000
_MOST_EVENTS: Final = 1000
_MOST_SEARCHED: Final = 200
_MOST_SHOWN: Final = 8
_CHOSEN: Final = {
    "cluster": ("end_offsets.rate", "lag", "under_replicated", "under_min_isr", "offline"),
    "broker": (
        "bytes_in.rate",
        "bytes_out.rate",
        "replication_bytes_in.rate",
        "cpu_s.rate",
        "rss_bytes",
        "connections",
        "size_bytes",
    ),
    "topic": ("end_offsets.rate",),
    "group": ("lag", "lag_s"),
    "host": (
        "cpu_busy_s.rate",
        "io_wait_s.rate",
        "disk_read_bytes.rate",
        "disk_written_bytes.rate",
        "received_bytes.rate",
        "sent_bytes.rate",
        "memory_available_bytes",
        "page_cache_bytes",
        "dirty_bytes",
        "writeback_bytes",
    ),
}
"""The columns of each kind that a report shows."""


def attach(directory: Path, reader: HistoryReader, shown: str) -> MonitorWindow:
    """Write monitor.json, in the place of an older one, and return what is in it.

    shown: the history's file or address. Raises HistoryError if the history has nothing of that time, or is not
    readable; ResultDirectoryError if `directory` is not that of a run with a trial, or cannot be written.
    """
    window = cut(reader, shown, *_time_of(RunResult(directory)))
    write_monitor_window(directory, window)
    return window


def cut(reader: HistoryReader, shown: str, from_ms: int, to_ms: int) -> MonitorWindow:
    lines: list[MonitorLine] = []
    left_out: list[str] = []
    for kind, metrics in _CHOSEN.items():
        for metric in metrics:
            found = _with_values(reader, kind, metric, (from_ms, to_ms))
            kept = sorted(found, key=_largest, reverse=True)[:_MOST_SHOWN]
            if len(found) > len(kept):
                left_out.append(f"{kind} {metric}: the {len(kept)} largest of {count_text(len(found))} are here")
            lines += [_line(each) for each in sorted(kept, key=lambda each: each.name)]
    if not lines:
        raise HistoryError(
            f"{shown}: has nothing between {_clock(from_ms)} and {_clock(to_ms)}: did this monitor watch the cluster "
            "of the run, and does its history go back so far?"
        )
    events = reader.events(from_ms, to_ms, most=_MOST_EVENTS + 1)
    if len(events) > _MOST_EVENTS:
        left_out.append(f"events: the newest {count_text(_MOST_EVENTS)} are here, and there are more")
        events = events[:_MOST_EVENTS]
    told = [MonitorEvent(at_ms=each.at_ms, kind=each.kind.value, text=each.text) for each in reversed(events)]
    return MonitorWindow(
        cluster=next(iter(reader.names("cluster", 1)), ""),
        history=shown,
        from_ms=from_ms,
        to_ms=to_ms,
        lines=lines,
        events=told,
        left_out=left_out,
    )


def _time_of(result: RunResult) -> tuple[int, int]:
    spans = [
        (started_s, started_s + max(sum(steps_s.values()), phases_s))
        for started_s, steps_s, phases_s in _trials(result)
    ]
    if not spans:
        raise ResultDirectoryError(f"{result.directory}: no trial of this run has finished, so its time is not known")
    begin_s, end_s = min(begin for begin, _ in spans), max(end for _, end in spans)
    return round(begin_s * 1000) - _AROUND_MS, round(end_s * 1000) + _AROUND_MS


def _trials(result: RunResult) -> Iterable[tuple[float, dict[str, float], float]]:
    """Unix time of the start, the steps, and the time until the last phase ended, in seconds."""
    steps = {plan.trial_id: plan.steps_s for plan in result.manifest.trials}
    for trial in result.trials:
        summary = trial.summary
        started_s = datetime.fromisoformat(summary.started_utc).timestamp()
        yield started_s, steps.get(summary.trial_id, {}), max(phase.end_s for phase in summary.phases)


def _with_values(reader: HistoryReader, kind: str, metric: str, span: tuple[int, int]) -> list[Series]:
    found = (reader.series(kind, name, metric, *span, _MOST_POINTS) for name in reader.names(kind, _MOST_SEARCHED))
    return [series for series in found if _known(series)]


def _known(series: Series) -> Sequence[float]:
    return [point.value for point in series.points if isinstance(point.value, float)]


def _largest(series: Series) -> float:
    return max(_known(series))


def _line(series: Series) -> MonitorLine:
    return MonitorLine(
        kind=series.kind,
        name=series.name,
        metric=series.metric,
        meaning=metrics_of(series.kind)[series.metric],
        unit=unit_of(series.kind, series.metric),
        at_ms=[point.at_ms for point in series.points],
        values=[point.value if isinstance(point.value, float) else None for point in series.points],
    )


def _clock(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
