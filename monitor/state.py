"""What the monitor says of itself: its ticks, its history, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highwater.monitor.history.writer import HistoryState  # `top` has no history, and does not load its library


@dataclass(frozen=True, slots=True)
class Cost:
    """What the newest tick cost."""

    rss_bytes: int = 0
    cpu_s: float = 0.0
    """Since the start of the monitor."""
    cpu_share: float | None = None
    """CPU time by time since the tick before; 1 is one core. None in the first tick."""
    tick_ms: float = 0.0
    """The time from the begin of the tick until figures are there."""
    requests: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MonitorState:
    started_ms: int
    """Unix time."""
    tick_s: float
    ticks: int = 0
    failed_ticks: int = 0
    """No snapshot came of them."""
    late_ticks: int = 0
    """They took longer than a tick, so that the next ones were left out."""
    error: str = ""
    """Why the newest tick failed; empty if it did not."""
    cost: Cost = field(default_factory=Cost)
    history: HistoryState | None = None
    """None without a history."""
