"""Values of options that are read without pydantic are what typer reads, and typer refuses the others."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
import typer.core
from typer.testing import CliRunner

from highwater.common.plain_values import read_plain_values


class Kind(StrEnum):
    FAST = "fast"
    SLOW = "slow"


found: dict[str, Any] = {}
app = typer.Typer()


@app.command()
def command(
    files: Annotated[list[Path] | None, typer.Argument()] = None,
    text: str | None = None,
    count: Annotated[int, typer.Option(min=0, max=9)] = 3,
    rate: Annotated[float, typer.Option(min=0.5)] = 5.0,
    kind: Kind = Kind.FAST,
    engine: Literal["local", "spark"] = "local",
    names: Annotated[list[str] | None, typer.Option("--name")] = None,
    file: Annotated[Path | None, typer.Option(exists=True)] = None,
    flag: bool = False,
) -> None:
    found.update(locals())


def outcome(arguments: list[str]) -> tuple[int, str, dict[str, Any]]:
    found.clear()
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output, dict(found)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--text", "a", "--count", "9", "--rate", "7", "--kind", "slow", "--engine", "spark", "--flag"],
        ["--rate", "1.25", "--name", "a", "--name", "b"],
        ["a", "b/c", "/proc/self/status", "/"],
        ["--text", ""],
        ["--count", "007"],
        ["--count", " 5 "],
        ["--count", "10"],
        ["--count", "-1"],
        ["--count", "1" * 5000],
        ["--count", "5.0"],
        ["--count", "٣"],
        ["--rate", "0.4"],
        ["--rate", "1e3"],
        ["--rate", "."],
        ["--rate", "nan"],
        ["--kind", "SLOW"],
        ["--kind", "none"],
        ["--engine", "none"],
        ["--file", "/no/such/file"],
        ["--file", "/proc/self/status"],
    ],
    ids=" ".join,
)
def test_they_are_what_typer_reads(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    expected = outcome(arguments)
    monkeypatch.setattr(typer.core, "build_runtime_param", vars(typer.core)["build_runtime_param"])
    read_plain_values()
    assert outcome(arguments) == expected


def test_plain_ones_need_no_pydantic(tmp_path: Path) -> None:
    arguments = ["broker", "start", "--log-dir", str(tmp_path), "--port", "0", "--property", "no.such=1", "--verbose"]
    code = f"import sys; sys.argv[1:] = {arguments}; from highwater.cli import main\n"
    code += "try: main()\nfinally: print('pydantic' in sys.modules, file=sys.stderr, flush=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    error, imported = done.stderr.splitlines()
    assert error.startswith("error: --property: no.such")
    assert imported == "False"
