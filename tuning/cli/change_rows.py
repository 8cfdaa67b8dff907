"""How changes in force are printed: each changed thing before Highwater, as applied, and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from ..change_status import ChangeStatus, state_text
from ..steps import SettingStep
from ..three_way import Standing
from .changes import unified_diff
from .printing import Rows, print_lines

STANDING_WORDS: Final[dict[Standing, tuple[str, str]]] = {
    "in_force": ("in force", "green"),
    "back": ("as before", "yellow"),
    "drifted": ("changed since", "yellow"),
    "gone": ("gone", "red"),
}


UNACCOUNTED: Final = (
    "Files of Highwater that are in no journal: the journal was lost, or a printed script wrote the files. Undo the "
    "script, or edit the files by hand: the next boot then no longer applies their settings"
)


@dataclass(frozen=True)
class ChangeRow:
    what: str
    kind: str
    """setting, file, mount or swap."""
    knob: str
    """The id of a setting's knob; empty for anything else."""
    target: str
    original: dict[str, str] | None
    """Its state before Highwater changed it, by the names of its parts; null: it did not exist."""
    ours: dict[str, str] | None
    now: dict[str, str] | None
    restored: dict[str, str] | None
    """Its state after a rollback."""
    standing: Standing
    kept: bool
    """A rollback leaves it alone, because somebody else changed it since."""


def change_row(held: ChangeStatus) -> ChangeRow:
    step = held.step
    knob, target = (step.knob_id, step.target) if isinstance(step, SettingStep) else ("", "")
    what = str(held.resource)
    return ChangeRow(
        what, step.form, knob, target, held.original, held.ours, held.now, held.restored, held.standing, held.kept
    )


def print_change_rows(out: Console, held: Sequence[ChangeStatus]) -> None:
    """Print a row for each change, and for a file that somebody edited since, the diff of that edit."""
    if not held:
        return
    cells = [
        (
            str(one.resource),
            state_text(one.resource, one.original),
            state_text(one.resource, one.now),
            STANDING_WORDS[one.standing][0],
        )
        for one in held
    ]
    rows = Rows(out, ("what", "before", "now", "state"), cells)
    for one, (*texts, word) in zip(held, cells, strict=True):
        is_file = one.resource.kind == "file"
        below = f"applied: {state_text(one.resource, one.ours)}" if one.standing != "in_force" and not is_file else ""
        rows.print([*map(Text, texts), Text(word, style=STANDING_WORDS[one.standing][1])], below)
        if is_file and one.standing == "drifted":
            ours, now = (state["text"] if state else None for state in (one.ours, one.now))
            print_lines(out, "", unified_diff(str(one.resource), ours, now).splitlines())
    out.print()


def changes_text(count: int) -> str:
    return f"{count} {'change' if count == 1 else 'changes'}"
