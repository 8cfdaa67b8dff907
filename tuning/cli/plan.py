"""`highwater tune plan`: show the changes that apply would make, without making them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import typer

from ...common.command_options import with_options
from ...common.exit_codes import EXIT_NO
from ..check import limited
from ..steps import TuningPlan
from .changes import Change, FileDiff, changes_of, count_text, diffs_of, print_notes, print_plan
from .documents import print_document, print_verbatim
from .options import (
    ChangeOptions,
    JsonOption,
    ScriptOption,
    errors_in_one_line,
)
from .printing import console, describe_host, fate_texts
from .request import tuning_request
from .scripts import script_of_plan


@dataclass(frozen=True)
class PlanDocument:
    changes: tuple[Change, ...]
    """The changes in the order in which `apply` would make them."""
    files: tuple[FileDiff, ...]
    pending: tuple[str, ...]
    warnings: tuple[str, ...]
    limited: tuple[str, ...]
    """Knobs that are changed although something else limits their effect now, and what does."""
    schema: Literal["tuning.plan/1"] = "tuning.plan/1"


@with_options
def plan(
    *,
    options: ChangeOptions,
    script: ScriptOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what apply would change, now and in which files; changes nothing.

    Exit codes: 0 nothing would change, 1 something would, 2 usage error.
    """
    with errors_in_one_line():
        wanted = tuning_request(options)
        made = wanted.plan()
        text = script_of_plan(wanted.facts, made) if script else ""
    if script:
        print_verbatim(text)
    elif as_json:
        few = tuple(f"{report.name}: {report.binding}" for report in limited(made.reports))
        document = PlanDocument(changes_of(made.steps), diffs_of(made.steps), made.pending, made.warnings, few)
        print_document(document)
    else:
        out = console()
        out.print(describe_host(wanted.facts), end="\n\n")
        if made.changes_anything:
            print_plan(out, made)
            out.print(f"To apply it: highwater tune apply{wanted.arguments}", soft_wrap=True)
            out.print(f"{count_text(made.steps)} would change{_beside(made)}")
        else:
            print_notes(out, made)
            out.print(f"nothing would change{_beside(made)}")
    if made.changes_anything:
        raise typer.Exit(EXIT_NO)


def _beside(plan: TuningPlan) -> str:
    """What `check` counts too: changes without effect for now, and differences that stay."""
    return "".join(f"; {text}" for text in fate_texts(plan.reports) if text)
