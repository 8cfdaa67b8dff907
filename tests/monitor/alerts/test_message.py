"""Messages: one line for each notice, one message for a tick, and no name that makes lines or headers."""

from __future__ import annotations

import json

import pytest

from highwater.monitor.alerts.machine import Alert, AlertChange, Notice
from highwater.monitor.alerts.message import MOST_LISTED, message
from highwater.monitor.figures.rows import FindingKind, Level
from tests.monitor.clusters import HOSTILE_NAMES, UNIX_START_MS


def notice(change: AlertChange = AlertChange.OPENED, name: str = "billing") -> Notice:
    sentence = f"Group {name}, orders-0: Nobody reads."
    alert = Alert(FindingKind.LAG, f"group {name}", Level.ERROR, sentence, UNIX_START_MS, UNIX_START_MS, 500)
    reason = "It has read everything." if change is AlertChange.CLOSED else sentence
    return Notice(change, alert, UNIX_START_MS + 150_000, reason)


def test_one_notice_is_its_subject() -> None:
    told = message("shop", [notice()], "https://monitor.example/alerts")
    assert told.subject == "shop: error opened: Group billing, orders-0: Nobody reads."
    assert told.text == (
        "2026-09-21 14:15:50 UTC  OPENED  error  lag: Group billing, orders-0: Nobody reads.\n"
        "\n"
        "All alerts: https://monitor.example/alerts\n"
    )


def test_what_closes_says_why_and_how_long_it_lasted() -> None:
    assert message("shop", [notice(AlertChange.CLOSED)]).text == (
        "2026-09-21 14:15:50 UTC  CLOSED  error  lag (group billing): It has read everything. "
        "It lasted 2 min 30 s: Group billing, orders-0: Nobody reads.\n"
    )


def test_many_notices_are_one_message_of_a_bounded_length() -> None:
    told = message("shop", [notice(), *([notice(AlertChange.CLOSED)] * 99)])
    assert told.subject == "shop: 100 alerts: 1 opened, 99 closed"
    assert told.text.endswith("50 more are not listed here.\n")
    assert told.document["left_out"] == 100 - MOST_LISTED


@pytest.mark.parametrize("name", [*HOSTILE_NAMES, "a\r\nBcc: everybody@example.org\r\n\r\nfree text", "\x1b[31m\x00"])
def test_a_name_makes_neither_lines_nor_headers(name: str) -> None:
    told = message("shop", [notice(name=name)])
    assert told.text.count("\n") == 1
    assert told.subject.isprintable()
    assert json.loads(json.dumps(told.document))["alerts"][0]["subject"] == f"group {name}"
