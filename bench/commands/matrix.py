"""`highwater tune matrix`, mounted under `tune` by highwater/cli.py. Imports are late for a fast --help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.bench.commands.common import Quiet, Seed, one_line_errors, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from highwater.bench.matrix.answers import Answer, Key
    from highwater.bench.matrix.running import Ended
    from highwater.bench.matrix.stored import Matrix
    from highwater.bench.matrix.study import Study
    from highwater.tuning.facts.model import Facts

CSV_FILE = "matrix.csv"


def matrix(
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the matrix: a new one, or one to continue."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Empty directory on the disk to measure; emulated disks are made in it."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="KNOB", help="Only this setting of the study; may be repeated.")
    ] = None,
    load: Annotated[
        list[str] | None, typer.Option(metavar="LOAD", help="Only this load (writes, reads, …); may be repeated.")
    ] = None,
    disk: Annotated[
        list[str] | None, typer.Option(metavar="DISK", help="Only this disk (host, hdd, …); may be repeated.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another study than the shipped one of twenty settings.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="The first look alone: what seems to differ is not measured again, alone.")
    ] = False,
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Stop before a run that would not end in this time."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would be measured and the duration; change nothing.")
    ] = False,
    seed: Seed = None,
    quiet: Quiet = False,
) -> None:
    """Measure which settings matter on this host: each setting under each load on each disk, with intervals.

    In each trial of the first look half of all settings are on, so that each trial informs about each setting. What
    seems to differ is then measured again, one setting at a time.

    The same command continues with what is not done yet. At the end the host has its old settings again and emulated
    disks are gone, however it ends; after kill -9: the same command, or highwater tune rollback and highwater bench
    storage emulate-hdd remove.

    Exit codes: 0 an answer for every cell; 1 something is undecided or not measured yet; 2 usage error, or refused;
    130 interrupted.
    """
    with one_line_errors():
        from highwater.bench.matrix.study import SHIPPED, read_study
        from highwater.common.errors import UsageError
        from highwater.common.exit_codes import EXIT_INTERRUPTED, EXIT_NO
        from highwater.common.quantities import parse_duration_s
        from highwater.tuning.facts import collect

        chosen = read_study(study or SHIPPED).narrowed(only or (), load or (), disk or ())
        for_s = None if for_ is None else parsed("--for", parse_duration_s, for_)
        facts = collect()
        if plan or out is None or data_dir is None:
            _show_plan(chosen, data_dir, facts, quick=quick)
            if not plan:
                raise UsageError("to measure it, name --out DIR for the results and --data-dir DIR, an empty directory")
            return
        if not quiet:
            _show_plan(chosen, data_dir, facts, quick=quick)
        begun, ended = _carry_out(out, data_dir.absolute(), chosen, facts, quick, seed, for_s, quiet)
        found = _conclude(out, begun)
        if ended == "interrupted":
            raise typer.Exit(EXIT_INTERRUPTED)
        if any(answer.state in ("undecided", "missing") for answer in found.values()):
            raise typer.Exit(EXIT_NO)


def _carry_out(
    out: Path,
    data_dir: Path,
    study: Study,
    facts: Facts,
    quick: bool,
    seed: int | None,
    for_s: float | None,
    quiet: bool,
) -> tuple[Matrix, Ended]:
    import os
    from functools import partial

    from highwater.bench.commands.prove import executing
    from highwater.bench.matrix.disks import opened, require_place
    from highwater.bench.matrix.running import Here, begun_matrix, run_matrix
    from highwater.bench.runs.launchers import LauncherKind
    from highwater.bench.trials.host_profile import restore_after_a_killed_run
    from highwater.common.errors import UsageError
    from highwater.results.run_lock import RunLock
    from highwater.tuning.facts import collect

    if os.geteuid() != 0:
        raise UsageError("a matrix changes settings of the host and makes disks, which takes root: use sudo")
    require_place(study, data_dir, out)
    begun = begun_matrix(out, study, data_dir, facts, quick=quick, seed=seed)
    lock = RunLock.take(out)
    try:
        # First of all: settings that a killed run left would be taken for the host's own.
        for setting in restore_after_a_killed_run(facts):
            typer.echo(f"host profile of a killed run taken back: {setting}", err=True)
        execute = executing(LauncherKind.PROCESS, None, quiet)
        return run_matrix(out, begun, Here(execute, partial(opened, study, data_dir), collect), for_s)
    finally:
        lock.release()


def _show_plan(study: Study, data_dir: Path | None, facts: Facts, *, quick: bool) -> None:
    import tempfile

    from highwater.bench.matrix.disks import Places
    from highwater.bench.matrix.running import first_looks, plan_of
    from highwater.bench.matrix.study import HOST
    from highwater.bench.matrix.subjects import available_on
    from highwater.common.units import plural, wait_text

    settings, loads, disks = len(study.settings), len(study.loads), len(study.disks)
    path = (data_dir or Path(tempfile.gettempdir())).absolute()
    cells = settings * loads * disks
    typer.echo(
        f"{plural(settings, 'setting')} × {plural(loads, 'load')} × {plural(disks, 'disk')} = {plural(cells, 'cell')}"
    )
    whole_s = trials = 0
    for disk in study.disks:
        # Only an emulated disk has both file systems, and it is not there yet.
        emulated = disk != HOST
        available = available_on(study, Places(path, "", emulated, path if emulated else None), facts)
        rounds = first_looks(study, available, disk, 0)
        duration_s = sum(plan_of(item, study, available).duration_s for item in rounds)
        whole_s += duration_s
        trials += sum(len(item.rows) for item in rounds)
        if not rounds:
            typer.echo(f"{disk}: none of these settings can be set here")
            continue
        typer.echo(
            f"{disk}: {plural(len(available.subjects), 'setting')} can be set there, each on in half of "
            f"{plural(len(rounds[0].rows), 'trial')} under each load: about {wait_text(duration_s)}"
        )
    typer.echo(f"first look: about {wait_text(whole_s)}")
    if not quick and whole_s:
        again_s = whole_s / trials * 2 * study.confirming_pairs
        typer.echo(f"then about {wait_text(again_s)} for each cell that seems to differ, to measure it again, alone")


def _conclude(out: Path, matrix: Matrix) -> Mapping[Key, Answer]:
    """Print the answer and write it as CSV."""
    import shlex

    from rich.console import Console
    from rich.markup import escape

    from highwater.bench.matrix import answers, table
    from highwater.bench.matrix.running import answers_with_dummies
    from highwater.bench.matrix.study import load_name, name_of
    from highwater.common.atomic_files import write_atomically
    from highwater.common.figure_table import FigureTable

    found, dummies = answers_with_dummies(out, matrix)
    write_atomically(out / CSV_FILE, table.csv_of(matrix, found, dummies))
    console = Console(highlight=False)
    header, rows = table.grid(matrix, found)
    shown = FigureTable()
    shown.add_names(header[0])
    shown.add_figures(*header[1:], justify="left")
    for row in rows:
        shown.add_row(*map(escape, row))
    settings, loads = matrix.questions.settings, ", ".join(map(load_name, matrix.questions.loads))
    console.print(f"\n[bold]{escape(answers.sentence(settings, found))}[/]", soft_wrap=True)
    for line in (*answers.rest_sentences(settings, found), answers.noise_sentence(dummies)):
        console.print(escape(line), soft_wrap=True)
    shown.print_to(console)
    console.print(escape(f"on each disk: {loads}; {table.legend(found)}"), style="dim", soft_wrap=True)
    for key in table.ordered(matrix, found):
        if found[key].state in answers.MATTERS:
            where = f"{name_of(key.setting)}, {load_name(key.load)} on {key.disk}"
            console.print(escape(f"{where}: {found[key].text}"), soft_wrap=True)
    console.print(escape(f"table: {out / CSV_FILE}"), soft_wrap=True)
    console.print(escape(f"report: highwater report {shlex.quote(str(out))}"), soft_wrap=True)
    return found
