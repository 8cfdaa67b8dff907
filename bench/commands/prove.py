"""`highwater tune prove`, mounted under `tune` by highwater/cli.py. Imports are late for a fast --help."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import AsJson, Launcher, Quiet, Seed, SparkMaster, one_line_errors, pairs_of
from highwater.bench.runs.launchers import LauncherKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater.bench.gate.run import Execute
    from highwater.bench.prove.proving import Round
    from highwater.bench.prove.subjects import Subject, Unprovable
    from highwater.bench.runs.agenda import FinishedCells
    from highwater.bench.trials.plan import Plan
    from highwater.results.models import Manifest
    from highwater.tuning.facts.model import Facts
    from highwater.tuning.proofs import Proof


def prove(
    knobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KNOB[=[OFF:]ON][+KNOB…]…",
            help="Settings to prove; default: all knobs that differ from the recommendation. "
            "KNOB: present against recommended value; KNOB=60:1: these values; KNOB+KNOB: changed together.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for the results; new or empty.")] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the broker's log: its disk and mount are measured."),
    ] = None,
    pairs: Annotated[int, typer.Option(min=5, max=100, help="Pairs of trials (off, on) for each setting.")] = 8,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Run as many pairs as fit in this time, instead of --pairs.")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measure with this workload instead of the knob's own.")
    ] = None,
    workload_inputs: Annotated[
        list[str] | None,
        typer.Option(
            "-w",
            metavar="KEY=VALUE",
            help="Input of the recommendation, as in `highwater tune check`; may be repeated.",
        ),
    ] = None,
    accept_risk: Annotated[
        list[str] | None,
        typer.Option(metavar="KNOB", help="Prove this knob although its trials put the host at risk; may be repeated."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be measured and the duration; change nothing.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Print at the end how to apply the settings that are worth keeping.")
    ] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the proofs as a Markdown page.")] = None,
    launcher: Launcher = LauncherKind.PROCESS,
    master: SparkMaster = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Measure the effect of settings on this host: off and on in turn, with intervals, and a verdict for each.

    At the end the host has its old settings again, however the run ends; after kill -9: highwater tune rollback. The
    proofs are stored in /var/lib/highwater-tuning/proofs.json, and `highwater tune explain KNOB` shows them.

    Exit codes: 0 a verdict for each; 1 something stayed inconclusive; 2 usage error, or refused with nothing
    changed; 3 the broker or the host failed meanwhile; 130 interrupted.
    """
    with one_line_errors():
        from highwater.bench.prove import proving
        from highwater.common.errors import UsageError
        from highwater.tuning.cli.documents import print_document
        from highwater.tuning.errors import TuningError
        from highwater.tuning.facts import collect
        from highwater.tuning.proofs import ProveDocument, keep_proofs, read_proofs

        facts = collect()
        try:
            subjects, others = _subjects(knobs or [], facts, data_dir, workload_inputs, accept_risk)
            if not subjects:
                why = "; ".join(f"{item.knob_id}: {item.reason}" for item in others)
                raise UsageError(
                    f"nothing differs here that trials could say something about{f' ({why})' if why else ''}"
                )
            rounds = proving.make_rounds(subjects, data_dir, pairs, minutes=minutes, workload_file=workload, seed=seed)
            if plan:
                _show_plan(rounds, others, as_json=as_json)
                return
            if out is None:
                raise UsageError("name a directory for the results with --out DIR (or see the plan first: --plan)")
            if out.exists() and any(out.iterdir()):
                raise UsageError(f"{out} is not empty; name a new directory with --out")
            read_proofs(facts.files)  # a file that cannot be added to is complained of before hours of trials
            proofs, manifests = [], []
            for item, proved, manifest in proving.prove(
                rounds, out, executing(launcher, master, quiet), minutes=minutes
            ):
                manifests.append(manifest)
                proofs += proved
                if manifest.status == "done":
                    keep_proofs(facts.files, proved)
                if not (quiet or as_json):
                    _tell(item, proved)
        except TuningError as error:
            raise UsageError(str(error)) from None
        if report is not None:
            _write_page(report, proofs, facts)
        if as_json:
            print_document(ProveDocument(tuple(proofs)))
        elif keep:
            _say_how_to_keep(proofs)
        raise typer.Exit(_exit_code(proofs, manifests))


def _subjects(
    knobs: Sequence[str],
    facts: Facts,
    data_dir: Path | None,
    workload_inputs: list[str] | None,
    accept_risk: list[str] | None,
) -> tuple[list[Subject], list[Unprovable]]:
    import tempfile

    from highwater.bench.prove.subjects import subject_named, whatever_differs
    from highwater.tuning.workload import parse_workload

    log_directory = str((data_dir or Path(tempfile.gettempdir())).absolute())
    inputs = parse_workload({**pairs_of(workload_inputs, "-w"), "data_dirs": [log_directory]})
    if not knobs:
        return whatever_differs(facts, inputs)
    return [subject_named(text, facts, inputs, accept_risk or ()) for text in knobs], []


