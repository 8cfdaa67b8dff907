"""The page of a history: trends of each metric, change points, environments, acknowledged changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from highwater.common.units import NONE, change_text, plural
from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import HALF, SMALL, Level, Size, line_panel
from highwater.drawing.plot import Series as Line
from highwater.drawing.quantity import BYTES_PER_MIB, NS_PER_MS, as_sentence
from highwater.reports.blocks import (
    Block,
    Bullet,
    Bullets,
    Column,
    FactColumns,
    Facts,
    Field,
    Figure,
    Figures,
    Layout,
    Panel,
    Paragraph,
    Section,
    Tone,
    View,
    table,
)
from highwater.reports.page import Document
from highwater.results.environment_key import difference_text, human_name, unequal
from highwater.results.metrics import title_of, value_text
from highwater.studies.history.detection import (
    Detection,
    OtavaCommand,
    Rules,
    detect,
    sentence,
    shown_columns,
    unit_of,
    word_of,
)
from highwater.studies.history.series import Change, Series, cell_of, metric_of

# Unit of a metric -> the unit of its chart, and its size.
_AXIS_UNITS: Final = {
    "ns": ("ms", NS_PER_MS),
    "bytes": ("MiB", float(BYTES_PER_MIB)),
    "bytes_per_s": ("MiB/s", float(BYTES_PER_MIB)),
    "per_s": ("/s", 1.0),
    "ratio": ("%", 0.01),
    "s_per_gib": ("s/GiB", 1.0),
}
_COMMIT_LENGTH: Final = 12


@dataclass(frozen=True)
class _Trend:
    """A series with the columns that are shown of it, and its change points."""

    series: Series
    rows: Sequence[dict[str, str]]
    columns: Sequence[str]
    detection: Detection

    @property
    def title(self) -> str:
        return f"{self.series.workload} in environment {self.series.environment}"

    def changes_of(self, column: str) -> list[Change]:
        return [change for change in self.detection.changes if change.column == column]


def history_document(
    place: Path, found: Sequence[Series], rules: Rules, otava: OtavaCommand, *, everything: bool = False
) -> Document:
    """The page of the series of `place`, a history or a lake. Raises UsageError when a file is damaged."""
    trends = []
    for series in found:
        columns = series.columns() if everything else shown_columns(series, rules)
        trends.append(_Trend(series, series.rows(), columns, detect(series, rules, columns, otava)))
    sections = [
        _answer(trends),
        _changes(trends),
        *(_trends(number, trend) for number, trend in enumerate(trends, start=1)),
        _acknowledged(trends),
        _environments(trends),
        *(_runs(number, trend) for number, trend in enumerate(trends, start=1)),
    ]
    runs = sum(len(trend.rows) for trend in trends)
    workloads = dict.fromkeys(trend.series.workload for trend in trends)
    meta = f"{plural(len(trends), 'series')[: None if len(trends) == 1 else -1]}, {plural(runs, 'run')}, from {place}"
    return Document(f"History of {', '.join(workloads)}", "", meta, [s for s in sections if s.blocks])


def _answer(trends: Sequence[_Trend]) -> Section:
    items = [
        Bullet(
            as_sentence(sentence(trend.series, trend.columns, trend.detection)),
            trend.title,
            "open" if trend.detection.not_looked else "shown" if trend.detection.changes else "plain",
        )
        for trend in trends
    ]
    worse = any(c.is_worse and c.acknowledged is None for trend in trends for c in trend.detection.changes)
    not_looked = any(trend.detection.not_looked for trend in trends)
    tone: Tone = "bad" if worse else "warn" if not_looked else "good"
    return Section("answer", "What changed", [Bullets(items)], tone, nav="Answer")


def _changes(trends: Sequence[_Trend]) -> Section:
    rows: list[list[str | Field]] = [
        [
            Field(change.time[:10], sort=change.time),
            change.commit[:_COMMIT_LENGTH] or NONE,
            trend.series.workload,
            change.column,
            value_text(change.point.before, unit_of(change.column)),
            value_text(change.point.after, unit_of(change.column)),
            Field(change_text(change.point.ratio), sort=change.point.ratio),
            Field(word_of(change).removeprefix("is "), tone="bad" if change.is_worse else "none"),
            change.acknowledged or ("the workload file changed with this run" if change.workload_changed else NONE),
        ]
        for trend in trends
        for change in trend.detection.changes
    ]
    header = [
        Column("first run after it", text=True),
        Column("commit", text=True),
        Column("workload", text=True),
        Column("metric", text=True),
        Column("before", "mean"),
        Column("after", "mean"),
        Column("change"),
        Column("verdict", text=True),
        Column("known reason", text=True, prose=True),
    ]
    note = "Found by Apache Otava (p 0.001); smaller changes than the policy's floor and the A/A noise are left out."
    return Section("changes", "Change points", [table(header, rows, "Change points", note)] if rows else [])


def _trends(number: int, trend: _Trend) -> Section:
    by_metric: dict[str, list[str]] = {}
    for column in trend.columns:
        if any(row.get(column) for row in trend.rows):
            by_metric.setdefault(metric_of(column), []).append(column)
    figures = [
        _figure(f"trend-{number}-{index}", trend, metric, columns)
        for index, (metric, columns) in enumerate(by_metric.items(), start=1)
    ]
    blocks: list[Block] = [Figures(figures)] if figures else []
    return Section(f"series-{number}", trend.title, blocks, nav=trend.series.workload)


def _figure(name: str, trend: _Trend, metric: str, columns: Sequence[str]) -> Figure:
    """One metric over the runs, a panel for each cell."""
    unit, scale = _AXIS_UNITS.get(unit_of(columns[0]), (unit_of(columns[0]), 1.0))
    values = {column: _values(trend.rows, column) for column in columns}
    known = [value / scale for found in values.values() for value in found if value is not None]
    title = title_of(metric)
    x, y = axes.numbered("run, oldest first", len(trend.rows)), axes.around(f"{title}, {unit}", unit, known)
    size: Size = HALF if len(columns) == 1 else SMALL
    finding = " ".join(_finding(trend, column, values[column]) for column in columns)
    panels = []
    for index, column in enumerate(columns, start=1):
        cell = cell_of(column)
        points = [
            Point(float(run), None if value is None else value / scale)
            for run, value in enumerate(values[column], start=1)
        ]
        moments = [
            Level(change.commit[:7] or change.time[:10], _number_of(trend, change) - 0.5)
            for change in trend.changes_of(column)
        ]
        drawing = line_panel(
            f"{name}-{index}",
            f"{title}{f': {cell}' if cell else ''}",
            _finding(trend, column, values[column]),
            [Line(1, title, points, markers=True)],
            x,
            y,
            size,
            moments=moments,
        )
        panels.append(Panel(cell, drawing))
    header: list[str | Column] = ["run", Column("time", text=True), Column("commit", text=True), *columns]
    rows = [
        [str(run), row["time"], row["commit"][:_COMMIT_LENGTH] or NONE, *(_text(row, column) for column in columns)]
        for run, row in enumerate(trend.rows, start=1)
    ]
    changed = any(trend.changes_of(column) for column in columns)
    note = "A vertical line stands before the first run after a change." if changed else ""
    layout: Layout = "half" if len(columns) == 1 else "many"
    return Figure(name, title, finding, [View("", panels)], table(header, rows), note=note, layout=layout)


def _finding(trend: _Trend, column: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    last, low, high = (value_text(value, unit_of(column)) for value in (known[-1], min(known), max(known)))
    spread = f", between {low} and {high}" if low != high else ""
    changes = "".join(
        f"; {word_of(change).removeprefix('is ')} since {change.time[:10]}, {change_text(change.point.ratio)}"
        for change in trend.changes_of(column)
    )
    return f"{cell_of(column) or column}: last {last}{spread}{changes}."


def _number_of(trend: _Trend, change: Change) -> int:
    """The number of the first run after a change, from 1."""
    return next(
        number
        for number, row in enumerate(trend.rows, start=1)
        if (row["time"], row["commit"]) == (change.time, change.commit)
    )


def _values(rows: Sequence[dict[str, str]], column: str) -> list[float | None]:
    return [float(row[column]) if row.get(column) else None for row in rows]


def _text(row: dict[str, str], column: str) -> str:
    return value_text(float(row[column]), unit_of(column)) if row.get(column) else NONE


def _acknowledged(trends: Sequence[_Trend]) -> Section:
    rows = [
        [trend.series.workload, item.column, item.place, item.acknowledged_utc, item.reason]
        for trend in trends
        for item in trend.series.acknowledgements()
    ]
    titles = ("workload", "metric", "first run after it", "acknowledged")
    header = [*(Column(title, text=True) for title in titles), Column("reason", text=True, prose=True)]
    blocks: list[Block] = [table(header, rows, "Acknowledged changes")] if rows else []
    return Section("acknowledged", "Acknowledged changes", blocks, nav="Acknowledged")


def _environments(trends: Sequence[_Trend]) -> Section:
    """The facts of each environment, after what differs between two environments of one workload."""
    series = [trend.series for trend in trends]
    lines = [Bullet(text, subject) for subject, text in difference_lines(series)]
    by_key = {one.environment: fact_rows(one) for one in series}
    groups = [Facts(f"Environment {key}", rows) for key, rows in by_key.items() if rows]
    blocks: list[Block] = []
    if lines:
        blocks += [Paragraph("Runs of different environments are different series.", "note"), Bullets(lines)]
    return Section("environments", "Environments", [*blocks, *([FactColumns(groups)] if groups else [])])


def _runs(number: int, trend: _Trend) -> Section:
    rows = [
        [str(run), row["time"], row["commit"] or NONE, row["branch"] or NONE, row["workload_sha256"]]
        for run, row in enumerate(trend.rows, start=1)
    ]
    titles = ("time", "commit", "branch", "workload file, SHA-256")
    header: list[str | Column] = ["run", *(Column(title, text=True) for title in titles)]
    return Section(f"runs-{number}", f"Runs of {trend.title}", [table(header, rows, "Runs")], nav="Runs")


def fact_rows(series: Series) -> list[tuple[str, str]]:
    """The facts that are known of an environment, by their human names."""
    return [(human_name(fact), str(value)) for fact, value in series.facts().items() if value is not None]


def difference_lines(series: Sequence[Series]) -> Iterator[tuple[str, str]]:
    """The two environments, and what differs between them, for each change of environment of a workload."""
    by_workload: dict[str, list[Series]] = {}
    for one in series:
        by_workload.setdefault(one.workload, []).append(one)
    for workload, found in by_workload.items():
        for before, after in pairwise(sorted(found, key=lambda one: one.rows()[0]["time"])):
            differing = map(difference_text, unequal(before.facts(), after.facts()))
            yield f"{workload}, {before.environment} → {after.environment}", "; ".join(differing)
