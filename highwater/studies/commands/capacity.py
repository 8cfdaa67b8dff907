"""`highwater plan`: how many brokers a load needs. Imports are late so that --help is fast."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, StorageOption, one_line_errors

if TYPE_CHECKING:
    from highwater.studies.capacity.plan import Plan


def plan(
    load: Annotated[Path, typer.Argument(metavar="LOAD", help="Load file (YAML, schema capacity.load/1).")],
    ceilings: Annotated[
        list[Path] | None,
        typer.Option(
            "--ceilings",
            metavar="DIR",
            help="Result directory of workloads/ceilings.yaml (may be repeated); or a published file, or a folder of "
            "them. Default: reference hosts that come with Highwater.",
        ),
    ] = None,
    network: Annotated[
        list[Path] | None,
        typer.Option("--network", metavar="FILE", help="A file of bench network between such hosts; may be repeated."),
    ] = None,
    measure: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Measure this host first, for so long: 3min to 15min. It must be quiet."),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, metavar="N", help="Report how much of the load N brokers can carry."),
    ] = None,
    as_json: AsJson = False,
    inventory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write an inventory for the playbooks into this new or empty directory."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the plan in this new or empty directory, for highwater report DIR."),
    ] = None,
    rehearse: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="With --out: run this share of the load on this host, such as 5%."),
    ] = None,
    storage: StorageOption = None,
) -> None:
    """Say how many brokers a load needs, from a benchmark on a host of the same kind, or on a reference host.

    The answer comes first, with its interval and what limits it, and the measurement that would narrow it most. Below
    it: what the worst broker needs of each resource, partitions, disks, what would change the answer, and what is not
    known with the command that finds it out.

    Exit codes: 0 the load fits; 1 it does not; 2 usage error, or a ceiling that nobody measured.
    """
    with one_line_errors():
        from dataclasses import replace
        from datetime import UTC, datetime

        from highwater.bench.workload.yaml_document import read_document
        from highwater.common.errors import UsageError
        from highwater.common.exit_codes import EXIT_NO
        from highwater.studies.capacity.inventory import inventory_of
        from highwater.studies.capacity.load import load_of
        from highwater.studies.capacity.measured import measured_of
        from highwater.studies.capacity.plan import make_plan
        from highwater.studies.capacity.stored import LOAD_FILE, PLAN_FILE, plan_text
        from highwater.studies.commands.ceilings_sources import measured_for, network_bytes_per_s, results_of

        for option, directory in (("--inventory", inventory), ("--out", out)):
            if directory is not None:
                _check_empty(option, directory)
        if rehearse is None and measure is None and storage:
            raise UsageError("--storage is for what is measured: add --measure 3min or --rehearse SHARE")
        if measure is not None and ceilings is not None:
            raise UsageError("--measure measures ceilings and --ceilings names some: give one of them")
        wanted, now = load_of(read_document(load)), datetime.now(UTC)
        today = now.date()
        if measure is not None:
            from highwater.studies.commands.measuring import measured_here

            directory = out or Path("results") / f"plan-{now:%Y%m%d-%H%M%S}"
            ceilings = [measured_here(measure, directory, storage or []).directory]
            typer.echo(f"measured: highwater plan {load} --ceilings {ceilings[0]} plans with it again", err=True)
        rates = network_bytes_per_s(wanted, network or [])
        measured = replace(measured_for(wanted, ceilings), network_bytes_per_s=rates)
        made = make_plan(wanted, measured, today, brokers)
        if rehearse is not None:
            from highwater.studies.commands.measuring import rehearsed

            if out is None:
                raise UsageError("--rehearse saves what it measures: add --out DIR")
            results = results_of(ceilings or [])
            if not results:
                raise UsageError("--rehearse compares with ceilings of this host: add --ceilings DIR, a result of it")
            run = rehearsed(wanted, measured, results[0], rehearse, out, storage or [])
            measured = replace(measured_of([*results, run]), network_bytes_per_s=rates)
            made = make_plan(wanted, measured, today, brokers)
        if as_json:
            typer.echo(plan_text(made))
        else:
            _show(made, str(load))
        if out is not None:
            _write(out, {PLAN_FILE: plan_text(made), LOAD_FILE: load.read_text("utf-8")})
            typer.echo(f"{out}: the plan; now: highwater report {out}", err=True)
        if not made.fits:
            if inventory is not None:
                typer.echo(f"{inventory}: not written, as the load does not fit", err=True)
            raise typer.Exit(EXIT_NO)
        if inventory is not None:
            _write(inventory, inventory_of(made, wanted))
            typer.echo(
                f"{inventory}: an inventory of {made.state_brokers} brokers; names and disks are to fill in", err=True
            )


def _show(made: Plan, load_file: str) -> None:
    """load_file: as the user named it, for commands to paste."""
    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.display.tables import print_headline
    from highwater.bench.display.wrapping import wrapped
    from highwater.studies.capacity.text import evidence, headline, lines, next_step

    console = Console(highlight=False)
    style = "bold green" if made.fits else "bold red"
    print_headline(console, f"{made.name}: {headline(made)}.", style, evidence(made))
    if step := next_step(made, load_file):
        console.print(escape(wrapped(f"next: {step}", console.width)), soft_wrap=True)
    console.print(escape("\n".join(lines(made))), soft_wrap=True)


def _check_empty(option: str, directory: Path) -> None:
    from highwater.common.errors import UsageError

    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{option}: {directory} exists and is not an empty directory")


def _write(directory: Path, files: dict[str, str]) -> None:
    """Raises UsageError."""
    from highwater.common.atomic_files import write_atomically
    from highwater.common.errors import UsageError

    for name, text in files.items():
        file = directory / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, text)
        except OSError as error:
            raise UsageError(f"{file}: cannot write it: {error.strerror or error}") from None
