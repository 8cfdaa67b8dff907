"""Ctrl-C and SIGTERM: the first stops at the next safe point, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from highwater.common.errors import StoppedError

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Asked at every safe point of a run."""

    def __init__(self) -> None:
        self.requested = False
        self.at_once = False

    @contextmanager
    def taking_signals(self) -> Iterator[None]:
        """Take both signals over, also from Spark, whose own handler for Ctrl-C cancels jobs instead of ending them."""
        before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raises StoppedError when the user has asked to stop."""
        if self.requested:
            raise StoppedError

    def check_at_once(self) -> None:
        """For a thread, which no signal reaches. Raises KeyboardInterrupt when there was a second one."""
        if self.at_once:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            self.at_once = True
            raise KeyboardInterrupt
        self.requested = True
