"""What `--script` prints: a plan, or the way back, as a shell script with a head that says what it is for."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts import Facts
from ..rollback import Rollback
from ..script import Move, commands_of, moves_of, render_script
from ..steps import CommandStep, Plan

_USAGE = (
    "",
    "Run it as root: sh THIS-FILE. It stops before its first change unless everything is as it was when it was",
    "written, and keeps the old texts below /var/lib/highwater/tuning/by-script. The way back: sh THIS-FILE undo.",
    "`highwater tune rollback` knows nothing of it. HIGHWATER_ROOT=DIR makes it change the tree below DIR.",
)


def script_of_plan(facts: Facts, plan: Plan) -> str:
    """What apply would do."""
    notes = [*(f"Warning: {text}" for text in plan.warnings), *(f"Afterwards: {text}" for text in plan.pending)]
    head = _head(facts, "What `highwater tune apply` would do", notes)
    return render_script(head, moves_of(plan.steps), commands_of(plan.steps), _mount_sources(facts))


def script_of_rollback(facts: Facts, preview: Rollback) -> str:
    """What rollback would do, by what a dry run of it said."""
    moves = [Move(held.resource, held.now, held.restored) for held in preview.restored]
    undone = [CommandStep(argv, argv, "") for argv in preview.commands]
    head = _head(facts, "What `highwater tune rollback` would do", [held.describe() for held in preview.kept])
    return render_script(head, moves, undone, _mount_sources(facts))


def _head(facts: Facts, what: str, notes: Iterable[str]) -> tuple[str, ...]:
    host = f"{facts.operating_system or 'an unknown system'}, kernel {facts.kernel_release or '?'}"
    return (f"{what} on this host: {host}.", *(" ".join(note.split()) for note in notes), *_USAGE)


def _mount_sources(facts: Facts) -> dict[str, str]:
    return {mount.mount_point: mount.source for mount in facts.mounts}
