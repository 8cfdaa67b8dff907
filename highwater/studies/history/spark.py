"""Spark lines: a series of figures as a line of block characters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median
from typing import Final

LEVELS: Final = "▁▂▃▅▇"
MISSING: Final = "·"
CHANGE: Final = "|"
# Values that differ by less look alike: a line that fills its height with noise would show changes that are none.
_LEAST_RANGE_RATIO: Final = 0.05


def spark_line(values: Sequence[float | None], changes: Collection[int] = (), most: int = 24) -> str:
    """The last `most` values; None is a value that is missing. changes: places before which a mark stands."""
    known = [value for value in values if value is not None]
    if not known:
        return MISSING * min(len(values), most)
    low, high = min(known), max(known)
    least = _LEAST_RANGE_RATIO * abs(median(known))
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    first = max(0, len(values) - most)
    return "".join(
        (CHANGE if index in changes and index > first else "") + _character(value, low, high)
        for index, value in enumerate(values)
        if index >= first
    )


def _character(value: float | None, low: float, high: float) -> str:
    if value is None:
        return MISSING
    if high == low:
        return LEVELS[0]
    return LEVELS[min(int((value - low) / (high - low) * len(LEVELS)), len(LEVELS) - 1)]
