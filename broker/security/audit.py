"""The audit log: one line of JSON for each request that was denied and for each change. Sans-IO.

What repeats is counted and not written: neither a client that tries again and again nor one that asks for ever new
names can fill the disk, and what one user does leaves the lines of all others as they are. A change that was made, or
may have been made, is always written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from highwater.broker.clock import Clock, Scheduler
from highwater.kafka.acl import Operation, ResourceType

LOGGER: Final = "highwater.audit"
WINDOW_MS: Final = 60_000
"""How long a denial that was written is only counted when it comes again."""
MOST_KINDS: Final = 200
"""Denials and refusals of a principal of more kinds than these are only counted: its lines in each window, at most."""
LONGEST_TEXT: Final = 512
"""Characters of one name or value: a group's name alone may have 32,767."""


class Origin(NamedTuple):
    """Who asked, from where, and what for."""

    principal: str
    """User:alice"""
    host: str
    listener: str
    client_id: str | None
    request: str
    """Kafka's name of the request: CreateTopics."""


def write_to_logger(line: str) -> None:
    logging.getLogger(LOGGER).info("%s", line)


class Audit:
    def __init__(
        self, broker_id: int, clock: Clock, scheduler: Scheduler, write: Callable[[str], None] = write_to_logger
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._scheduler = scheduler
        self._write = write
        # How often each kind of a principal came again since its line. None: all kinds that are too many.
        self._again: dict[str, dict[Hashable | None, int]] = {}

    def denied(self, origin: Origin, operation: Operation, kind: ResourceType, name: str) -> None:
        fields = {
            "event": "denied",
            **origin._asdict(),
            "operation": operation.text,
            "resource_type": kind.text,
            "resource_name": name,
        }
        self._tell_once(origin.principal, (operation, kind, name), fields)

    def changed(self, origin: Origin, change: Mapping[str, Any], outcome: str = "NONE") -> None:
        """outcome: NONE, or the name of an error, as Kafka has it, after which the change may have been made."""
        self._line(_change(origin, change, outcome))

    def refused(self, origin: Origin, change: Mapping[str, Any], outcome: str) -> None:
        """outcome: the name of the error, as Kafka has it, with which the change was refused."""
        subject = next(iter(change.values()), None)
        self._tell_once(origin.principal, (origin.request, str(subject), outcome), _change(origin, change, outcome))

    def _tell_once(self, principal: str, kind: Hashable, fields: Mapping[str, Any]) -> None:
        again = self._again.setdefault(principal, {})
        if kind in again:
            again[kind] += 1
        elif len(again) - (None in again) < MOST_KINDS:
            self._line({**fields, "count": 1})
            self._begin(principal, kind, fields)
        elif None in again:
            again[None] += 1
        else:
            self._begin(principal, None, {"event": "suppressed", "principal": principal})
            again[None] = 1

    def _begin(self, principal: str, kind: Hashable | None, fields: Mapping[str, Any]) -> None:
        self._again.setdefault(principal, {})[kind] = 0
        self._scheduler.call_later(WINDOW_MS, lambda: self._end(principal, kind, fields))

    def _end(self, principal: str, kind: Hashable | None, fields: Mapping[str, Any]) -> None:
        again = self._again[principal]
        count = again.pop(kind)
        if not again:
            del self._again[principal]
        if count:
            self._line({**fields, "count": count, "within_seconds": WINDOW_MS // 1000})
            # It goes on: still one line in each window.
            if kind is not None:
                self._begin(principal, kind, fields)

    def _line(self, fields: Mapping[str, Any]) -> None:
        time = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        line = {"time": time.replace("+00:00", "Z"), "broker": self._broker_id, **_shortened(fields)}
        # In ASCII: no name can turn the direction of a line, or end it.
        self._write(json.dumps(line, ensure_ascii=True, separators=(",", ":")))


def _change(origin: Origin, change: Mapping[str, Any], outcome: str) -> Mapping[str, Any]:
    return {"event": "change", **origin._asdict(), **change, "outcome": outcome}


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…"
    if isinstance(value, Mapping):
        return {_shortened(name): _shortened(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(each) for each in value]
    return value
