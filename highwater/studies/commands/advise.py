"""`highwater advise`, mounted by highwater/cli.py. Imports are late for a fast --help."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import (
    AsJson,
    Launcher,
    Quiet,
    Seed,
    SparkConf,
    SparkMaster,
    one_line_errors,
    pairs_of,
)
from highwater.bench.runs.launchers import LauncherChoice, LauncherKind

if TYPE_CHECKING:
    from highwater.bench.runs.runner import Run
    from highwater.bench.trials.plan import Plan
    from highwater.results.advice import Advice, Change
    from highwater.results.models import Manifest
    from highwater.studies.advise.advising import Advising, Execute, MakeAgenda


def advise(
    file: Annotated[Path, typer.Argument(metavar="QUESTION", help="Question file (YAML, schema bench.question/1).")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory for the results; new or empty.")] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Resume an interrupted `advise` run for QUESTION.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be measured and the duration; start nothing.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 11 instead of 0 when nothing is surely better.")
    ] = False,
    launcher: Launcher = LauncherKind.PROCESS,
    master: SparkMaster = None,
    spark_conf: SparkConf = None,
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the settings that are best for an aim on this system: search, then confirm with fresh trials.

    The answer, with intervals, is beside the settings in use and the defaults; "nothing is surely better" is an answer.
    A setting that weakens durability is touched only if the question accepts the loss. Without --out nothing is
    measured: a first answer has what rules and a reference host say.

    Exit codes: 0 an answer; 2 usage error; 4 no trial of a candidate can be
    used; 5 another host than the one the advice was begun on; 11 nothing is surely better (with --strict); 130
    interrupted.
    """
    with one_line_errors():
        from highwater.common.errors import UsageError
        from highwater.studies.advise.advising import advise as carry_out
        from highwater.studies.advise.advising import begin, make_advising, seed_of
        from highwater.studies.advise.question import read_question

        asked = read_question(file)
        directory = resume or out
        if out is not None and resume is not None:
            raise UsageError("--out starts an advice and --resume continues one; give one of them")
        if resume is not None:
            found = seed_of(asked, resume)
            if seed not in (None, found):
                raise UsageError(f"--seed: {resume} was started with seed {found}; leave --seed out to continue it")
            seed = found
        advising = make_advising(asked, secrets.randbits(32) if seed is None else seed)
        if plan:
            _show_plan(advising, as_json=as_json)
            return
        if directory is None:
            if strict:
                raise UsageError("--strict judges what was measured: name a directory for it with --out DIR")
            _show_first_answer(advising, file, as_json=as_json)
            return
        _need_optuna()
        if resume is None:
            from highwater.results.writer import ResultWriter
            from highwater.studies.advise.trying import check_settings

            ResultWriter.check(directory)
            check_settings(asked)
            begin(asked, directory, advising.seed)
        choice = LauncherChoice(launcher, master, pairs_of(spark_conf, "--spark-conf"))
        advice, manifest = carry_out(advising, directory, _execute(choice, quiet or as_json))
        if advice is None:
            typer.echo(
                f"error: the advice is not complete; continue with: highwater advise {file} --resume {directory}",
                err=True,
            )
            raise typer.Exit(manifest.exit_code or 0)
        if as_json:
            typer.echo(json.dumps(advice.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False))
        elif quiet:
            typer.echo(advice.sentence)
        else:
            _tell(advice, directory)
        raise typer.Exit(_exit_code(advice, strict=strict))


def _need_optuna() -> None:
    """Raises UsageError that names the extra when Optuna is not installed."""
    from importlib.util import find_spec

    from highwater.common.errors import UsageError
    from highwater.common.extras import how_to_install

    if find_spec("optuna") is None:
        raise UsageError(f"highwater advise needs optuna: {how_to_install('advise')}")


def _execute(choice: LauncherChoice, quiet: bool) -> Execute:
    from highwater.bench.commands.run import observer_of
    from highwater.bench.runs.execution import run_plan

    def execute(plan: Plan, out: Path, resume: bool, make_agenda: MakeAgenda | None) -> Manifest:
        def drive(run: Run) -> Manifest:
            assert make_agenda is not None
            agenda = make_agenda(run.writer)
            return run.drive(agenda, agenda.conclude, agenda.exit_code)

        return run_plan(
            plan,
            out,
            launcher=choice,
            observer=observer_of(plan, quiet),
            resume=resume,
            drive=None if make_agenda is None else drive,
        )

    return execute


