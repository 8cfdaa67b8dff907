"""Output of `--script`: a plan or a rollback as a shell script, with a header that explains it."""

from __future__ import annotations

from collections.abc import Iterable

from .. import engine
from ..facts.model import Facts
from ..rollback import Rollback
from ..runner import runner_for
from ..script import SAVED, StateChange, commands_of, render_script, state_changes_of
from ..steps import CommandStep, TuningPlan

_USAGE = (
    "",
    "Run it as root: sh THIS-FILE. It stops before its first change if anything has changed since it was written.",
    f"It keeps the old texts below {SAVED}. To undo: sh THIS-FILE undo.",
    "`highwater tune rollback` does not undo it. HIGHWATER_ROOT=DIR makes it change the tree below DIR.",
)


def script_of_plan(facts: Facts, plan: TuningPlan) -> str:
    """A script that does what apply would do. Raises TuningError for a plan that apply would refuse."""
    engine.check(facts.files, runner_for(facts.files.root), plan)
    notes = [*(f"Warning: {text}" for text in plan.warnings), *(f"Afterwards: {text}" for text in plan.pending)]
    head = _head(facts, "What `highwater tune apply` would do", notes)
    return render_script(head, state_changes_of(plan.steps), commands_of(plan.steps), _mount_sources(facts))


def script_of_rollback(facts: Facts, preview: Rollback) -> str:
    """A script that does what rollback would do, from the result of a dry run."""
    moves = [StateChange(held.resource, held.now, held.restored) for held in preview.restored]
    undone = [CommandStep(argv, argv, "") for argv in preview.commands]
    head = _head(facts, "What `highwater tune rollback` would do", [held.describe() for held in preview.kept])
    return render_script(head, moves, undone, _mount_sources(facts), beside_session=True)


def _head(facts: Facts, what: str, notes: Iterable[str]) -> tuple[str, ...]:
    host = f"{facts.operating_system or 'an unknown system'}, kernel {facts.kernel_release or '?'}"
    return (f"{what} on this host: {host}.", *(" ".join(note.split()) for note in notes), *_USAGE)


def _mount_sources(facts: Facts) -> dict[str, str]:
    return {mount.mount_point: mount.source for mount in facts.mounts}
