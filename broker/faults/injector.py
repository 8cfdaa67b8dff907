"""Decides which requests a script hits, and keeps the history: with the same seed the same one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from highwater.broker.faults.effects import Effect
from highwater.broker.faults.request import FaultRequest
from highwater.broker.faults.script import FaultRule, Script

MOST_KEPT: Final = 10_000
"""Faults in the history; older ones are forgotten."""


class Injected(NamedTuple):
    """One fault, with the request that it hit."""

    number: int
    """Counted from 1 since the script was set."""
    after_ms: int
    """Since the script was set."""
    rule: int
    kind: str
    api: str
    version: int
    client_id: str
    principal: str
    listener: str
    connection: int
    correlation_id: int
    topics: tuple[str, ...]

    def line(self) -> str:
        client = f"client {self.client_id!r} ({self.principal})" if self.client_id else "a client"
        topics = f" of {', '.join(self.topics)}" if self.topics else ""
        return (
            f"fault {self.number}: {self.kind} (rule {self.rule}) hits {self.api} v{self.version}{topics} "
            f"by {client}, connection {self.connection}, correlation id {self.correlation_id}"
        )


class Hit(NamedTuple):
    effects: tuple[Effect, ...]
    random: Random
    """For effects that need chance."""


class _State:
    """The counts of one rule."""

    def __init__(self, rule: FaultRule, seed: int) -> None:
        self.rule = rule
        self.seen = 0
        self.done = 0
        self.random = Random(f"{seed}:{rule.number}")

    def takes(self, request: FaultRequest, after_ms: int) -> bool:
        rule = self.rule
        if (rule.times and self.done >= rule.times) or after_ms < rule.after_ms or not rule.fits(request):
            return False
        self.seen += 1
        if rule.nth and self.seen != rule.nth:
            return False
        if rule.probability < 1 and self.random.random() >= rule.probability:
            return False
        self.done += 1
        return True


class Injector:
    def __init__(self, log: Callable[[str], None] = lambda line: None) -> None:
        """`log` gets one line for each fault."""
        self._log = log
        self._rules: list[_State] = []
        self._count = 0
        self._set_ms = 0
        self.history: deque[Injected] = deque(maxlen=MOST_KEPT)
        self.script = Script()

    def set(self, script: Script, now_ms: int) -> None:
        """Begin anew with a script and an empty history."""
        self.script = script
        self._rules = [_State(rule, script.seed) for rule in script.rules]
        self._count = 0
        self._set_ms = now_ms
        self.history.clear()

    def clear(self) -> None:
        """End all rules; the history stays."""
        self.script, self._rules = Script(), []

    @property
    def is_idle(self) -> bool:
        return not self._rules

    def on_request(self, request: FaultRequest, now_ms: int) -> Hit | None:
        """Return what happens to a request; None if nothing does."""
        after_ms = now_ms - self._set_ms
        effects: list[Effect] = []
        for state in self._rules:
            if state.takes(request, after_ms):
                effects += state.rule.kind.make(state.rule.values, request)
                self._note(state.rule, request, after_ms)
        return Hit(tuple(effects), Random(f"{self.script.seed}:{self._count}")) if effects else None

    def _note(self, rule: FaultRule, request: FaultRequest, after_ms: int) -> None:
        self._count += 1
        of_request: dict[str, Any] = {
            name: getattr(request, name)
            for name in ("version", "client_id", "principal", "listener", "connection", "correlation_id", "topics")
        }
        injected = Injected(self._count, after_ms, rule.number, rule.kind.name, request.name, **of_request)
        self.history.append(injected)
        self._log(injected.line())
