"""Status of Highwater's changes on a host: the journals compared with the current state; reads only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from .boot_files.managed_files import marked_files
from .errors import TuningError
from .hostfiles import HostFiles
from .journal import APPLIED, SESSION, Journal, OutstandingChange, Owner, read_boot_id, session_of
from .resources import Resources
from .runner import CapturedTreeRunner
from .steps import (
    MOUNT_LAYERS,
    CommandStep,
    Resource,
    ResourceState,
    ResourceStep,
    SettingStep,
    Step,
    setting_name,
)
from .three_way import Standing, compare, normalized

# A boot resets these: their state afterwards is how this host boots, and no later edit by somebody.
_OF_ONE_BOOT: Final = frozenset({"setting", "mount", "superblock", "swap"})


@dataclass(frozen=True)
class ChangeStatus:
    """One resource that Highwater changed: its original, applied and current state."""

    step: ResourceStep
    """The last step that changed it."""
    original: ResourceState
    ours: ResourceState
    now: ResourceState
    standing: Standing
    restored: ResourceState
    """The state after a rollback."""
    kept: bool
    """A rollback leaves it alone, because somebody else's change cannot be separated from Highwater's."""
    folders: tuple[str, ...] = ()
    """Folders that were created for its file, the outermost first."""
    trouble: str = ""
    """Why it cannot be read."""

    @property
    def resource(self) -> Resource:
        return self.step.resource

    @property
    def needs_restoring(self) -> bool:
        return self.restored != self.now and not self.kept

    def describe(self) -> str:
        """One line: what a rollback does to it, or why it leaves it alone."""
        if self.trouble:
            return self.trouble
        now, ours, original = (state_text(self.resource, state) for state in (self.now, self.ours, self.original))
        if self.kept:
            return f"{self.resource} was changed since: now {now}, applied {ours}, before {original}"
        if not self.needs_restoring:
            return f"{self.resource} is {now}" + (", as before" if self.standing == "back" else "")
        if self.resource.kind == "file":
            verb = "remove" if self.restored is None else "create" if self.now is None else "restore"
            return f"{verb} {self.resource}" + (", keeping later edits" if self.standing == "drifted" else "")
        return f"{self.resource}: {now} -> {state_text(self.resource, self.restored)}"


@dataclass(frozen=True)
class HostStatus:
    """All changes of Highwater on a host."""

    owner: Owner | None
    """The owner of the last apply; None when nothing is applied."""
    applied_utc: str
    booted_since: bool
    interrupted: str
    """The state that an interrupted run left, with the remedy; empty when no run was interrupted."""
    changes: tuple[ChangeStatus, ...]
    session: Owner | None
    """The benchmark that has a profile in force."""
    session_lives: bool
    session_changes: tuple[ChangeStatus, ...]
    unaccounted: tuple[str, ...] = ()
    """Files of Highwater that are in no journal."""


def status(files: HostFiles) -> HostStatus:
    """Raises TuningError when a journal is damaged."""
    runs = Journal(files, APPLIED).read().runs
    session, session_lives = session_of(files)
    return HostStatus(
        owner=runs[-1].owner if runs else None,
        applied_utc=runs[-1].utc if runs else "",
        booted_since=bool(runs) and runs[-1].boot_id != read_boot_id(files),
        interrupted=interrupted(files),
        changes=tuple(change_statuses(files, APPLIED)),
        session=session,
        session_lives=session_lives,
        session_changes=tuple(change_statuses(files, SESSION)),
        unaccounted=tuple(unaccounted(files)),
    )


def unaccounted(files: HostFiles) -> list[str]:
    """Paths of Highwater's files that are in no journal. Raises TuningError when a journal is damaged."""
    known = {
        path
        for journal in (APPLIED, SESSION)
        for change in Journal(files, journal).read().outstanding
        if change.resource.kind == "file"
        for path in change.resource.names
    }
    return [path for path in marked_files(files) if path not in known]


