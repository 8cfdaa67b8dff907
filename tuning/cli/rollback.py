"""`highwater tune rollback`: take back what is ours, and leave alone what somebody else changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from .. import holdings
from .. import rollback as way_back
from ..runner import runner_for
from .documents import print_document, print_verbatim
from .exit_codes import CHANGED_IN_PART, DIFFERS
from .held import UNACCOUNTED, HeldRow, row_of
from .options import (
    THIS_HOST,
    JsonOption,
    RootOption,
    ScriptOption,
    facts_of,
    interruptions_told,
    mistakes_in_one_line,
    refuse_what_cannot_change,
)
from .printing import console, print_lines
from .scripts import script_of_rollback


@dataclass(frozen=True)
class RollbackDocument:
    dry_run: bool
    restored: tuple[HeldRow, ...]
    kept: tuple[HeldRow, ...]
    """Changed by somebody else since, and left as it is."""
    problems: tuple[str, ...]
    """Could not be restored; the journal stays."""
    unaccounted: tuple[str, ...]
    """Files that bear our mark, and that no journal knows."""
    schema: Literal["tuning.rollback/1"] = "tuning.rollback/1"


def rollback(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be put back, and do nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Put back also what somebody else changed since.")] = False,
    root: RootOption = THIS_HOST,
    script: ScriptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Put back what was here before apply, and before a benchmark that was killed with a profile in force.

    Exit codes: 0 everything is back, or there is nothing to put back; 1 later changes of somebody else were left alone,
    or no journal knows a file of ours; 2 a damaged journal, or a benchmark that lives holds the host, and nothing was
    changed; 3 something could not be put back, and the journal stays; 130 interrupted, and the same command goes on.
    """
    with mistakes_in_one_line():
        facts = facts_of(root)
        if not (dry_run or script):
            refuse_what_cannot_change(root)
        with interruptions_told(facts.files):
            result = way_back.rollback(facts.files, runner_for(root), force=force, dry_run=dry_run or script)
        unaccounted = tuple(holdings.unaccounted(facts.files))
    if script:
        print_verbatim(script_of_rollback(facts, result))
        return
    if as_json:
        restored, kept = tuple(map(row_of, result.restored)), tuple(map(row_of, result.kept))
        print_document(RollbackDocument(dry_run, restored, kept, result.problems, unaccounted))
    else:
        out = console()
        title = "Would be put back" if dry_run else "Put back"
        print_lines(out, title, (held.describe() for held in result.restored), "green")
        title = "Left alone, as somebody changed it since (--force puts it back too)"
        print_lines(out, title, (held.describe() for held in result.kept), "yellow")
        print_lines(out, "Not put back", result.problems, "red")
        print_lines(out, UNACCOUNTED, unaccounted, "red")
        if not (result.restored or result.kept or result.problems or unaccounted):
            out.print("nothing of ours is in force")
    if result.problems:
        raise typer.Exit(CHANGED_IN_PART)
    if result.kept or unaccounted:
        raise typer.Exit(DIFFERS)
