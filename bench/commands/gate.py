"""`bench gate`: decides whether HEAD is slower than BASE.

Imports are late so that --help is fast.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.bench.commands.common import (
    AsJson,
    CalibrationFile,
    Launcher,
    Quiet,
    Seed,
    SparkConf,
    SparkMaster,
    calibration_of,
    one_line_errors,
    pairs_of,
)
from highwater.bench.runs.launchers import LauncherKind

if TYPE_CHECKING:
    from highwater.bench.gate.run import Rules
    from highwater.bench.gate.sides import Measured
    from highwater.bench.runs.agenda import FinishedCells
    from highwater.bench.trials.plan import Plan
    from highwater.results.gate import Gate
    from highwater.results.models import Manifest

_Side = "DIR[:CELL]|git:REV|CHECKOUT|config:FILE|workload"
# Written out here, so that --help does not need the import.
Annotations = Literal["auto", "github", "none"]


def gate(
    base: Annotated[str, typer.Argument(metavar=f"BASE={_Side}", help="The old version; see docs/bench-ci.md.")],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The new version, named in the same way.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the outcome; new or empty.")],
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Policy (YAML, schema bench.gate/1); there is a default.")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Workload for both sides; not for two result directories.")
    ] = None,
    launcher: Launcher = LauncherKind.PROCESS,
    master: SparkMaster = None,
    spark_conf: SparkConf = None,
    seed: Seed = None,
    allow_env_diff: Annotated[
        bool, typer.Option("--allow-env-diff", help="Compare result directories although their environments differ.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 11 instead of 0 when the result is inconclusive.")
    ] = False,
    calibration: CalibrationFile = None,
    annotations: Annotated[
        Annotations, typer.Option(help="Print annotations for this CI system; auto: detect the CI system.")
    ] = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be run and stop.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Decide whether HEAD is slower than BASE: interleaved pairs on one host, and a confirmation before it fails.

    Exit codes: 0 passes; 3 HEAD failed or lost data; 4 too few valid pairs; 5 environments are not comparable;
    10 a regression; 11 inconclusive (with --strict).
    """
    with one_line_errors(), tempfile.TemporaryDirectory(prefix="highwater-gate-") as scratch:
        from highwater.bench.gate.run import judge_recorded, run_gate, write_gate
        from highwater.bench.gate.sides import Recorded, side_named
        from highwater.bench.runs.execution import run_plan
        from highwater.bench.runs.launchers import LauncherChoice
        from highwater.common.errors import UsageError

        calibrated = calibration_of(calibration)
        rules = _rules(policy, strict=strict, allow_env_diff=allow_env_diff)
        sides = [side_named(text, name, Path.cwd(), Path(scratch)) for text, name in ((base, "BASE"), (head, "HEAD"))]
        recorded = [side for side in sides if isinstance(side, Recorded)]
        if len(recorded) == 1:
            raise UsageError(
                f"{recorded[0].given} is a result directory and the other side would be measured now: the two would "
                "not be interleaved; name two directories, or measure both"
            )
        if recorded:
            if workload is not None:
                raise UsageError("--workload: two result directories are judged as they are; leave it out")
            if out.exists() and any(out.iterdir()):
                raise UsageError(f"{out} is not empty; name a new directory with --out")
            found = judge_recorded(recorded[0], recorded[1], rules)
        else:
            one, other = (side for side in sides if not isinstance(side, Recorded))
            plan = _planned(one, other, workload, rules, seed)
            if dry_run:
                _show(plan, rules, as_json)
                return
            choice = LauncherChoice(launcher, master, pairs_of(spark_conf, "--spark-conf"))

            def execute(plan: Plan, directory: Path, finished_cells: FinishedCells | None) -> Manifest:
                from highwater.bench.commands.run import observer_of

                return run_plan(
                    plan,
                    directory,
                    launcher=choice,
                    observer=observer_of(plan, quiet),
                    finished_cells=finished_cells,
                    calibration=calibrated,
                )

            found = run_gate(one, other, plan, rules, out, execute)
        write_gate(found, out)
        _tell(found, out, quiet=quiet, as_json=as_json, annotations=annotations)
        raise typer.Exit(found.exit_code)


