"""Runs `highwater broker …` in this process, which spares an interpreter's start per call."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from typer.testing import CliRunner

import highwater.broker.cli

_MAIN: Final = (
    "import signal, highwater.cli as cli; signal.signal(signal.SIGINT, signal.default_int_handler); cli.main()"
)
COMMAND: Final = (sys.executable, "-c", _MAIN, "broker")
"""For tests that need a process of its own, with its signals and pipes.

A shell lets what it starts in the background ignore interrupts, the tests and their children too.
"""

_runner: Final = CliRunner()


class Result(NamedTuple):
    exit_code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.output.splitlines()]


def call(*arguments: str | Path, stdin: str | bytes = b"") -> Result:
    result = _runner.invoke(highwater.broker.cli.app, [*map(str, arguments)], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Result(result.exit_code, result.stdout_bytes.decode(errors="surrogateescape"), result.stderr)
