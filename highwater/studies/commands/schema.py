"""`bench schema`: prints the JSON Schema of a kind of file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from highwater.bench.commands.common import one_line_errors


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="workload, gate-policy, question, load; manifest, env, analysis, probes, calibration, search, gate, "
            "advice, comparison; of a trial summary, verdict, windows, host, partitions, events.",
        ),
    ] = "workload",
) -> None:
    """Print the JSON Schema of workload files (for editors) or of another kind of file."""
    with one_line_errors():
        from highwater.studies.json_schemas import json_schema

        typer.echo(json.dumps(json_schema(name), indent=2))
