"""Limits how many segments of a log directory are open at once.

A log directory may have more segments than the process may have descriptors. The least recently used segments release
what they can read again from their files: the descriptor, and the indexes of a sealed segment.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

from highwater.common.listener_rules import MOST_FILES

DEFAULT_MAX_OPEN_SEGMENTS: Final = MOST_FILES


class Openable(Protocol):
    def release(self) -> None:
        """Close descriptors and drop caches; the next use opens them again."""


class OpenSegments:
    """The least recently used segment is released first."""

    __slots__ = ("_capacity", "_order")

    def __init__(self, capacity: int = DEFAULT_MAX_OPEN_SEGMENTS) -> None:
        self._capacity = max(1, capacity)
        self._order: OrderedDict[Openable, None] = OrderedDict()

    def used(self, segment: Openable) -> None:
        order = self._order
        order[segment] = None
        order.move_to_end(segment)
        while len(order) > self._capacity:
            oldest, _ = order.popitem(last=False)
            oldest.release()

    def released(self, segment: Openable) -> None:
        self._order.pop(segment, None)
