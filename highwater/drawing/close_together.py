"""Groups things that are close on an axis, so that their marks do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def close_together(things: Iterable[T], position: Callable[[T], float], length: float, most: int) -> list[list[T]]:
    """Return groups in the order of `position`, at most `most` + 1 on an axis of `length`.

    The first things of two groups are the `most`-th part of `length` apart at least.
    """
    groups: list[list[T]] = []
    for thing in sorted(things, key=position):
        if groups and position(thing) - position(groups[-1][0]) < length / most:
            groups[-1].append(thing)
        else:
            groups.append([thing])
    return groups
