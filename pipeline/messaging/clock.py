"""The time of this host, for those that are at the edge."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970, as records and headers have them."""
    return time.time_ns() // 1_000_000
