"""Downsampling: fewer points for a line that looks the same (MinMaxLTTB).

Largest-Triangle-Three-Buckets (S. Steinarsson, "Downsampling Time Series for Visual Representation", 2013) keeps, from
each bucket, the point that spans the largest triangle with its neighbours. Before that, each pixel column keeps only
its lowest and highest point (J. Van Der Donckt et al., "MinMaxLTTB", 2023). The lowest and the highest point of the
line always stay: a stall of one second must not vanish from a report of an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple


class Point(NamedTuple):
    """A point in data or drawing units; `y` is None at a gap in the line."""

    x: float
    y: float | None


def downsampled(points: Sequence[Point], most: int) -> list[Point]:
    """About `most` of `points` (in drawing units, by rising x), gaps kept."""
    if len(points) <= most:
        return list(points)
    kept: list[Point] = []
    for known, group in groupby(points, key=lambda point: point.y is not None):
        stretch = list(group)
        share = max(4, round(most * len(stretch) / len(points)))
        kept += _thinned(stretch, share) if known else stretch[:1]
    return kept


def _thinned(points: Sequence[Point], most: int) -> list[Point]:
    columns = list(_column_extremes(points))
    if len(columns) <= most:
        return columns
    chosen = dict.fromkeys(_lttb([(p.x, p.y or 0.0) for p in columns], most))
    for extreme in (min, max):
        chosen[extreme(range(len(columns)), key=lambda i: columns[i].y or 0.0)] = None
    return [columns[i] for i in sorted(chosen)]


def _column_extremes(points: Iterable[Point]) -> Iterator[Point]:
    """The lowest and the highest point of each pixel column, in their order."""
    for _, group in groupby(points, key=lambda point: int(point.x)):
        column = list(group)
        heights = [p.y or 0.0 for p in column]
        yield from (column[i] for i in sorted({heights.index(min(heights)), heights.index(max(heights))}))


def _lttb(points: Sequence[tuple[float, float]], most: int) -> Iterator[int]:
    """Indexes of the points that Largest-Triangle-Three-Buckets keeps: the ends, and one of each bucket between."""
    buckets = most - 2
    width = (len(points) - 2) / buckets
    edges = [1 + int(i * width) for i in range(buckets)] + [len(points) - 1, len(points)]
    at = 0
    yield at
    for start, end, after in zip(edges, edges[1:], edges[2:], strict=False):
        following = points[end:after]
        mean_x = sum(x for x, _ in following) / len(following)
        mean_y = sum(y for _, y in following) / len(following)
        (x, y) = points[at]
        at = max(
            range(start, end),
            key=lambda i: abs((x - mean_x) * (points[i][1] - y) - (x - points[i][0]) * (mean_y - y)),
        )
        yield at
    yield len(points) - 1
