"""The roofline: achieved figures in per cent of what storage, network and generator can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from highwater.common.units import NONE, count_text, percent_text, size_text
from highwater.drawing import axes
from highwater.drawing.plot import FULL, Dot, DotGroup, DotRow, Level, dot_panel, swatch
from highwater.reports.blocks import Figure, LegendItem, Panel, View, table
from highwater.reports.cells import Cell, Run, Spread
from highwater.results.calibration import Calibration
from highwater.results.models import TrialSummary, fastest_read_per_s
from highwater.results.storage import StorageProbes


class _Ceiling(NamedTuple):
    """A ceiling. `share` returns a trial's rate ÷ the ceiling, `bound` the ceiling as text; None when unknown."""

    name: str
    share: Callable[[TrialSummary], float | None]
    bound: Callable[[TrialSummary], str | None]


def roofline_figures(run: Run) -> list[Figure]:
    """The chart; empty when no ceiling was measured."""
    cells = [cell for cell in run.cells if cell.shown]
    known = [
        (slot, ceiling)
        for slot, ceiling in enumerate(_ceilings(run.result.probes(), run.result.calibration()), start=1)
        if any(_shares(cell, ceiling) for cell in cells)
    ]
    if not known:
        return []
    percents = [100 * v for cell in cells for _, c in known for v in _shares(cell, c)]
    x = axes.linear("% of the ceiling", "%", [100.0, *percents])
    rows = [DotRow(cell.caption, [_group(cell, slot, c) for slot, c in known]) for cell in cells]
    finding = _finding(cells, [c for _, c in known])
    drawing = dot_panel(
        "roofline-1", "Achieved as per cent of each ceiling", finding, rows, x, FULL.width, [_FULL_SHARE]
    )
    header = ["cell", "ceiling", "bound", "achieved, % of it"]
    data = [
        [cell.label, c.name, c.bound(cell.shown[0].summary) or NONE, _median_text(cell, c)]
        for cell in cells
        for _, c in known
    ]
    return [
        Figure(
            "ceilings",
            "Achieved as per cent of each ceiling",
            finding,
            [View("", [Panel("", drawing)])],
            table(header, data),
            [LegendItem(slot, c.name, swatch(slot, solid=True, line=False)) for slot, c in known],
            note=_NOTE,
            layout="full",
        )
    ]


_FULL_SHARE: Final = Level("ceiling", 100.0)
_NOTE: Final = (
    "A mark is a trial, the line their median. Storage is what fio could append in order past the page cache, beside "
    "what the broker appended to its log: a trial shorter than the page cache's patience can lie above it. The "
    "generator's ceiling is what its producers reach against a broker that does nothing, the consumers' what they "
    "reach when all records are written; the network's is TCP over loopback, beside the values that went in and out."
)


def _ceilings(probes: StorageProbes | None, calibration: Calibration | None) -> list[_Ceiling]:
    def device(summary: TrialSummary) -> float | None:
        return probes.append_ceiling_bytes_per_s(summary.storage.name) if probes else None

    def device_share(summary: TrialSummary) -> float | None:
        bound = device(summary)
        return _appended_bytes_per_s(summary) / bound if bound else None

    def device_text(summary: TrialSummary) -> str | None:
        bound = device(summary)
        return f"{size_text(bound)}/s{', emulated' if summary.storage.emulated else ''}" if bound else None

    loopback = calibration.loopback.bytes_per_s if calibration else None

    def network_share(summary: TrialSummary) -> float | None:
        if not loopback or summary.system.kind == "external":
            return None
        return (summary.achieved_bytes_per_s + summary.consumed_bytes_per_s) / loopback

    return [
        _Ceiling("storage", device_share, device_text),
        _Ceiling("generator", _generator_share, _generator_text),
        _Ceiling("network", network_share, lambda _: f"{size_text(loopback)}/s" if loopback else None),
        _Ceiling("consumers", _consumers_share, _consumers_text),
    ]


def _generator_share(summary: TrialSummary) -> float | None:
    bound = summary.generator.ceiling_per_s
    return summary.achieved_per_s / bound if bound else None


def _generator_text(summary: TrialSummary) -> str | None:
    bound = summary.generator.ceiling_per_s
    return f"{count_text(bound)} records/s" if bound else None


def _consumers_share(summary: TrialSummary) -> float | None:
    bound = summary.generator.consumer_ceiling_per_s
    return fastest_read_per_s(summary.consumed_per_s, summary.backlog) / bound if bound else None


def _consumers_text(summary: TrialSummary) -> str | None:
    bound = summary.generator.consumer_ceiling_per_s
    return f"{count_text(bound)} records/s" if bound else None


def _appended_bytes_per_s(summary: TrialSummary) -> float:
    """The rate of bytes in the log (after compression); the rate of values when the log was not measured."""
    loaded_s = max((p.end_s for p in summary.phases if p.name == "measure"), default=0.0)
    appended = summary.writeback.appended_bytes if summary.writeback else None
    return appended / loaded_s if appended and loaded_s else summary.achieved_bytes_per_s * summary.system.copies


def _shares(cell: Cell, ceiling: _Ceiling) -> list[float]:
    return [v for t in cell.shown if (v := ceiling.share(t.summary)) is not None]


def _group(cell: Cell, slot: int, ceiling: _Ceiling) -> DotGroup:
    shares = [(t.summary, v) for t in cell.shown if (v := ceiling.share(t.summary)) is not None]
    dots = [
        Dot(100 * v, f"{cell.label}, trial {s.trial}: {_percent(v)} of {ceiling.name}", s.verdict.state != "invalid")
        for s, v in shares
    ]
    spread = Spread.of([100 * v for _, v in shares])
    return DotGroup(slot, ceiling.name, dots, spread.median if spread else None)


def _finding(cells: Sequence[Cell], ceilings: Sequence[_Ceiling]) -> str:
    ranked = [
        (spread.median, ceiling.name, cell.label)
        for cell in cells
        for ceiling in ceilings
        if (spread := Spread.of(_shares(cell, ceiling))) is not None
    ]
    share, name, label = max(ranked)
    return f"Nearest to a ceiling: {label} at {_percent(share)} of {name}."


def _median_text(cell: Cell, ceiling: _Ceiling) -> str:
    spread = Spread.of(_shares(cell, ceiling))
    return _percent(spread.median) if spread else NONE


def _percent(share: float) -> str:
    return percent_text(share)
