"""`highwater tune apply`: make the changes of the plan, so that rollback can undo them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

import typer

from ...common.command_options import with_options
from ...common.exit_codes import EXIT_USAGE
from .. import engine
from ..errors import TuningError
from ..journal import Owner
from ..rollback import recover
from ..runner import runner_for
from .change_rows import changes_text
from .changes import count_text, print_notes, print_plan
from .documents import print_document, print_verbatim
from .options import (
    THIS_HOST,
    ChangeOptions,
    JsonOption,
    ScriptOption,
    YesOption,
    errors_in_one_line,
    refuse_what_cannot_change,
    report_interruption,
    someone_can_answer,
)
from .printing import console, describe_host, print_lines
from .request import TuningRequest, tuning_request
from .scripts import script_of_plan


@dataclass(frozen=True)
class ApplyDocument:
    done: tuple[str, ...]
    skipped: tuple[str, ...]
    """Commands that were not run, because --root names a captured tree and not a running system."""
    pending: tuple[str, ...]
    warnings: tuple[str, ...]
    schema: Literal["tuning.apply/1"] = "tuning.apply/1"


@with_options
def apply(
    *,
    yes: YesOption = False,
    options: ChangeOptions,
    script: ScriptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Apply the planned changes. They are journaled, written and read back; either all take effect or none do.

    Exit codes: 0 done, or nothing to do; 2 usage error, or refused or failed with nothing changed; 3 failed
    part-way; run `highwater tune rollback` to restore the previous state; 130 interrupted.
    """
    with errors_in_one_line():
        wanted = tuning_request(options)
        if script:
            print_verbatim(script_of_plan(wanted.facts, wanted.plan()))
            return
        refuse_what_cannot_change(options.root)
        if not yes and (as_json or not someone_can_answer()):
            raise TuningError("apply asks before it changes anything, and there is no terminal to answer on; add --yes")
        _apply(wanted, ask=not yes, as_json=as_json)


def _apply(wanted: TuningRequest, *, ask: bool, as_json: bool) -> None:
    files = wanted.facts.files
    runner = runner_for(files.root)
    recover(files, runner)
    plan = wanted.plan()
    out = console()
    if not as_json:
        out.print(describe_host(wanted.facts), end="\n\n")
    if plan.changes_anything:
        if not as_json:
            print_plan(out, plan)
        if ask and not typer.confirm(f"Change {count_text(plan.steps)}?"):
            out.print("nothing was changed")
            raise typer.Exit(EXIT_USAGE)
    elif not as_json:
        print_notes(out, plan)
    # Also for a plan without steps: an apply that was killed may have left commands to run and an open journal.
    with report_interruption(files):
        applied = engine.apply(files, runner, plan, Owner.this_process(files, "highwater tune apply"))
    if as_json:
        print_document(ApplyDocument(applied.done, applied.skipped, plan.pending, plan.warnings))
        return
    print_lines(out, "Done", applied.done, "green")
    print_lines(out, "Not run", applied.skipped)
    if applied.done:
        there = "" if files.root == THIS_HOST else f" --root {shlex.quote(str(files.root))}"
        out.print(f"To verify exactly what was applied: highwater tune verify{there}", soft_wrap=True)
        out.print(f"To undo it: highwater tune rollback{there}", soft_wrap=True)
        skipped = f", {len(applied.skipped)} not run" if applied.skipped else ""
        out.print(f"applied: {changes_text(len(applied.done))} made{skipped}")
    else:
        out.print("nothing to change")