def change_statuses(files: HostFiles, journal: str) -> Iterator[ChangeStatus]:
    """The status of every change, in the order of the first changes."""
    resources, boot_id = Resources(files, CapturedTreeRunner()), read_boot_id(files)
    for change in Journal(files, journal).read().outstanding:
        yield status_of(resources, change, boot_id, lasts=journal == APPLIED)


def status_of(resources: Resources, change: OutstandingChange, boot_id: str, *, lasts: bool) -> ChangeStatus:
    """lasts: whether the change persists over a reboot. Other changes end with the boot in which they were made."""
    try:
        now = resources.read(change.resource)
    except TuningError as error:
        return ChangeStatus(
            change.step,
            change.original,
            change.ours[0],
            None,
            "drifted",
            None,
            kept=True,
            trouble=str(error),
        )
    if change.returning is not None and change.boot_id == boot_id and now is not None:
        wanted = {path: text for path, text in change.returning.items() if path in now}
        return ChangeStatus(change.step, change.original, change.ours[0], now, "in_force", wanted, kept=False)
    found = compare(change.resource, change.original, change.ours, now)
    restored, kept = found.restored, found.standing == "drifted" and not found.separable
    if change.resource.kind in _OF_ONE_BOOT and change.boot_id != boot_id and (kept or not lasts):
        restored, kept = now, False
    if found.standing in ("back", "gone"):
        restored = now
    return ChangeStatus(
        change.step,
        change.original,
        change.ours[0],
        now,
        found.standing,
        restored,
        kept,
        folders=change.folders,
    )


def interrupted(files: HostFiles, journal: str = APPLIED) -> str:
    """The state that an interrupted run left, with the remedy; empty when no run was interrupted."""
    run = Journal(files, journal).read().unfinished
    if run is None:
        return ""
    if run.boot_id == read_boot_id(files) and run.owner.lives(files):
        return f"process {run.owner.pid} ({run.owner.name}) is running now"
    return (
        f"{run.owner.name} of {run.utc} ended after {len(run.done)} of {len(run.changes)} changes; continue with "
        "`highwater tune apply`, or undo with `highwater tune rollback`"
    )


def original_texts(files: HostFiles) -> dict[str, str | None]:
    """The texts of all changed settings and files before Highwater changed them, by path."""
    return {
        path: change.original.get(path if change.resource.kind == "setting" else "text") if change.original else None
        for change in Journal(files, APPLIED).read().outstanding
        if change.resource.kind in ("setting", "file")
        for path in change.resource.names
    }


def differing(files: HostFiles, steps: Iterable[Step]) -> list[str]:
    """The settings that do not have the value of these steps now, as `name is 'value'`."""
    wanted = {
        path: text for step in steps if isinstance(step, SettingStep) for path, text in (step.states[1] or {}).items()
    }
    found = ((path, text, normalized(path, files.read(path).text or "")) for path, text in wanted.items())
    return [f"{setting_name(path)} is {now!r}" for path, text, now in found if now != normalized(path, text)]


def state_text(resource: Resource, state: ResourceState) -> str:
    if state is None:
        return "not there"
    if resource.kind == "file":
        return f"a file of {len(state['text'].splitlines())} lines"
    if resource.kind in MOUNT_LAYERS:
        return state["options"]
    if resource.kind == "swap":
        return "in use" if state["in_use"] == "yes" else "not in use"
    texts = {path: normalized(path, state[path]) for path in resource.names}
    if len(texts) == 1:
        return texts[resource.names[0]]
    # A pair is described by its member that is not 0.
    telling = [path for path, text in texts.items() if text != "0"] or list(texts)[:1]
    return " and ".join(f"{setting_name(path)} = {texts[path]}" for path in telling)


def undo_commands(commands: Iterable[CommandStep]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(command.undo_argv for command in commands if command.undo_argv))