def _show_first_answer(advising: Advising, file: Path, *, as_json: bool) -> None:
    from dataclasses import asdict

    from highwater.common.errors import UsageError
    from highwater.common.units import wait_text
    from highwater.studies.advise.beforehand import differing_of, first_answers, lines_of
    from highwater.studies.commands.ceilings_sources import reference_for_this_host
    from highwater.tuning.check import evaluate
    from highwater.tuning.facts import collect

    asked = advising.asked
    host = evaluate(collect())
    try:
        reference = reference_for_this_host()
    except UsageError:  # No reference host is near enough: its costs say nothing here.
        reference = None
    answers = first_answers(asked.space.settings, asked.metrics, host, reference)
    command = f"highwater advise {file} --out results/{asked.question.name}"
    if as_json:
        document = {
            "question": asked.question.name,
            "measured": False,
            "settings": [asdict(each) for each in answers],
            "host": [{"setting": each.id, "value": each.recommended_text} for each in differing_of(host)],
            "next": command,
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    takes = wait_text(asked.question.budget_s)
    typer.echo("\n".join(lines_of(asked.question.name, answers, host, command, takes)))


def _show_plan(advising: Advising, *, as_json: bool) -> None:
    from highwater.common.units import plural, wait_text
    from highwater.studies.advise.answering import question_text
    from highwater.studies.advise.space import spell

    asked, budget = advising.asked, advising.budget
    cells = len(asked.references) + advising.most_finalists
    if as_json:
        document = {
            "question": question_text(asked),
            "settings": {setting.key: list(setting.values) for setting in asked.space.settings},
            "in_use": dict(zip(asked.space.keys, asked.in_use, strict=True)),
            "combinations": asked.space.size,
            "trial_s": budget.trial_s,
            "search_trials": budget.search_trials,
            "confirmation_blocks": budget.confirmation_blocks(cells),
            "budget_s": asked.question.budget_s,
        }
        typer.echo(json.dumps(document, indent=2))
        return
    typer.echo(f"{asked.question.name}: {question_text(asked)}")
    for setting, present in zip(asked.space.settings, asked.in_use, strict=True):
        values = ", ".join(map(spell, setting.values))
        typer.echo(f"  {setting.key}: {values} (in use: {spell(present)})")
    typer.echo(f"{plural(asked.space.size, 'combination')}; a trial takes about {wait_text(budget.trial_s)}")
    typer.echo(f"search: about {plural(budget.search_trials, 'trial')}, {wait_text(budget.search_s)}")
    typer.echo(
        f"confirmation: about {plural(budget.confirmation_blocks(cells), 'block')} of fresh trials, "
        f"{wait_text(budget.confirmation_s)}"
    )


def _tell(advice: Advice, directory: Path) -> None:
    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.display.tables import print_headline
    from highwater.bench.display.wrapping import wrapped
    from highwater.common.figure_table import FigureTable
    from highwater.common.units import NONE
    from highwater.results.advice import SETTINGS
    from highwater.results.analysis.advised import advice_evidence, advice_headline
    from highwater.results.metrics import value_text

    console = Console(highlight=False)
    style = {"better": "green", "nothing_better": "cyan", "nothing_usable": "red"}[advice.outcome]
    console.print()
    print_headline(console, advice_headline(advice), f"bold {style}", advice_evidence(advice))
    if advice.next_step:
        console.print(escape(wrapped(f"next: {advice.next_step}", console.width)), soft_wrap=True)
    console.print(escape(advice.sentence), soft_wrap=True)
    for line in advice.notes:
        console.print(escape(line), soft_wrap=True)
    for option in advice.options:
        table = FigureTable(gap=2)
        beside_defaults = any(figure.defaults is not None for figure in option.figures)
        table.add_names("figure")
        table.add_figures(option.title, "in use", *(["defaults"] if beside_defaults else []), "against in use\n95 %")
        for figure in option.figures:
            sides = [figure.advised, figure.in_use, *([figure.defaults] if beside_defaults else [])]
            told = [value_text(side.value, figure.unit) if side else NONE for side in sides]
            name = f"[bold]{escape(figure.metric)}[/]" if figure.is_aim else escape(figure.metric)
            table.add_row(name, *told, _change_text(figure.against_in_use))
        table.print_to(console)
    for line in advice.why:
        console.print(escape(line), soft_wrap=True)
    for line in advice.would_change:
        console.print(f"would change it: {escape(line)}", style="dim", soft_wrap=True)
    if advice.outcome == "better":
        console.print(f"files: {escape(str(directory / SETTINGS))}", soft_wrap=True)
    for command in advice.commands:
        console.print(escape(command), soft_wrap=True)


def _change_text(change: Change | None) -> str:
    """A change above its interval: so it fits a terminal of 80 columns."""
    from highwater.common.units import NONE, change_span_text, change_text

    if change is None:
        return NONE
    return f"{change_text(change.ratio)}\n[dim]{change_span_text(*change.ci95) if change.ci95 else NONE}[/]"


def _exit_code(advice: Advice, *, strict: bool) -> int:
    from highwater.common.exit_codes import EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_OK

    if advice.outcome == "nothing_usable":
        return EXIT_INVALID
    return EXIT_INCONCLUSIVE if strict and advice.outcome == "nothing_better" else EXIT_OK
