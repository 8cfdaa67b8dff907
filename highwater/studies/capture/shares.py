"""How a capture is divided between tasks: each has about as much to read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from highwater.studies.capture.observing import Window

Of = TypeVar("Of")


def shares_of_windows(windows: Mapping[Of, Window], count: int) -> list[list[tuple[Of, Window]]]:
    """Up to `count` shares with as many offsets each; together they are the windows, and no batch is in two."""
    total = sum(window.end_offset - window.start_offset for window in windows.values())
    count = min(count, total)
    shares: list[list[tuple[Of, Window]]] = [[] for _ in range(count)]
    passed = 0
    for of, window in windows.items():
        at = window.start_offset
        while at < window.end_offset:
            number = (passed * count) // total
            # The first offset of the next share.
            left = -(-(number + 1) * total // count) - passed
            end = min(window.end_offset, at + left)
            shares[number].append(
                (of, replace(window, start_offset=at, end_offset=end, continues=at > window.start_offset))
            )
            passed += end - at
            at = end
    return shares


def shares_by_size(sizes: Mapping[Of, int], count: int) -> list[list[Of]]:
    """Up to `count` shares: the largest first, each to the share that has the least so far."""
    shares: list[list[Of]] = [[] for _ in range(min(count, len(sizes)))]
    taken = [0] * len(shares)
    for of in sorted(sizes, key=lambda each: -sizes[each]):
        least = taken.index(min(taken))
        shares[least].append(of)
        taken[least] += sizes[of]
    return shares
