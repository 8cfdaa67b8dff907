"""The console command `highwater`: mounts the command groups of the rooms and does nothing else."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

from highwater.common.late_commands import Late, late_app
from highwater.common.plain_help import show_plain_help
from highwater.common.plain_letters import show_all
from highwater.common.plain_values import read_plain_values

_STUDIES: Final = "highwater.studies.commands"
_MESSAGING: Final = "highwater.pipeline.messaging.commands"
# Guests are verbs that one room brings to another's commands: the two do not know each other.
ROOMS: Final = {
    "advise": Late(
        f"{_STUDIES}.advise:advise",
        "Find the settings that are best for an aim on this system: search, then confirm with fresh trials.",
    ),
    "bench": Late(
        "highwater.bench.cli:app",
        "Measure a broker with load from Spark executors.",
        {
            "plan": Late(
                f"{_STUDIES}.plan:plan",
                "Show trials, duration and disk space, and refuse what bench run would refuse. Starts nothing.",
            ),
            "schema": Late(
                f"{_STUDIES}.schema:schema",
                "Print the JSON Schema of workload files (for editors) or of another kind of file.",
            ),
            "compare": Late(
                f"{_STUDIES}.compare:compare",
                "Compare two results: the answer in one sentence, then ratios with intervals of the metrics of the "
                "question.",
            ),
            "ceilings": Late(
                f"{_STUDIES}.ceilings:ceilings",
                "Write the highest rates that one broker sustained, and what its disks did, as a file for the "
                "monitor's headroom.",
            ),
            "publish-ceilings": Late(
                f"{_STUDIES}.publish_ceilings:publish_ceilings",
                "Write what a host measured for plans of others: facts and ranges, no host names, paths or addresses.",
            ),
            "history": Late(
                f"{_STUDIES}.history:app",
                "Results over time, and where they changed.",
                {
                    "report": Late(
                        "highwater.reports.cli:history_report",
                        "Write a history as one HTML file: trends, change points, environments; print its path.",
                    )
                },
            ),
            "lake": Late(
                f"{_STUDIES}.lake:app", "Figures of thousands of runs as Parquet, and questions asked of them."
            ),
            "telemetry": Late(
                f"{_STUDIES}.telemetry:app",
                "Show live figures of a running load: tasks of bench run --telemetry publish to a control broker.",
            ),
        },
    ),
    "broker": Late(
        "highwater.broker.cli:app",
        "A log broker that speaks Kafka's protocol and needs no JVM.",
        {
            "dlq": Late(f"{_MESSAGING}.dlq:app", "Dead letters: list, show, replay exactly once, drop."),
            "retry": Late(
                f"{_MESSAGING}.waiting:retry",
                "List retried records that wait or are parked, and run the mover that delivers them.",
            ),
            "delay": Late(
                f"{_MESSAGING}.waiting:delay", "List delayed records that wait, and run the mover that delivers them."
            ),
            "trace": Late(
                f"{_MESSAGING}.trace:trace",
                "Trace one record through retries, delays, dead letters and replays (linked by hw-origin or "
                "traceparent).",
            ),
        },
    ),
    "capture": Late(
        f"{_STUDIES}.capture:app",
        "Capture what a topic's load is like, without a byte of its records, and replay it.",
    ),
    "completion": Late(
        "highwater.common.completion:completion",
        "Print the script that completes commands, options and values in a shell.",
    ),
    "monitor": Late("highwater.monitor.cli:app", "See what a cluster does, what it did, and what is wrong."),
    "pipeline": Late("highwater.pipeline.cli:app", "Streams over topics, on Spark."),
    "plan": Late(
        f"{_STUDIES}.capacity:plan",
        "Say how many brokers a load needs, from a benchmark on a host of the same kind, or on a reference host.",
    ),
    "report": Late(
        "highwater.reports.cli:report",
        "Write the report of a result directory as one HTML file that works from disk, and print its path.",
    ),
    "top": Late(
        "highwater.monitor.cli:top",
        "Show the cluster in the terminal: what is wrong first, then brokers, groups and topics.",
    ),
    "tune": Late(
        "highwater.tuning.cli:app",
        "Inspect, check, change, verify and roll back the settings of a broker's host.",
        {
            "agent": Late(
                "highwater.bench.commands.agent:agent",
                "Serve the state of this host to a monitor: CPU, memory, page cache, write-back, disks, brokers, "
                "tuning and drift.",
            ),
            "matrix": Late(
                "highwater.bench.commands.matrix:matrix",
                "Measure which settings matter on this host: each setting under each load on each disk, with "
                "intervals.",
            ),
            "prove": Late(
                "highwater.bench.commands.prove:prove",
                "Measure the effect of settings on this host: off and on in turn, with intervals, and a verdict "
                "for each.",
            ),
        },
    ),
    "watch": Late(
        "highwater.reports.cli:watch",
        "Serve a page that follows a run of bench or pipeline, on loopback, until Ctrl-C; print its link.",
    ),
}
# What each extra brings, as it is imported: without them a host has its broker and its tuner all the same.
# pydantic is no sign of one, as typer brings that too.
EXTRAS: Final = {
    "advise": frozenset({"optuna"}),
    "bench": frozenset({"hdrh", "jinja2", "markupsafe", "numpy", "pyspark", "scipy", "yaml"}),
    "monitor": frozenset({"jinja2", "markupsafe", "sqlalchemy", "starlette", "uvicorn", "yaml"}),
    "pipeline": frozenset({"google", "numpy", "pandas", "pyarrow", "pyspark", "yaml"}),
}
# Which extras a command may lack, the nearest first. Live figures, a part of bench, need both.
_EXTRAS_OF: Final = {
    "advise": ("bench", "advise"),
    "monitor": ("monitor", "pipeline"),
    "pipeline": ("pipeline", "bench"),
    "top": ("monitor",),
}


app = late_app(
    ROOMS,
    name="highwater",
    help="Benchmark, run and monitor Kafka-compatible brokers, and tune their hosts.",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from highwater.common import distribution  # here, as no other call needs it

        typer.echo(f"highwater {distribution.version()}")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Make it a group: its commands are the rooms'."""


def main() -> None:
    """Entry point of the console command. A mistake in the call itself gets one line and exit status 2."""
    # An impatient Ctrl-C while Python takes itself down would kill it, whatever status it was about to give.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        show_all(stream)
    read_plain_values()
    show_plain_help()
    # kio imports hypothesis where it is installed, as developers have it: a fifth of a second of each broker of a test.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    if "_HIGHWATER_COMPLETE" in os.environ:  # A shell asks. What answers it uses a part of typer that is not public.
        from highwater.common.completion import answer_shells

        answer_shells()
    try:
        status = app(standalone_mode=False, prog_name="highwater")
    except typer.Abort:
        status = 130
    except TyperException as error:
        message = error.format_message().strip()
        if message:  # a group called without a command has printed its help, and has nothing to add
            typer.echo(f"error: {message}", err=True)
        status = error.exit_code
    except ModuleNotFoundError as error:
        from highwater.common.distribution import NAME  # here, as no other call needs it
        from highwater.common.extras import how_to_install

        order = _EXTRAS_OF.get(sys.argv[1] if sys.argv[1:] else "", ("bench", "pipeline"))
        package = (error.name or "").partition(".")[0]
        extra = next((name for name in order if package in EXTRAS[name]), None)
        if extra is None and error.name != NAME:
            raise
        command = " ".join(("highwater", *sys.argv[1:2]))
        typer.echo(f"error: {command} needs {error.name}: {how_to_install(extra or '')}", err=True)
        status = 2
    sys.exit(status)
