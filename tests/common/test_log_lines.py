"""A name in a log line cannot begin a line of its own."""

from __future__ import annotations

import json
import logging

import pytest

from highwater.common.log_lines import LONGEST_LINE, OneLineFormatter, escaped_json, one_line


def formatted(message: str, *arguments: object, **more: object) -> str:
    record = logging.LogRecord("name", logging.INFO, __file__, 1, message, arguments, None)
    record.__dict__.update(more)
    return OneLineFormatter("%(levelname)s: %(message)s").format(record)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\n2026-11-26 INFO forged", r"a\n2026-11-26 INFO forged"),
        ("a\r\x1b[2Jb", r"a\r\x1b[2Jb"),
        ("\u202eabc\u2028", r"\u202eabc\u2028"),
        ("Größe 名前", "Größe 名前"),
    ],
)
def test_what_breaks_a_line_is_escaped(name: str, shown: str) -> None:
    assert one_line(name) == shown
    assert formatted("group %s: rebalance", name) == f"INFO: group {shown}: rebalance"


def test_a_line_is_bounded_whatever_a_stranger_sends() -> None:
    line = formatted("closing the connection: %r", "\0" * 33_000)
    assert len(line) < LONGEST_LINE + 100
    assert line.endswith("… (132,026 characters)")


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        text = formatted("failed", exc_info=(type(error), error, error.__traceback__))
    assert text.startswith("INFO: failed\nTraceback")


@pytest.mark.parametrize("name", ["a\x9b2J", "\x7f\u2028", "\u202eabc\u2066", "Größe \\u009b"])
def test_json_that_is_escaped_means_the_same(name: str) -> None:
    text = escaped_json(json.dumps({name: [name]}, ensure_ascii=False))
    assert json.loads(text) == {name: [name]}
    assert not any(character in text for character in "\x7f\x9b\u2028\u202e\u2066")
    assert ("Größe" in text) == ("Größe" in name)