def executing(kind: LauncherKind, master: str | None, quiet: bool) -> Execute:
    """What runs a plan, and goes on with a run that is in the directory already."""
    from highwater.bench.commands.run import observer_of
    from highwater.bench.runs.execution import run_plan
    from highwater.bench.runs.launchers import LauncherChoice

    def execute(plan: Plan, directory: Path, finished_cells: FinishedCells | None) -> Manifest:
        return run_plan(
            plan,
            directory,
            launcher=LauncherChoice(kind, master),
            observer=observer_of(plan, quiet),
            resume=(directory / "manifest.json").is_file(),
            finished_cells=finished_cells,
        )

    return execute


def _show_plan(rounds: Sequence[Round], others: Sequence[Unprovable], *, as_json: bool) -> None:
    import json

    from highwater.bench.prove.proving import duration_s
    from highwater.common.units import wait_text

    if as_json:
        document = {
            "duration_s": duration_s(rounds),
            "rounds": [
                {
                    "load": item.load,
                    "pairs": item.pairs,
                    "trials": len(item.plan.trials),
                    "duration_s": item.plan.duration_s,
                    "subjects": [
                        {"subject": sides.subject.name, "off": sides.off, "on": sides.on} for sides in item.sides
                    ],
                }
                for item in rounds
            ],
            "not_proved": [{"knob": item.knob_id, "reason": item.reason} for item in others],
        }
        typer.echo(json.dumps(document, indent=2))
        return
    for item in rounds:
        took = wait_text(item.plan.duration_s)
        typer.echo(f"{item.load}: {item.pairs} pairs, {len(item.plan.trials)} trials, about {took}")
        for sides in item.sides:
            for change in sides.subject.changes:
                typer.echo(f"  {change.knob.id}: {change.off_text} → {change.on_text}")
                for remark in filter(None, (change.binding, change.shared)):
                    typer.echo(f"    {remark}")
    for other in others:
        typer.echo(f"not proved: {other.knob_id}: {other.reason}")
    typer.echo(f"about {wait_text(duration_s(rounds))} in all; each pair is measured in a block of random order")


def _tell(item: Round, proofs: Sequence[Proof]) -> None:
    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.prove.page import HEADER, knob_change_text, row
    from highwater.common.figure_table import FigureTable
    from highwater.tuning.proofs import VERDICT_TEXTS

    console = Console(highlight=False)
    styles = {"better": "green", "worse": "red", "differs": "yellow"}
    verdict_styles = {"keep": "green", "revert": "red", "no_effect": "cyan", "inconclusive": "yellow"}
    for proof in proofs:
        console.print(f"\n[bold]{escape(knob_change_text(proof))}[/]  ({item.load}, {proof.pairs_valid} valid pairs)")
        # Two lines a row: so it fits a terminal of 80 columns.
        table = FigureTable()
        figure, off, on, change, interval, detectable, _ = HEADER
        table.add_names(figure)
        table.add_figures(f"{off}\n{on}", f"{change}\n{interval}", detectable)
        table.add_figures("", justify="left")
        for effect in filter(lambda effect: effect.decides, proof.effects):
            figure, off, on, change, interval, detectable, outcome = map(escape, row(effect))
            style = styles.get(effect.outcome)
            told = f"[{style}]{outcome}[/]" if style else outcome
            table.add_row(figure, f"{off}\n{on}", f"{change}\n[dim]{interval}[/]", detectable, told)
        table.print_to(console)
        for trade in proof.durability_trades:
            console.print(f"durability traded away meanwhile: {escape(trade)}", style="yellow", soft_wrap=True)
        style = verdict_styles[proof.verdict]
        console.print(f"[bold {style}]{VERDICT_TEXTS[proof.verdict]}[/]: {escape(proof.text)}", soft_wrap=True)
    if proofs:
        console.print(f"report: highwater report {escape(shlex.quote(proofs[0].results))}", soft_wrap=True)


def _write_page(path: Path, proofs: Sequence[Proof], facts: Facts) -> None:
    from highwater.bench.prove.page import markdown

    named = (facts.cpu_model, facts.cpu_count and f"{facts.cpu_count} CPUs", facts.kernel_release)
    host = ", ".join(str(part) for part in named if part)
    path.write_text(markdown(proofs, shlex.join(["highwater", *sys.argv[1:]]), host), "utf-8")


def _say_how_to_keep(proofs: Sequence[Proof]) -> None:
    kept = [setting.knob for proof in proofs if proof.verdict == "keep" for setting in proof.settings]
    if kept:
        only = " ".join(f"--only {shlex.quote(knob)}" for knob in dict.fromkeys(kept))
        typer.echo(f"worth keeping; in force with: highwater tune apply {only}")
    else:
        typer.echo("nothing was worth keeping")


def _exit_code(proofs: Sequence[Proof], manifests: Sequence[Manifest]) -> int:
    from highwater.common.exit_codes import EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_NO, EXIT_OK

    if any(manifest.status == "interrupted" for manifest in manifests):
        return EXIT_INTERRUPTED
    if any(trial.status == "failed" for manifest in manifests for trial in manifest.trials):
        return EXIT_DAMAGE
    return EXIT_NO if any(proof.verdict == "inconclusive" for proof in proofs) else EXIT_OK
