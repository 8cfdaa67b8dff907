"""Calls `highwater tune` as a shell would, and says what came of it."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from tuning.cli import app

GOOD = {
    "vm.swappiness": "1",
    "vm.dirty_background_bytes": "600000000",
    "vm.dirty_bytes": "3200000000",
    "vm.max_map_count": "262144",
    "vm.min_free_kbytes": "335872",
    "fs.aio-max-nr": "1048576",
    "net.core.rmem_max": "4194304",
    "net.core.wmem_max": "4194304",
}
"""Of a made host of the usual size: the settings that make it as recommended."""


def invoke(*arguments: str, columns: int = 80, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)}, input=answer)


def assert_refused(result: Result, message: str) -> None:
    """Exit code 2, nothing on standard output, and one line that begins so on standard error."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {message}"), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
