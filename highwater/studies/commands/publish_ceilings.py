"""`bench publish-ceilings`: what a host measured as an anonymous file for others' plans. Imports are late."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.bench.commands.common import one_line_errors


def publish_ceilings(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Result directories of workloads/ceilings.yaml.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The new file, such as xeon-2.json.")],
) -> None:
    """Write what a host measured for plans of others: facts and ranges, no host names, paths or addresses.

    highwater plan LOAD --ceilings FILE plans with the file, or with the nearest host of a folder of such files.
    """
    with one_line_errors():
        from highwater.common.atomic_files import write_atomically
        from highwater.common.errors import UsageError
        from highwater.results.reader import RunResult
        from highwater.studies.capacity.measured import measured_of
        from highwater.studies.capacity.publishing import reference_of

        if out.exists():
            raise UsageError(f"--out: {out} exists; name a new file")
        results = [RunResult(directory) for directory in directories]
        summaries = [trial.summary for result in results for trial in result.trials]
        made = reference_of(
            measured_of(results),
            str(results[0].environment.facts.get("machine", "")),
            max(summary.started_utc for summary in summaries)[:10],
            max(summary.host.other_cpu_ratio or 0.0 for summary in summaries),
        )
        try:
            write_atomically(out, made.as_json())
        except OSError as error:
            raise UsageError(f"--out: {out}: cannot write it: {error.strerror or error}") from None
        typer.echo(
            f"{out}: {made.host.cpu_model} × {made.host.cpu_count}, {made.trials} trials; read it before you share it"
        )
