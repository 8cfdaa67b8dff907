"""Waiting for what another process or thread brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_POLL_S: Final = 0.02


def wait_until(holds: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    """Return as soon as `holds()` is true. Raises TimeoutError that names `what` after `within_s` seconds."""
    deadline_s = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(_POLL_S)
