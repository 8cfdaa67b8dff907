"""`bench ceilings`: what a broker can do on a class of hosts, for a monitor. Imports are late."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.commands.common import one_line_errors


def ceilings(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Result directories of bench run or bench search.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; default: standard output.")
    ] = None,
) -> None:
    """Write the highest rates that one broker sustained, and what its disks did, as a file for the monitor's headroom.

    A search gives a ceiling between the last rate that passed and the first that failed. A run without a search gives
    what was achieved: the ceiling is at least that.
    """
    with one_line_errors():
        from highwater.common.atomic_files import write_atomically
        from highwater.results.ceilings import ceilings_of
        from highwater.results.reader import RunResult

        made = ceilings_of([RunResult(directory) for directory in directories])
        if out is None:
            sys.stdout.write(made.as_json())
            return
        write_atomically(out, made.as_json())
        typer.echo(f"{out}: {len(made.ceilings)} ceilings")
