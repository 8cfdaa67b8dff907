"""Options that several commands share: each field of their dataclass is an option of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from highwater.common.command_options import with_options


@dataclass(frozen=True)
class Shared:
    name: Annotated[str | None, typer.Argument()] = None
    count: Annotated[int, typer.Option("--count", "-c", min=1)] = 1


@dataclass(frozen=True)
class More(Shared):
    words: Annotated[list[str] | None, typer.Option("--word")] = None


def test_a_command_takes_the_options_of_a_dataclass_as_one() -> None:
    app = typer.Typer()
    seen: list[tuple[More, bool]] = []

    @app.command()
    @with_options
    def command(*, is_quiet: Annotated[bool, typer.Option("--quiet")] = False, options: More) -> None:
        """What it does."""
        seen.append((options, is_quiet))

    assert CliRunner().invoke(app, ["a", "-c", "2", "--word", "x", "--word", "y", "--quiet"]).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 0
    assert CliRunner().invoke(app, ["--count", "0"]).exit_code == 2
    assert seen == [(More("a", 2, ["x", "y"]), True), (More(), False)]
    assert "What it does." in CliRunner().invoke(app, ["--help"]).stdout
