"""`highwater tune rollback`: undo Highwater's changes, except where somebody else changed them since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer
from rich.console import Console

from ...common.exit_codes import EXIT_DAMAGE, EXIT_NO, EXIT_USAGE
from .. import change_status
from .. import rollback as rollback_engine
from ..errors import TuningError
from ..facts.model import Facts
from ..runner import runner_for
from .change_rows import UNACCOUNTED, ChangeRow, change_row, changes_text
from .documents import print_document, print_verbatim
from .options import (
    THIS_HOST,
    JsonOption,
    RootOption,
    ScriptOption,
    YesOption,
    errors_in_one_line,
    facts_of,
    refuse_what_cannot_change,
    report_interruption,
    someone_can_answer,
)
from .printing import console, print_lines
from .scripts import script_of_rollback


@dataclass(frozen=True)
class RollbackDocument:
    dry_run: bool
    restored: tuple[ChangeRow, ...]
    kept: tuple[ChangeRow, ...]
    """Changed by somebody else since, so not restored."""
    problems: tuple[str, ...]
    """What could not be restored; the journal stays."""
    unaccounted: tuple[str, ...]
    """Files of Highwater that are in no journal."""
    schema: Literal["tuning.rollback/1"] = "tuning.rollback/1"


def rollback(
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be restored; change nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also restore what somebody else has changed since.")] = False,
    root: RootOption = THIS_HOST,
    script: ScriptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Restore what was here before apply, and before a benchmark that was killed with a profile in force.

    Asks first, unless --yes is given or there is nothing to restore.

    Exit codes: 0 everything is restored, or there was nothing to restore; 1 later changes of somebody else were left
    alone, or a file of Highwater is in no journal; 2 nothing was changed, as a journal is damaged or a running
    benchmark has a profile in force; 3 something could not be restored, and the journal stays; 130 interrupted, and
    the same command continues.
    """
    with errors_in_one_line():
        facts = facts_of(root)
        if not (dry_run or script):
            refuse_what_cannot_change(root)
            if not yes:
                _ask(facts, force=force, as_json=as_json)
        with report_interruption(facts.files):
            result = rollback_engine.rollback(facts.files, runner_for(root), force=force, dry_run=dry_run or script)
        unaccounted = tuple(change_status.unaccounted(facts.files))
    if script:
        print_verbatim(script_of_rollback(facts, result))
        return
    if as_json:
        restored, kept = tuple(map(change_row, result.restored)), tuple(map(change_row, result.kept))
        print_document(RollbackDocument(dry_run, restored, kept, result.problems, unaccounted))
    else:
        out = console()
        _print_result(out, result, "Would be restored" if dry_run else "Restored")
        print_lines(out, UNACCOUNTED, unaccounted, "red")
        if not (result.restored or result.kept or result.problems or unaccounted):
            out.print("no change by Highwater is in force")
        else:
            out.print(_outcome(result, len(unaccounted), dry_run=dry_run))
    if result.problems:
        raise typer.Exit(EXIT_DAMAGE)
    if result.kept or unaccounted:
        raise typer.Exit(EXIT_NO)


def _ask(facts: Facts, *, force: bool, as_json: bool) -> None:
    """Show what would be restored, and ask. Raises TuningError when nobody can answer."""
    preview = rollback_engine.rollback(facts.files, runner_for(facts.files.root), force=force, dry_run=True)
    if not preview.restored:
        return
    if as_json or not someone_can_answer():
        raise TuningError("rollback asks before it changes anything, and there is no terminal to answer on; add --yes")
    out = console()
    _print_result(out, preview, "Would be restored")
    if not typer.confirm(f"Restore {changes_text(len(preview.restored))}?"):
        out.print("nothing was changed")
        raise typer.Exit(EXIT_USAGE)


def _print_result(out: Console, result: rollback_engine.Rollback, title: str) -> None:
    print_lines(out, title, (held.describe() for held in result.restored), "green")
    title = "Left alone, because it was changed since (--force restores it too)"
    print_lines(out, title, (held.describe() for held in result.kept), "yellow")
    print_lines(out, "Not restored", result.problems, "red")


def _outcome(result: rollback_engine.Rollback, unaccounted: int, *, dry_run: bool) -> str:
    """The last line: how many changes are restored, and how many are not."""
    counts = (
        (len(result.restored), "would be restored" if dry_run else "restored"),
        (len(result.kept), "left alone"),
        (len(result.problems), "not restored"),
    )
    parts = [f"{changes_text(count)} {what}" for count, what in counts if count]
    if unaccounted:
        parts.append(f"{unaccounted} {'file' if unaccounted == 1 else 'files'} in no journal")
    return ", ".join(parts)
