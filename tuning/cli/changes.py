"""Prints a plan: a row for each change, a diff for each file, pending effects, warnings."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from ..hostfiles import readable
from ..steps import CommandStep, FileStep, RemountStep, SettingStep, Step, SwapOffStep, TuningPlan, setting_name
from .printing import Rows, print_asks, print_limited, print_lines, targets_text

_MOST_WARNINGS: Final = 12


@dataclass(frozen=True)
class Change:
    kind: str
    """setting, file, mount, swap or command."""
    what: str
    """The setting's name, the file's path, the mount point, the swap device or the command."""
    before: str | None
    """None: it does not exist yet."""
    after: str | None
    """None: the change removes it."""
    knob: str
    target: str
    why: str


@dataclass(frozen=True)
class FileDiff:
    path: str
    diff: str
    """Unified."""


def changes_of(steps: Sequence[Step]) -> tuple[Change, ...]:
    return tuple(_change(step) for step in steps)


def diffs_of(steps: Sequence[Step]) -> tuple[FileDiff, ...]:
    return tuple(
        FileDiff(step.path, unified_diff(step.path, step.before, step.after))
        for step in steps
        if isinstance(step, FileStep)
    )


def unified_diff(path: str, before: str | None, after: str | None) -> str:
    """The text of `diff -u`; /dev/null stands for a file that does not exist."""
    texts = ((before or "").splitlines(keepends=True), (after or "").splitlines(keepends=True))
    names = ("/dev/null" if before is None else path, "/dev/null" if after is None else path)
    lines = difflib.unified_diff(*texts, *names)
    whole = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return readable("".join(whole))


def print_plan(out: Console, plan: TuningPlan) -> None:
    """Print the changes to the running system, the diffs of files, the commands, and the notes."""
    rows = changes_of(plan.steps)
    _print_live(out, plan, [row for row in rows if row.kind in ("setting", "mount", "swap")])
    for file in diffs_of(plan.steps):
        print_diff(out, file.diff)
    commands = [f"{row.what}: {row.why}" if row.why else row.what for row in rows if row.kind == "command"]
    print_lines(out, "Commands", commands)
    print_notes(out, plan)


def _print_live(out: Console, plan: TuningPlan, changes: Sequence[Change]) -> None:
    """Print one row for all disks, queues or mounts that change in the same way."""
    if not changes:
        return
    alike: dict[tuple[str, ...], list[Change]] = {}
    for one in changes:
        name = one.knob or ("mount options" if one.kind == "mount" else one.what)
        alike.setdefault((name, one.before or "–", one.after or "–"), []).append(one)
    words = {(one.id, one.target): f"{one.current_text} → {one.recommended_text}" for one in plan.reports if one.unit}
    table = Rows(out, ("now", "before", "after"), alike)
    for (name, before, after), group in alike.items():
        in_units = words.get((group[0].knob, group[0].target), "")
        plainly = "" if in_units in ("", f"{before} → {after}") else in_units
        targets = targets_text([one.target or one.what for one in group if one.target or one.what != name])
        below = "; ".join(part for part in (targets, plainly, group[0].why) if part)
        table.print([Text(name), Text(before), Text(after, style="green")], below)
    out.print()


def print_diff(out: Console, diff: str) -> None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.splitlines():
        header = line.startswith(("+++", "---"))
        out.print(Text(line, style="bold" if header else styles.get(line[:1], "")), soft_wrap=True)
    out.print()


def print_notes(out: Console, plan: TuningPlan) -> None:
    print_limited(out, plan.reports)
    print_lines(out, "Takes effect after a restart or a reboot", plan.pending)
    print_lines(out, "Warnings", plan.warnings, "yellow", most=_MOST_WARNINGS)
    print_asks(out, plan.reports)


def count_text(steps: Sequence[Step]) -> str:
    """What a plan changes, as a phrase: `3 settings, 2 files`."""
    counted = (
        (SettingStep, "setting", "settings"),
        (FileStep, "file", "files"),
        (RemountStep, "mount", "mounts"),
        (SwapOffStep, "swap device", "swap devices"),
    )
    found = ((sum(isinstance(step, kind) for step in steps), one, several) for kind, one, several in counted)
    return ", ".join(f"{count} {one if count == 1 else several}" for count, one, several in found if count)


def _change(step: Step) -> Change:
    match step:
        case SettingStep():
            name = setting_name(step.path)
            return Change(step.form, name, step.before, step.after, step.knob_id, step.target, _twin_text(step))
        case FileStep():
            return Change(step.form, step.path, step.before, step.after, "", "", step.why)
        case RemountStep():
            return Change(step.form, step.mount_point, ",".join(step.gone), ",".join(step.new), "", "", "")
        case SwapOffStep():
            return Change(step.form, step.device, "in use", "not in use", "swap.devices", step.device, "")
        case CommandStep():
            return Change(step.form, " ".join(step.argv), None, None, "", "", step.why)


def _twin_text(step: SettingStep) -> str:
    if step.twin_path is None or step.twin_before in (None, "0"):
        return ""
    return f"instead of {setting_name(step.twin_path)} = {step.twin_before}, which becomes 0"
