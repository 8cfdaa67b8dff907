"""Values of rows as the text of a cell, and which lines of progress are printed where there is no terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from highwater.pipeline.run.display import Display, cell_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (b"caf\xc3\xa9", "café"),
        (b"\xff\x00", "ff 00"),
        (0.1 + 0.2, "0.3"),
        (Decimal("3.10"), "3.10"),
        (datetime(2026, 1, 5, 9, 0, 1, 500_000, UTC), "2026-01-05 09:00:01.500"),
        (datetime(2026, 1, 5, 9, tzinfo=UTC), "2026-01-05 09:00:00"),
        ({"start": 1, "end": None}, "{start: 1, end: null}"),
        ([1, [2, 3]], "[1, [2, 3]]"),
    ],
)
def test_a_value_is_shown_plainly(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_a_value_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    display = Display()
    display.table("out, batch 0", ["value"], [(b"a\x1b[2J\rb",), ("\u202ecba",)])
    display.error("no topic a\x1b[2J")
    out, err = capsys.readouterr()
    assert r"a\x1b[2J\rb" in out
    assert not set("\x1b\r\u202e") & set(out + err)


def test_no_line_of_progress_is_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter((0, 6, 12, 18, 24, 30, 36))
    display = Display(lambda: next(seconds))
    for rows in (0, 0, 1, 1, 1, 2, 3):
        display.progress("keep", f"keep: {rows} rows")
    display.last_progress()
    printed = capsys.readouterr().err.splitlines()
    assert printed == ["keep: 0 rows", "keep: 1 rows", "keep: 2 rows", "keep: 3 rows"]
