"""`bench metrics` and `bench verify`. Imports are late so that --help is fast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.commands.common import AsJson, one_line_errors


def metrics(as_json: AsJson = False) -> None:
    """List the names of all metrics, for objectives, policies and --metric."""
    from highwater.results.metrics import METRICS

    if as_json:
        known = {
            name: {"unit": one.unit, "better": one.better, "meaning": one.meaning} for name, one in METRICS.items()
        }
        typer.echo(json.dumps(known, indent=2))
        return
    width = max(map(len, METRICS))
    for name, definition in METRICS.items():
        typer.echo(f"{name:{width}}  {definition.unit:11}  {definition.better:6}  {definition.meaning}")


def verify(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory.")], as_json: AsJson = False
) -> None:
    """Check digests and schemas of a result directory; recompute percentiles, counts, verdicts and analysis.

    Exit code 4 when something does not match or is damaged; everything else is still checked.
    """
    with one_line_errors():
        from highwater.bench.verify import disagreements, not_judged_again, opened
        from highwater.common.exit_codes import EXIT_INVALID
        from highwater.results import checksums

        result, damaged = opened(directory)
        found, notes = [*damaged, *disagreements(result)], not_judged_again(result)
        if as_json:
            typer.echo(json.dumps({"trials": len(result.trials), "disagreements": found, "notes": notes}, indent=2))
        else:
            for line in [*found, *(f"note: {note}" for note in notes)]:
                typer.echo(line, err=True)
        if found:
            raise typer.Exit(EXIT_INVALID)
        if not as_json:
            digests = "" if (directory / checksums.FILE_NAME).is_file() else f"; it has no {checksums.FILE_NAME}"
            typer.echo(f"{directory}: {len(result.trials)} trials agree with their histograms and windows{digests}")
