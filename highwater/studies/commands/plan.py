"""`bench plan`: shows what a run would do, checks it, and says from a lake what its trials can show.

Imports are late so that --help is fast.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from highwater.bench.commands.common import AsJson, one_line_errors
from highwater.bench.commands.load_options import LoadOptions
from highwater.bench.commands.planning import show
from highwater.bench.commands.run_options import RunOptions
from highwater.common.command_options import with_options

if TYPE_CHECKING:
    from highwater.bench.trials.plan import Plan


@with_options
def plan(
    *,
    options: RunOptions,
    load: LoadOptions,
    price_per_hour: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="Price of the machines per hour, to show the price of the run."),
    ] = None,
    currency: Annotated[str, typer.Option(metavar="NAME", help="Currency of --price-per-hour.")] = "USD",
    lake: Annotated[
        Path | None,
        typer.Option("--lake", metavar="DIR", help="Say how small a change the trials can show, from earlier runs."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show trials, duration and disk space, and refuse what bench run would refuse. Starts nothing."""
    with one_line_errors():
        from highwater.bench.trials.plan import Price

        price = None if price_per_hour is None else Price(price_per_hour, currency)
        asked = options.asked(load)
        document, lines = ({}, []) if lake is None else _expected(lake, asked.plan)
        show(asked, price, as_json=as_json, document=document, lines=lines)


def _expected(lake: Path, plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """What the runs of a lake let expect, for the document of a plan and in lines. Raises UsageError."""
    from highwater.results.analysis.comparison_answer import asked_metrics
    from highwater.studies.lake.extra import named_extra

    with named_extra():
        from highwater.studies.lake.expecting import expected_of, lines_of
        from highwater.studies.lake.manifest import Manifest

        workload = plan.specification.workload
        asked = asked_metrics(workload.as_document(), at_once=workload.trials.at_once)
        found = expected_of(Manifest(lake), workload.name, workload.trials.n, asked)
        return {"expected": [asdict(one) for one in found]}, list(lines_of(found, workload.name, workload.trials.n))
