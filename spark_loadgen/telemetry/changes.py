"""What a task has counted since its previous message: the difference to all that it has sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from highwater.results.histogram import Histogram, HistogramSeries
from highwater.spark_loadgen.windows import SecondMeter, Windows

# So many histograms are far below the 1 MiB that a broker takes as one message.
_HISTOGRAMS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Changed:
    """The part of a TaskMessage that the load knows; the fields mean the same there."""

    second: int
    first: int
    last: bool
    counts: Mapping[str, list[int]]
    cpu_ratio: list[float]
    histograms: Mapping[tuple[str, int], Histogram]

    def parts(self) -> Iterator[Changed]:
        """The same in pieces that each fit into one message: more than one only after messages were skipped."""
        series = sorted(self.histograms.items())
        starts = range(0, max(1, len(series)), _HISTOGRAMS_MAX)
        for start in starts:
            part = replace(self, histograms=dict(series[start : start + _HISTOGRAMS_MAX]), last=False)
            if start:
                part = replace(part, first=self.second + 1, counts={}, cpu_ratio=[])
            yield replace(part, last=self.last) if start == starts[-1] else part


class Changes:
    """Follows the windows and histograms of one load, in the thread that records them."""

    def __init__(self, windows: Windows, series: Mapping[str, HistogramSeries], meter: SecondMeter) -> None:
        self._windows = windows
        self._series = series
        self._meter = meter
        self._next = 0
        for one in series.values():
            one.follow()

    def take(self, *, last: bool = False) -> Changed:
        """What is new since the last call: counts of the seconds that have ended, or of all with `last`.

        Counts of a second that has ended never change. Histograms do: a record that is acknowledged late belongs to the
        second in which it was due.
        """
        first = self._next
        end = max(first, self._windows.seconds, len(self._meter.cpu_ratio)) if last else max(first, self._meter.second)
        self._next = end
        rows = {item.name: getattr(self._windows, item.name)[first:end] for item in fields(Windows)}
        return Changed(
            second=end - 1,
            first=first,
            last=last,
            counts={name: row for name, row in rows.items() if any(row)},
            cpu_ratio=self._meter.cpu_ratio[first:end],
            histograms={
                (metric, second): histogram
                for metric, series in self._series.items()
                for second, histogram in series.changes().items()
            },
        )
