"""The audit log itself: what is written, what is only counted."""

from __future__ import annotations

import json
from typing import Any

from highwater.broker.security.audit import LONGEST_TEXT, MOST_KINDS, WINDOW_MS, Audit, Origin
from highwater.kafka.acl import Operation, ResourceType
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock

ORIGIN = Origin("User:eve", "192.0.2.7", "SASL_SSL", "app", "Fetch")


class Written:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.scheduler = ManualScheduler()
        self.audit = Audit(7, ManualClock(), self.scheduler, self.texts.append)

    def deny(self, name: str = "t", origin: Origin = ORIGIN) -> None:
        self.audit.denied(origin, Operation.READ, ResourceType.TOPIC, name)

    def take(self) -> list[dict[str, Any]]:
        lines = [json.loads(text) for text in self.texts]
        self.texts.clear()
        return lines


def test_a_denial_says_who_and_what() -> None:
    written = Written()
    written.deny()
    (line,) = written.take()
    assert line.pop("time").endswith("Z")
    assert line == {
        "broker": 7, "event": "denied", "principal": "User:eve", "host": "192.0.2.7", "listener": "SASL_SSL",
        "client_id": "app", "request": "Fetch", "operation": "Read", "resource_type": "Topic", "resource_name": "t",
        "count": 1,
    }  # fmt: skip


def test_a_client_that_tries_again_and_again_gets_one_line_in_each_window() -> None:
    written = Written()
    for _ in range(1000):
        written.deny()
    written.deny(origin=ORIGIN._replace(principal="User:bob"))
    assert [line["principal"] for line in written.take()] == ["User:eve", "User:bob"]
    written.scheduler.run(WINDOW_MS)
    (line,) = written.take()
    assert (line["principal"], line["count"], line["within_seconds"]) == ("User:eve", 999, 60)
    written.deny()
    assert written.take() == []
    written.scheduler.run(WINDOW_MS)
    assert [line["count"] for line in written.take()] == [1]
    written.scheduler.run(WINDOW_MS)
    written.scheduler.run(WINDOW_MS)
    assert written.take() == []
    assert written.scheduler.pending_timers == 0
    written.deny()
    assert [line["count"] for line in written.take()] == [1]


def test_ever_new_names_get_a_bounded_number_of_lines() -> None:
    written = Written()
    for number in range(10_000):
        written.deny(f"t{number}")
    assert len(written.take()) == MOST_KINDS
    written.scheduler.run(WINDOW_MS)
    (line,) = written.take()
    assert (line["event"], line["principal"]) == ("suppressed", ORIGIN.principal)
    assert (line["count"], line["within_seconds"]) == (10_000 - MOST_KINDS, 60)
    written.deny("after")
    assert [line["resource_name"] for line in written.take()] == ["after"]


def test_what_one_user_does_takes_no_line_of_another() -> None:
    written = Written()
    for number in range(2 * MOST_KINDS):
        written.deny(f"t{number}")
        written.audit.refused(ORIGIN, {"topic": f"t{number}", "action": "delete"}, "UNKNOWN_TOPIC_OR_PARTITION")
    assert len(written.take()) == MOST_KINDS
    bob = ORIGIN._replace(principal="User:bob")
    written.deny("t", bob)
    written.audit.refused(bob, {"topic": "t", "action": "delete"}, "UNKNOWN_TOPIC_OR_PARTITION")
    assert [(line["principal"], line["event"]) for line in written.take()] == [
        ("User:bob", "denied"), ("User:bob", "change"),
    ]  # fmt: skip
    for _ in range(3):
        written.scheduler.run(WINDOW_MS)
    assert written.scheduler.pending_timers == 0


def test_each_change_is_written_and_refused_ones_are_counted() -> None:
    written = Written()
    for number in range(2 * MOST_KINDS):
        written.deny(f"t{number}")  # no line is left for what is only counted
    written.take()
    for _ in range(3):
        written.audit.changed(ORIGIN, {"topic": "t", "action": "delete"})
        written.audit.changed(ORIGIN, {"topic": "t", "action": "delete"}, "REQUEST_TIMED_OUT")
        written.audit.refused(ORIGIN, {"topic": "u", "action": "delete"}, "UNKNOWN_TOPIC_OR_PARTITION")
    outcomes = [line["outcome"] for line in written.take()]
    assert sorted(outcomes) == ["NONE"] * 3 + ["REQUEST_TIMED_OUT"] * 3


def test_names_can_neither_end_a_line_nor_fill_it() -> None:
    written = Written()
    written.deny('a\n{"event":"change"}\u202e\x1b[2J')
    written.deny("x" * 30_000)
    assert all(text.isascii() and text.isprintable() for text in written.texts)
    hostile, long = written.take()
    assert hostile["resource_name"] == 'a\n{"event":"change"}\u202e\x1b[2J'
    assert long["resource_name"] == "x" * LONGEST_TEXT + "…"
