"""Collects garbage: nothing in a start, and all of it only when long requests are at their end."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from highwater.broker.turns import Turns

_THRESHOLDS: Final = (5_000, 10, 1 << 30)
"""The collector checks every 5,000 new objects, and then every 55,000: a long request may have a million."""
_DUE_AFTER: Final = 20
"""Collections of 55,000 objects after which a full one is due: a million objects are new since the last."""
_OVERDUE_AFTER: Final = 1_000


def wait() -> None:
    """Collect nothing until `begin`: what a start imports, and makes for each partition, stays."""
    gc.disable()


def begin() -> None:
    """What exists now lives as long as the process: the collector need not look at it again."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


def collect_if_due(turns: Turns) -> None:
    """Look at all objects, unless a long request has many of them: its end frees them without the collector."""
    _, _, collections = gc.get_count()
    if collections >= (_OVERDUE_AFTER if turns.are_taken else _DUE_AFTER):
        gc.collect()
