"""Sums of values of which some may not be known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Amount = TypeVar("_Amount", int, float)


def known_sum(values: Iterable[_Amount | None]) -> _Amount | None:
    """Return the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def whole_sum(values: Iterable[int | None]) -> int | None:
    """Return None if a value is not known, or if there is none: an incomplete sum of a counter makes a wrong rate."""
    total, count = 0, 0
    for value in values:
        if value is None:
            return None
        total += value
        count += 1
    return total if count else None


def known_max(values: Iterable[_Amount | None]) -> _Amount | None:
    """Return the largest of what is known; None if nothing is."""
    return max((value for value in values if value is not None), default=None)
