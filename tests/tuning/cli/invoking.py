"""Calls `highwater tune` as a shell would, and returns the result."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from highwater.tuning.cli import app


def invoke(*arguments: str, columns: int = 80, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)}, input=answer)


def assert_refused(result: Result, message: str) -> None:
    """Exit code 2, no standard output, and one line on standard error that begins with `message`."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
