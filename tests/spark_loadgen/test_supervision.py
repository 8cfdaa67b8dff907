"""How a load that is interrupted ends."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from highwater.spark_loadgen.supervision import Background, Supervisor
from tests.spark_loadgen.test_coordination import plan_of


class Interrupted:
    """A channel at which Ctrl-C is pressed, as often as one waits for it."""

    def __init__(self) -> None:
        self.waits = 0
        self.woken = self
        self.sent: list[Any] = []

    def wait(self, _: float) -> None:
        self.waits += 1
        raise KeyboardInterrupt

    def send(self, *message: Any) -> None:
        self.sent.append(message)

    broadcast = send


@pytest.mark.parametrize(("asked", "waits"), [(False, 2), (True, 1)], ids=["not asked to stop", "asked to stop"])
def test_the_interrupt_after_the_wish_to_stop_ends_it_at_once(asked: bool, waits: int) -> None:
    over, cancelled, channel = threading.Event(), threading.Event(), Interrupted()
    running: Background[Any] = Background(over.wait, threading.Event())
    try:
        supervisor = Supervisor(plan_of(), channel, running, cancelled.set, should_stop=lambda: asked)  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            supervisor.wait()
    finally:
        over.set()
    assert channel.waits == waits
    assert cancelled.is_set()
