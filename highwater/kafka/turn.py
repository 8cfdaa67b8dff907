"""The turn of a long request on the event loop, as the code that gives way sees it.

`highwater.broker.turns` gives turns; `highwater.kafka.pacing` asks the one that runs in this thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol


class Turn(Protocol):
    """The turn of one request on the event loop."""

    @property
    def owner(self) -> object:
        """The owner of this turn: a request has one for its handler, and one for its answer."""

    @property
    def used_ns(self) -> int:
        """How long this request has run, without the time of others."""

    def give_way(self) -> None:
        """Rest until others had their turn, if the slice of this one is over."""

    def do_aside(self, work: Callable[[], None]) -> None:
        """Rest until a thread has done the work, which raises nothing."""


class _Running(threading.local):
    turn: Turn | None = None


running: Final = _Running()
"""The turn that runs in this thread, if one does."""
