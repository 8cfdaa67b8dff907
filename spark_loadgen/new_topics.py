"""Waiting for a new topic: the brokers of a cluster hear of it one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

_KNOWN_WITHIN_S: Final = 3.0
_POLL_S: Final = 0.05

Answer = TypeVar("Answer")


def ask_until(ask: Callable[[], Answer], knows_all: Callable[[Answer], bool]) -> Answer:
    """The first answer that knows all topics, or the last one of three seconds: the topic is missing then."""
    deadline_s = time.monotonic() + _KNOWN_WITHIN_S
    while not knows_all(answer := ask()) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return answer
