"""The event loop as the code below the server sees it: the `Scheduler` of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from highwater.broker.clock import Timer


class LoopScheduler:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self._call_later = loop.call_later

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        return self._call_later(delay_ms / 1000, callback)
