"""Waiting for what another process, thread or task brings about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final

_POLL_S: Final = 0.02


def wait_until(holds: Callable[[], object], what: str | Callable[[], object], within_s: float = 60.0) -> None:
    """Return as soon as `holds()` is true. Raises TimeoutError with `what`, or what that returns."""
    for pause_s in _pauses(holds, what, within_s):
        time.sleep(pause_s)


async def until(holds: Callable[[], object], what: str = "a condition", within_s: float = 60.0) -> None:
    """Do as `wait_until` does, and let other tasks run."""
    for pause_s in _pauses(holds, what, within_s):
        await asyncio.sleep(pause_s)


def _pauses(holds: Callable[[], object], what: str | Callable[[], object], within_s: float) -> Iterator[float]:
    deadline_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what if isinstance(what, str) else what()}: not within {within_s:g} s")
        yield _POLL_S
