"""The page of live figures: is the objective held now, for how long, and then the charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from highwater.common.units import NONE, count_text, duration_ns_text, percent_text, plural, rate_text, significant
from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import Band, Level, Series, Size, line_panel, swatch
from highwater.drawing.quantity import NS_PER_MS
from highwater.reports.blocks import (
    Block,
    FactColumns,
    Facts,
    Figure,
    Figures,
    LegendItem,
    Panel,
    Paragraph,
    Section,
    Statements,
    Tone,
    View,
    table,
)
from highwater.reports.page import Document
from highwater.results.bounds import bound_text
from highwater.studies.telemetry.store import Store, StoredTrial
from highwater.studies.telemetry.wording import bound_ns, evidence_line, objective_line, state_text, title_of

_TONES: Final[dict[str, Tone]] = {"held": "good", "missed": "bad", "waiting": "warn", "open": "warn"}
_TABLE_ROWS: Final = 20
_MOST_HOSTS: Final = 4
# On a telephone the latest second has to be in sight, and the letters large enough.
_SIZE: Final = Size(440, 290)
_WORST_HOSTS_FROM_S: Final = 30

Second = Mapping[str, Any]


def live_document(directory: Path) -> tuple[Document, int, bool]:
    """The page of the newest trial, when it was written in ms since 1970, and whether the trial has ended.

    Raises UsageError when the figures cannot be read.
    """
    with Store(directory) as store:
        trials = store.trials()
        seconds = store.seconds(trials[-1].name) if trials else []
    if not trials:
        waiting = Section("answer", "Nothing yet", [Paragraph("No load has published anything yet.")], tone="warn")
        return Document("Live figures", "", "", [], [waiting]), 0, False
    trial = trials[-1]
    ended = bool(trial.figures["ended"])
    sections = [
        Section("seconds", "Second by second", [Figures(_charts(trial, seconds))], nav="Charts"),
        Section("evidence", "What the figures rest on", _evidence(trial, seconds), nav="Evidence"),
    ]
    if len(trials) > 1:
        rows = [[title_of(one), state_text(one)] for one in reversed(trials[:-1])]
        sections.append(Section("earlier", "Earlier trials", [table(["trial", "state"], rows)], nav="Earlier"))
    cell = f"cell {trial.note.cell}" if trial.note is not None else ""
    meta = ", ".join(filter(None, [cell, "final" if ended else evidence_line(trial)]))
    return Document(title_of(trial), "", meta, sections, [_answer(trial)]), trial.written_unix_ms, ended


def _answer(trial: StoredTrial) -> Section:
    figures = trial.figures
    items: list[tuple[str, Tone]] = [
        (objective_line(objective, ended=figures["ended"]), _tone(objective, ended=figures["ended"]))
        for objective in figures["objectives"]
    ]
    if not items:
        items = [("The workload has no objectives (slo); the charts show what was measured.", "none")]
    state = state_text(trial)
    items.insert(0, (state[:1].upper() + state[1:], _TONES[figures["state"]]))
    return Section("answer", "Answer", [Statements(items)], tone=_TONES[figures["state"]])


def _tone(objective: Mapping[str, Any], *, ended: bool) -> Tone:
    met = objective["met"] if ended else objective["now_met"]
    if met is None:
        return "none"
    return "bad" if not met else "good" if objective["met"] else "warn"


def _charts(trial: StoredTrial, seconds: Sequence[Second]) -> list[Figure]:
    shown = [second for second in seconds if second["closed"]]
    charts = [_chart("rate", "Throughput", "records/s", "/s", _rates(shown), trial, shown)]
    for metric, name, title in (
        ("produce_response", "produce", "Produce latency"),
        ("e2e_response", "e2e", "End-to-end latency"),
    ):
        if any(metric in second["latencies"] for second in shown):
            lines = {p: [_ms(s, metric, p) for s in shown] for p in ("p50", "p99", "p999")}
            lines["p99.9"] = lines.pop("p999")
            charts.append(
                _chart(name, title, "ms, log", "ms", lines, trial, shown, levels=_levels(trial, name), log=True)
            )
    if any(second["lag"] is not None for second in shown):
        charts.append(
            _chart("lag", "Lag", "records not yet received", "", {"lag": [s["lag"] for s in shown]}, trial, shown)
        )
    if hosts := _busiest_hosts(shown):
        lines = {host: [_percent(s["hosts"].get(host, {}).get("cpu_ratio")) for s in shown] for host in hosts}
        charts.append(_chart("hosts", "CPU of the busiest hosts", "% of all processors", "%", lines, trial, shown))
    return charts


def _rates(shown: Sequence[Second]) -> dict[str, list[float | None]]:
    rows = {"acknowledged": "acked"}
    if any(second["received"] for second in shown):
        rows["received"] = "received"
    return {name: [float(second[row]) for second in shown] for name, row in rows.items()}


def _chart(
    name: str,
    title: str,
    label: str,
    unit: str,
    lines: Mapping[str, Sequence[float | None]],
    trial: StoredTrial,
    shown: Sequence[Second],
    *,
    levels: Sequence[Level] = (),
    log: bool = False,
) -> Figure:
    values = [value for row in lines.values() for value in row if value is not None and (value > 0 or not log)]
    reach = [*values, *(level.value for level in levels)]
    y = axes.logarithmic(label, unit, reach) if log and values else axes.linear(label, unit, reach)
    x = axes.seconds("seconds since the start", 0, float(shown[-1]["second"] + 1) if shown else 1.0)
    series = [
        Series(slot, line, [Point(s["second"] + 0.5, value) for s, value in zip(shown, row, strict=True)])
        for slot, (line, row) in enumerate(lines.items(), start=1)
    ]
    judged = "p99" if "p99" in lines else next(iter(lines))
    finding = _finding(judged, lines[judged], unit)
    drawing = line_panel(
        f"live-{name}", title, finding, series, x, y, _SIZE, bands=_phases(trial, shown), levels=levels
    )
    rows = [
        [
            str(second["second"]),
            *(NONE if row[index] is None else significant(float(row[index] or 0)) for row in lines.values()),
        ]
        for index, second in list(enumerate(shown))[-_TABLE_ROWS:]
    ]
    legend = [LegendItem(one.slot, one.name, swatch(one.slot, solid=False, line=True)) for one in series]
    return Figure(
        f"chart-{name}",
        title,
        finding,
        [View("line", [Panel("", drawing)])],
        table(["second", *lines], rows, f"{title}, the latest {plural(len(rows), 'second')}"),
        legend=legend if len(series) > 1 else (),
        layout="narrow",
    )


def _finding(name: str, row: Sequence[float | None], unit: str) -> str:
    known = [value for value in row if value is not None]
    if not known:
        return "nothing yet"
    join = "" if unit == "/s" else " "
    now, most = (
        f"{count_text(round(v)) if v >= 1000 else significant(v)}{join}{unit}".strip() for v in (known[-1], max(known))
    )
    return f"{name} {now} in the latest second, {most} at most"


def _phases(trial: StoredTrial, shown: Sequence[Second]) -> list[Band]:
    measured = [second["second"] for second in shown if second["phase"] == "measure"]
    return [Band("measured", float(measured[0]), float(measured[-1] + 1))] if measured else []


def _levels(trial: StoredTrial, prefix: str) -> list[Level]:
    found = []
    for objective in trial.figures["objectives"]:
        bound = bound_ns(objective)
        if objective["metric"].rpartition(".")[0] == prefix and bound is not None:
            percentile = objective["metric"].rpartition(".")[2]
            found.append(Level(f"{percentile} {bound_text(objective['bound'])}", bound / NS_PER_MS))
    return found


def _evidence(trial: StoredTrial, seconds: Sequence[Second]) -> list[Block]:
    figures, note = trial.figures, trial.note
    load = [
        ("measured so far", plural(figures["measured_s"], "second")),
        ("acknowledged", NONE if figures["achieved_per_s"] is None else rate_text(figures["achieved_per_s"])),
        ("received", NONE if figures["consumed_per_s"] is None else rate_text(figures["consumed_per_s"])),
    ]
    for metric, title in (("produce_response", "produce"), ("e2e_response", "end to end")):
        if (latency := figures["latencies"].get(metric)) and latency["count"]:
            told = ", ".join(
                f"{n} {duration_ns_text(latency[p])}" for n, p in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"))
            )
            load.append((title, told))
    messages = [
        ("messages", count_text(figures["messages"])),
        ("missing", count_text(figures["missing"])),
        ("skipped, told later", count_text(figures["skipped"])),
        ("timed records that came late", f"{count_text(figures['late'])} (they are in all figures)"),
        ("behind the load", NONE if trial.behind_s is None else f"{significant(max(0.0, trial.behind_s))} s"),
    ]
    if note is not None:
        messages.insert(0, ("tasks", f"{note.producers} producers, {note.consumers} consumers"))
    busiest = max((s["generator_cpu_ratio_max"] or 0.0 for s in seconds), default=0.0)
    messages.append(("busiest load task", f"{percent_text(busiest)} of a core"))
    return [FactColumns([Facts("Measured phase", load), Facts("Telemetry", messages)])]


def _busiest_hosts(shown: Sequence[Second]) -> list[str]:
    latest = shown[-_WORST_HOSTS_FROM_S:]
    means: dict[str, float] = {}
    for host in {host for second in latest for host in second["hosts"]}:
        found = [s["hosts"][host].get("cpu_ratio", 0.0) for s in latest if host in s["hosts"]]
        means[host] = sum(found) / len(found)
    return sorted(sorted(means), key=lambda host: -means[host])[:_MOST_HOSTS]


def _ms(second: Second, metric: str, percentile: str) -> float | None:
    latency = second["latencies"].get(metric)
    return latency[percentile] / NS_PER_MS if latency and latency["count"] else None


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio
