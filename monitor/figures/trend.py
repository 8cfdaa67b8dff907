"""The slope of a noisy series, by Theil and Sen, with the interval that Kendall's test gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Of the normal distribution, for 95 % on both sides.
_Z: Final = 1.959964
# The number of slopes rises with the square of the points.
_MOST_POINTS: Final = 12
# Below, no order of the points is improbable enough for a 95 % interval.
LEAST_POINTS: Final = 5
# By the number of points: how many more pairs may rise than fall (or the other way round) by chance.
_SPREADS: Final = [_Z * (count * (count - 1) * (2 * count + 5) / 18) ** 0.5 for count in range(_MOST_POINTS + 1)]


@dataclass(frozen=True, slots=True)
class Slope:
    """Per unit of time, with its 95 % interval."""

    median: float
    low: float
    high: float


class Pairs:
    """All pairs of the points at `times`, which rise: many series with points there share their distances.

    Of more than 12 points, 12 are taken at equal distances, the first and the last among them.
    """

    def __init__(self, times: Sequence[float]) -> None:
        self.chosen: Final = _chosen(len(times))
        self._pairs: Final = [
            (right, left, times[right] - times[left])
            for index, right in enumerate(self.chosen)
            for left in self.chosen[:index]
            if times[right] > times[left]
        ]

    def slope(self, values: Sequence[float]) -> Slope | None:
        """Return the median of the slopes of all pairs; None with fewer than LEAST_POINTS."""
        count = len(self.chosen)
        if count < LEAST_POINTS or len(self._pairs) < LEAST_POINTS:
            return None
        slopes = sorted([(values[right] - values[left]) / distance for right, left, distance in self._pairs])
        below = max(0, int((len(slopes) - _SPREADS[count]) / 2))
        middle = len(slopes) // 2
        median = slopes[middle] if len(slopes) % 2 else (slopes[middle - 1] + slopes[middle]) / 2
        return Slope(median, slopes[below], slopes[len(slopes) - 1 - below])


def slope(times: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The same for one series."""
    return Pairs(times).slope(values)


def _chosen(count: int) -> Sequence[int]:
    if count <= _MOST_POINTS:
        return range(count)
    return [index * (count - 1) // (_MOST_POINTS - 1) for index in range(_MOST_POINTS)]
