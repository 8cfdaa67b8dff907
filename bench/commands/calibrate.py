"""`bench calibrate`. Imports are late so that --help is fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.commands.common import (
    AsJson,
    Quiet,
    one_line_errors,
)


def calibrate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[WORKLOAD]", help="Workload whose producers, storage and noise count.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where calibration.json goes; new or empty.")],
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Trials of each ceiling.")] = 5,
    pairs: Annotated[int, typer.Option(min=0, max=1000, help="Blocks of A/A and launcher pairs; 0 for none.")] = 5,
    master: Annotated[str, typer.Option(metavar="URL", help="Spark master to compare with processes.")] = "local[*]",
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Compare Spark with plain processes.")] = True,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find what the instrument itself can do on this host, and how much its figures scatter."""
    with one_line_errors():
        from bench.calibrate.calibration import Wanted
        from bench.calibrate.calibration import calibrate as measure
        from bench.calibrate.table import print_calibration
        from bench.commands.common import specification_of
        from bench.results.files import dump
        from bench.trials.progress import Observer, PlainObserver

        specification = specification_of(file, None, None, None, None) if file is not None else None
        calibration, exit_code = measure(
            specification,
            out,
            Wanted(repeats, pairs, master if spark else None),
            Observer() if quiet else PlainObserver(),
            (lambda _: None) if quiet else (lambda text: typer.echo(f"calibrating: {text}", err=True)),
        )
        if as_json:
            typer.echo(dump(calibration), nl=False)
        elif not quiet:
            print_calibration(calibration, out)
        raise typer.Exit(exit_code)
