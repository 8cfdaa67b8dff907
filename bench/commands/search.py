"""`bench search`: finds the highest sustainable rate. Imports are late so that --help is fast."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, Quiet, calibration_of, one_line_errors
from highwater.bench.commands.load_options import LoadOptions
from highwater.bench.commands.planning import Asked, show, tell_workload
from highwater.bench.commands.run import observer_of
from highwater.bench.commands.run_options import WorkloadOptions
from highwater.common.command_options import with_options

if TYPE_CHECKING:
    from highwater.bench.runs.search import SearchRange


@with_options
def search(
    *,
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC<VALUE", help="Objective, such as 'e2e.p99<20ms'; may be repeated."),
    ] = None,
    cell: Annotated[str | None, typer.Option(metavar="NAME", help="Cell of a matrix, as bench plan names it.")] = None,
    lowest: Annotated[str | None, typer.Option("--min", metavar="RATE", help="First rate; default: load.rate.")] = None,
    highest: Annotated[
        str | None, typer.Option("--max", metavar="RATE", help="Highest rate; default: no limit.")
    ] = None,
    precision: Annotated[str, typer.Option(metavar="PERCENT", help="Final width of the bracket.")] = "3%",
    confirm: Annotated[int, typer.Option(min=0, max=100, help="Fresh trials that the answer must pass.")] = 3,
    options: WorkloadOptions,
    load: LoadOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show an estimate of what would run and stop.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the highest rate that the system sustains without errors, within objectives, and without growing lag."""
    with one_line_errors():
        from highwater.bench.display.tables import answer_as_json, print_search
        from highwater.bench.runs.execution import run_plan
        from highwater.bench.runs.resume import seed_of
        from highwater.bench.runs.runner import Run
        from highwater.bench.runs.searching import SearchAgenda, check_same_range, search_plan, searchable
        from highwater.results.analysis.answer import answer_of
        from highwater.results.models import Manifest
        from highwater.results.reader import RunResult

        specification = searchable(options.specification(load, 1, _objectives(slo)), cell)
        first_rate = specification.workload.load.rate_per_s or 1
        wanted = _range(lowest, highest, precision, confirm, first_rate)
        seed, resume = options.seed, options.resume
        if resume is not None:
            seed = seed_of(resume, seed)
            check_same_range(resume, wanted)
        plan = search_plan(specification, wanted, seed)
        choice = options.launcher_choice()
        calibration = calibration_of(options.calibration)
        asked = Asked(plan, choice, options.out, resume, calibration=calibration, rates_known=False)
        if dry_run:
            estimate = "A search chooses its rates as it goes; about this much, all at the highest rate:"
            show(asked, as_json=as_json, first_line=estimate)
            return

        def drive(run: Run) -> Manifest:
            agenda = SearchAgenda(specification, wanted, plan.seed, run.writer)
            return run.drive(agenda, agenda.conclude, agenda.exit_code)

        if not (quiet or as_json):
            tell_workload(plan, err=True)
        manifest = run_plan(
            plan,
            asked.directory,
            launcher=choice,
            observer=observer_of(plan, quiet),
            resume=resume is not None,
            drive=drive,
            calibration=asked.calibration,
        )
        result = RunResult(asked.directory)
        found = result.search()
        if found is not None:
            if as_json:
                document = found.model_dump(mode="json", by_alias=True)
                typer.echo(json.dumps(answer_as_json(result) | document, indent=2))
            elif quiet:
                typer.echo(answer_of(result).sentence)
            else:
                print_search(result, found)
        raise typer.Exit(manifest.exit_code or 0)


def _objectives(options: list[str] | None) -> dict[str, str]:
    """`e2e.p99<20ms` -> {"e2e.p99": "<20ms"}."""
    from highwater.common.errors import UsageError

    objectives = {}
    for option in options or []:
        at = next((n for n, character in enumerate(option) if character in "<>="), 0)
        if not at:
            raise UsageError(f"--slo: {option!r} is not a metric and its bound, such as 'e2e.p99<20ms'")
        objectives[option[:at].strip()] = option[at:].strip()
    return objectives


def _range(lowest: str | None, highest: str | None, precision: str, confirm: int, first_rate: int) -> SearchRange:
    from highwater.bench.runs.search import SearchRange
    from highwater.common import quantities
    from highwater.common.errors import UsageError

    try:
        option = "--min"
        least = first_rate if lowest is None else quantities.RATE.integer(lowest)
        option = "--max"
        most = None if highest is None else quantities.RATE.integer(highest)
        option = "--precision"
        ratio = quantities.parse_percent(precision)
        if not 0 < ratio < 1:
            raise ValueError(f"{precision!r} is not between 0% and 100%")
        option = "--min and --max"
        return SearchRange(least, most, ratio, confirm)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
