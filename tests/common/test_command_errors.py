"""Errors that end a command: one line each, and the exit code of their kind."""

from __future__ import annotations

import os
import sys

import pytest

from highwater.common.command_errors import errors_in_one_line, fail


class GeneralError(Exception):
    pass


class SpecialError(GeneralError):
    pass


CODES: dict[type[Exception], int] = {SpecialError: 3, GeneralError: 2}


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (SpecialError("a\nb"), 3, "error: a\\nb\n"),
        (GeneralError("x"), 2, "error: x\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_an_error_is_one_line(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, errors_in_one_line(CODES, interrupted="interrupted"):
        raise error
    assert (ended.value.code, capsys.readouterr().err) == (code, line)


def test_any_other_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), errors_in_one_line(CODES):
        raise ZeroDivisionError


def test_a_command_can_end_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        fail("no such file")
    assert (ended.value.code, capsys.readouterr().err) == (2, "error: no such file\n")


def test_a_reader_that_went_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with errors_in_one_line(CODES):
            closed.write("text")
