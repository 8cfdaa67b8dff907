"""How a run stands, from the lines of its live figures: a few kilobytes however long it goes on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from highwater.common.live_figures import Chart
from highwater.drawing.downsample import Point
from highwater.drawing.plot import Band

MOST_STRETCHES: Final = 900
"""The points of a line that the widest picture can show: a longer run has longer stretches."""


@dataclass(slots=True)
class _Mean:
    """The figures of one stretch of time."""

    total: float = 0.0
    count: int = 0
    highest: float = 0.0

    def add(self, other: _Mean) -> None:
        self.highest = max(self.highest, other.highest) if self.count else other.highest
        self.total, self.count = self.total + other.total, self.count + other.count


@dataclass(slots=True)
class Standing:
    """Times are Unix time in seconds. `finished`: the run's last words; None while it goes on, and after it died."""

    title: str = ""
    again: str = ""
    """The command that continues the run if it died."""
    charts: list[Chart] = field(default_factory=list)
    words: str = ""
    finished: str | None = None
    start_s: float = 0.0
    last_s: float = 0.0
    stretch_s: int = 1
    _bands: list[tuple[str, float, float | None]] = field(default_factory=list)
    _stretches: dict[str, dict[int, _Mean]] = field(default_factory=dict)

    def take(self, lines: Iterable[Mapping[str, Any]]) -> None:
        for line in lines:
            self._take(line, float(line["at"]))

    def _take(self, line: Mapping[str, Any], at_s: float) -> None:
        self.last_s = at_s
        match line:
            case {"title": title, "again": again, "charts": charts}:
                self.title, self.again, self.start_s = title, again, at_s
                self.charts = [Chart(**chart) for chart in charts]
            case {"begin": name}:
                self._bands.append((name, at_s, None))
            case {"end": _} if self._bands:
                name, begun_s, _ = self._bands[-1]
                self._bands[-1] = name, begun_s, at_s
            case {"finished": words}:
                self.finished = words
            case {"now": words}:
                self.words = words
        for name, value in line.get("figures", {}).items():
            self._put(self._stretches.setdefault(name, {}), at_s, _Mean(value, 1, value))

    def _put(self, into: dict[int, _Mean], at_s: float, figure: _Mean) -> None:
        while at_s - self.start_s >= MOST_STRETCHES * self.stretch_s:
            self.stretch_s *= 2
            for stretches in self._stretches.values():
                halves = list(stretches.items())
                stretches.clear()
                for index, half in halves:
                    stretches.setdefault(index // 2, _Mean()).add(half)
        into.setdefault(int((at_s - self.start_s) // self.stretch_s), _Mean()).add(figure)

    @property
    def is_between(self) -> bool:
        """Whether a part of the run has ended and the next has not begun: the newest figures are of the past."""
        return bool(self._bands) and self._bands[-1][2] is not None

    def bands(self) -> list[Band]:
        """A band that has not ended goes to the newest line."""
        return [Band(name, start_s, self.last_s if end_s is None else end_s) for name, start_s, end_s in self._bands]

    def points(self, chart: Chart, line: str) -> list[Point]:
        """One line of a chart; interrupted where a part of the run ended, such as a trial."""
        found: list[Point] = []
        ends_s = [end_s for _, _, end_s in self._bands if end_s is not None]
        # By stretch: the middle of the one in which a part ended may be later than the end.
        ended_in = [int((end_s - self.start_s) // self.stretch_s) for end_s in ends_s]
        before = 0
        for index, figure in sorted(self._stretches.get(f"{chart.name}.{line}", {}).items()):
            at_s = self.start_s + (index + 0.5) * self.stretch_s
            ended = bisect_left(ended_in, index)
            if found and ended > before:
                found.append(Point(max(ends_s[ended - 1], found[-1].x), None))
            before = ended
            found.append(Point(at_s, figure.highest if chart.is_peak else figure.total / figure.count))
        return found