def _rules(policy: Path | None, *, strict: bool, allow_env_diff: bool) -> Rules:
    from highwater.bench.gate.policy import default_policy, load_policy, noise_from
    from highwater.bench.gate.run import Rules
    from highwater.common.errors import UsageError
    from highwater.results.metrics import COUNTS_OF_FATES

    loaded = default_policy() if policy is None else load_policy(policy)
    if fates := [name for name in loaded.gate if name.startswith(COUNTS_OF_FATES)]:
        raise UsageError(
            f"{policy}: gate.{fates[0]}: is 0 as a rule, and of 0 there is no ratio; make it an objective (slo) or a "
            "check (checks.delivery) of the workload"
        )
    noise = {} if policy is None else noise_from(loaded, policy.absolute().parent)
    return Rules(loaded, None if policy is None else str(policy), noise, strict, allow_env_diff)


def _planned(base: Measured, head: Measured, workload: Path | None, rules: Rules, seed: int | None) -> Plan:
    from highwater.bench.gate.run import gate_specification
    from highwater.bench.trials.plan import make_plan
    from highwater.common.errors import UsageError

    if workload is None:
        raise UsageError("name the workload to measure both with: --workload FILE")
    return make_plan(gate_specification(workload, base, head, rules.policy), seed)


def _show(plan: Plan, rules: Rules, as_json: bool) -> None:
    from highwater.bench.display.tables import plan_as_json, print_plan

    pairs = rules.policy.pairs
    if as_json:
        typer.echo(json.dumps(plan_as_json(plan) | {"pairs": {"min": pairs.min, "max": pairs.max}}, indent=2))
        return
    print_plan(plan)
    typer.echo(f"at most {pairs.max} pairs, {pairs.min} at least; as many again for each confirmation of a regression")


def _tell(found: Gate, out: Path, *, quiet: bool, as_json: bool, annotations: Annotations) -> None:
    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.display.comparison_text import how_decided, round_title
    from highwater.bench.display.evidence_text import evidence_lines
    from highwater.bench.display.tables import print_metrics
    from highwater.bench.gate.annotations import github_lines, style_of
    from highwater.results.analysis.gathering import gate_evidence
    from highwater.results.analysis.next_step import gate_step
    from highwater.results.reader import RunResult

    if as_json:
        typer.echo(found.model_dump_json(by_alias=True, indent=2))
    elif not quiet:
        console = Console(highlight=False)
        for done in found.rounds:
            console.print(f"[dim]{escape(round_title(done))}[/]")
            print_metrics(console, done.metrics)
        for note in found.notes:
            console.print(f"[yellow]note[/] {escape(note)}", soft_wrap=True)
        console.print(f"[dim]{how_decided(found)}[/]", soft_wrap=True)
        trials = RunResult(out).cells() if (out / "manifest.json").is_file() else {}
        evidence = gate_evidence(found, (trial.summary for cell in trials.values() for trial in cell))
        for drawn in evidence_lines(evidence, console.width) if evidence else ():
            console.print(drawn, soft_wrap=True)
        style = "red" if found.exit_code else "yellow" if found.state == "inconclusive" else "green"
        console.print(f"[bold {style}]{escape(found.state.replace('_', ' '))}[/]: {escape(found.text)}", soft_wrap=True)
        if step := gate_step(found):
            console.print(f"next: {escape(step)}", soft_wrap=True)
        files = "gate.json, gate.md, gate.junit.xml, gate.codequality.json"
        console.print(f"written to {escape(str(out))}: {files}", soft_wrap=True)
    if annotations == "github" or (annotations == "auto" and style_of(os.environ) == "github"):
        for line in github_lines(found):
            # GitHub reads both streams, and with --json standard output is one document.
            typer.echo(line, err=as_json)
