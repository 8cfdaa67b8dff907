"""`bench telemetry …`: live figures of running loads, through a control broker and Spark.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.bench.commands.common import AsJson, EngineMaster, one_line_errors, parsed
from highwater.common.exit_codes import EXIT_INVALID
from highwater.common.spark_master import checked_master

if TYPE_CHECKING:
    from highwater.studies.telemetry.store import StoredTrial
    from highwater.studies.telemetry.sums import Sums

app = typer.Typer(
    no_args_is_help=True,
    help="Show live figures of a running load: tasks of bench run --telemetry publish to a control broker.",
)

Control = Annotated[
    str, typer.Option("--control", metavar="HOST:PORT,…", help="The control broker; never the system under test.")
]
ControlConfig = Annotated[
    Path | None,
    typer.Option("--control-config", metavar="FILE", help="TLS and SASL properties, by librdkafka's names."),
]
Topic = Annotated[str, typer.Option(metavar="NAME", help="The topic that load tasks publish to.")]
Engine = Literal["spark", "local"]


@app.command()
def live(
    control: Control,
    state: Annotated[
        Path, typer.Option("--state", metavar="DIR", help="Directory of the figures and of the stream's checkpoint.")
    ],
    topic: Topic = "hw.telemetry",
    verdicts: Annotated[
        str, typer.Option(metavar="NAME", help="The topic that gets a verdict of each objective in each closed second.")
    ] = "hw.verdicts",
    control_config: ControlConfig = None,
    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Spark master.", callback=checked_master)
    ] = "local[2]",
    every: Annotated[str, typer.Option(metavar="DURATION", help="Time between two writes of the figures.")] = "2s",
    once: Annotated[bool, typer.Option("--once", help="End when everything on the topic is summed up.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no figures.")] = False,
) -> None:
    """Keep live figures of all loads that publish to a control broker, until Ctrl-C.

    A later start with the same --state continues where this one ended, also after kill -9: every message counts once.
    """
    with one_line_errors():
        from highwater.common.quantities import DURATION
        from highwater.studies.telemetry.running import run_live

        run_live(
            control,
            state,
            topic=topic,
            verdicts=verdicts,
            control_config=control_config,
            master=master,
            every_s=parsed("--every", DURATION.integer, every) / 1e9,
            once=once,
            on_trial=(lambda _: None) if quiet else _print_trial,
        )


@app.command()
def show(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="The --state directory of bench telemetry live.")],
    every: Annotated[bool, typer.Option("--all", help="Show all trials, not only the newest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print whether objectives are held now, for how long, the worst second and the headroom."""
    with one_line_errors():
        from highwater.studies.telemetry.store import Store

        with Store(state) as store:
            trials, malformed = store.trials(), store.malformed()
        shown = trials if every else trials[-1:]
        if as_json:
            typer.echo(json.dumps([_as_json(trial) for trial in shown], indent=2))
            return
        if not trials:
            typer.echo("no trial has published anything yet")
        for trial in shown:
            _print_trial(trial)
        for reason, messages in malformed.items():
            typer.echo(f"{messages} messages on the topic do not count: {reason}")


@app.command()
def final(
    control: Control,
    topic: Topic = "hw.telemetry",
    control_config: ControlConfig = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="DIR", help="Compare with the live figures in this directory.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", metavar="DIR", help="Compare with this result directory of bench run.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Sum up with Spark, or in this process alone.")] = "local",
    master: EngineMaster = "local[2]",
) -> None:
    """Sum up the whole topic again, and compare with live figures and results to the bit.

    Exit code 4 if anything differs.
    """
    with one_line_errors():
        from highwater.studies.telemetry.running import compare_with_results, compare_with_state, sum_up

        sums = sum_up(control, topic=topic, control_config=control_config, engine=engine, master=master)
        different = _tell(sums)
        if state is not None:
            different += compare_with_state(sums, state, typer.echo)
        if results is not None:
            different += compare_with_results(sums, results, typer.echo)
        if different:
            raise typer.Exit(EXIT_INVALID)


def _print_trial(trial: StoredTrial) -> None:
    from highwater.studies.telemetry.wording import trial_lines

    for line in trial_lines(trial):
        typer.echo(line)


def _tell(sums: Sums) -> int:
    from highwater.studies.telemetry.figures import trial_figures

    if not sums.trials:
        typer.echo("no trial has published anything yet")
    for name, trial in sorted(sums.trials.items()):
        figures = trial_figures(trial)
        missing = f", {figures.missing} missing" if figures.missing else ""
        typer.echo(f"{name}: {figures.messages} messages{missing}; {figures.state} over {figures.measured_s} s")
    for reason, messages in sums.malformed.items():
        typer.echo(f"{messages} messages on the topic do not count: {reason}")
    return 0


def _as_json(trial: StoredTrial) -> dict[str, object]:
    return {**trial.figures, "written_unix_ms": trial.written_unix_ms, "behind_s": trial.behind_s}
