"""Runs `highwater broker …` the way a shell does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

COMMAND: Final = (sys.executable, "-c", "import highwater; highwater.main()", "broker")
TIMEOUT_S: Final = 60


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
    result = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin.encode() if isinstance(stdin, str) else stdin,
        capture_output=True,
        cwd=Path(__file__).parents[3],
        timeout=TIMEOUT_S,
        check=False,
    )
    return Result(result.returncode, result.stdout.decode(errors="surrogateescape"), result.stderr.decode())
