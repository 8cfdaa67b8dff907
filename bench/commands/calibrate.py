"""`bench calibrate`: measures the ceilings of the load generator.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import (
    AsJson,
    Quiet,
    one_line_errors,
)
from highwater.common.spark_master import checked_master

if TYPE_CHECKING:
    from highwater.bench.calibrate.calibration import Wanted
    from highwater.bench.workload.specification import Specification


def calibrate(
    file: Annotated[
        Path | None, typer.Argument(metavar="WORKLOAD", help="Workload whose load, storage and noise to calibrate.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for calibration.json; new or empty.")],
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Trials of each ceiling.")] = 5,
    pairs: Annotated[int, typer.Option(min=0, max=1000, help="Blocks of A/A and launcher pairs; 0 for none.")] = 5,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark master to compare with processes.", callback=checked_master)
    ] = "local[*]",
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Compare Spark with plain processes.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pairs' order and payload.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be measured and stop.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure the instrument's own ceilings on this host, and the noise of its figures."""
    with one_line_errors():
        from highwater.bench.calibrate.calibration import Wanted
        from highwater.bench.calibrate.calibration import calibrate as measure
        from highwater.bench.calibrate.table import print_calibration
        from highwater.bench.commands.common import specification_of
        from highwater.bench.trials.progress import Observer, PlainObserver
        from highwater.results.files import dump

        specification = specification_of(file) if file is not None else None
        wanted = Wanted(repeats, pairs, master if spark else None, seed)
        if dry_run:
            _show(specification, wanted, as_json)
            return
        calibration, exit_code = measure(
            specification,
            out,
            wanted,
            Observer() if quiet else PlainObserver(),
            (lambda _: None) if quiet else (lambda text: typer.echo(f"calibrating: {text}", err=True)),
        )
        if as_json:
            typer.echo(dump(calibration), nl=False)
        elif not quiet:
            print_calibration(calibration, out)
        raise typer.Exit(exit_code)


def _show(specification: Specification | None, wanted: Wanted, as_json: bool) -> None:
    from highwater.bench.calibrate.calibration import plan_of_pairs
    from highwater.bench.calibrate.generator import names_of_ceilings
    from highwater.bench.display.tables import plan_as_json, print_plan

    ceilings, pairs = names_of_ceilings(specification), plan_of_pairs(specification, wanted)
    if as_json:
        told = {"ceilings": ceilings, "repeats": wanted.repeats, "pairs": pairs and plan_as_json(pairs)}
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo(f"loopback, storage, and in {wanted.repeats} rounds the ceiling of:")
    for name in ceilings:
        typer.echo(f"  {name}")
    if pairs is not None:
        print_plan(pairs)
