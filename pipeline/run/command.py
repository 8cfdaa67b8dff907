"""The command `highwater pipeline run FILE`: its options, its help, its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from highwater.common.command_errors import fail
from highwater.common.errors import UsageError
from highwater.common.spark_master import checked_master
from highwater.common.watch_options import Watch, WatchPort, page_of


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The pipeline, as YAML; docs/pipeline-run.md describes it.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, ask the brokers, print the plan, write nothing.")
    ] = False,
    flow: Annotated[
        list[str] | None, typer.Option("--flow", metavar="NAME", help="Run this flow alone; may be repeated.")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Read what is there and end, whatever the triggers of the file are.")
    ] = False,
    master: Annotated[str, typer.Option("--master", help="Spark master.", callback=checked_master)] = "local[*]",
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            "--spark-conf", metavar="NAME=VALUE", help="A setting of Spark; wins over the file; may be repeated."
        ),
    ] = None,
    watch: Watch = False,
    watch_port: WatchPort = None,
) -> None:
    """Run the flows of a pipeline: read topics and files, apply SQL and Python, write to sinks.

    A flow with the trigger availableNow reads what is there and ends. A flow with an interval, such as 10 seconds, runs
    until SIGINT (Ctrl-C) or SIGTERM: the batch that has begun is finished, then the run ends. A second signal ends it
    at once; the next run repeats the batch.

    Exit codes: 0 done, or stopped by a signal between batches; 2 usage error;
    3 records to be read are gone; 5 a step, a broker or a sink failed; 130 stopped in the middle of a batch.
    """
    from highwater.pipeline.run.runner import Request, run_pipeline

    settings = {}
    for text in spark_conf or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            fail(f"--spark-conf {text}: write it as NAME=VALUE")
        settings[name] = value
    try:
        page = None if dry_run else page_of(watch, watch_port)
    except UsageError as error:
        fail(error)
    raise typer.Exit(
        run_pipeline(
            Request(
                file=file,
                is_dry=dry_run,
                flows=tuple(flow or ()),
                available_now=available_now,
                master=master,
                settings=settings,
                page=page,
            )
        )
    )
