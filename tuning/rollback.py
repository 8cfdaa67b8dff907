"""Rollback: restores every journaled change, last first, unless somebody changed it since.

The next rollback continues one that was killed; changes that are restored already need nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from .change_status import ChangeStatus, status_of, undo_commands
from .errors import TuningError
from .hostfiles import HostFiles
from .journal import (
    APPLIED,
    EARLIER_FOLDER,
    FOLDER,
    SESSION,
    Journal,
    Owner,
    change_lock,
    read_boot_id,
    remove_empty_folders,
    session_of,
)
from .resources import Resources
from .runner import Runner
from .steps import rollback_order


@dataclass(frozen=True)
class Rollback:
    """What a rollback did, or would do."""

    restored: tuple[ChangeStatus, ...] = ()
    kept: tuple[ChangeStatus, ...] = ()
    """Changed by somebody else since, so left alone; the journal stays, so that they can be restored by force."""
    problems: tuple[str, ...] = ()
    """What could not be restored, one line each; the journal stays."""
    commands: tuple[tuple[str, ...], ...] = ()
    """The commands that were run at the end so that files take effect."""

    def __add__(self, other: Rollback) -> Rollback:
        return Rollback(
            self.restored + other.restored,
            self.kept + other.kept,
            self.problems + other.problems,
            self.commands + other.commands,
        )


def rollback(
    files: HostFiles,
    runner: Runner,
    *,
    journals: Sequence[str] = (SESSION, APPLIED),
    owner: Owner | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Rollback:
    """Restore what the journals list.

    owner: the owner of the session, when its own process ends it. force: overwrite later edits of somebody else.
    dry_run: only report what would be done. Raises TuningError, with nothing changed, when a journal is damaged or the
    session's process is still running.
    """
    if not any(files.exists(folder) for folder in (FOLDER, EARLIER_FOLDER)):
        if not dry_run:
            remove_empty_folders(files)
        return Rollback()
    if dry_run:
        return _roll_back_all(files, runner, journals, owner, force=force, dry_run=True)
    with change_lock(files):
        return _roll_back_all(files, runner, journals, owner, force=force, dry_run=False)


def recover(files: HostFiles, runner: Runner) -> Rollback:
    """Roll back the session of a process that has ended. Raises TuningError when the process is still running."""
    return rollback(files, runner, journals=(SESSION,))


def _roll_back_all(
    files: HostFiles, runner: Runner, journals: Sequence[str], owner: Owner | None, *, force: bool, dry_run: bool
) -> Rollback:
    holder, lives = session_of(files)
    if holder is not None and lives and holder != owner:
        raise TuningError(f"the run of process {holder.pid} has host profile {holder.name} in force; wait for its end")
    for journal in journals:
        Journal(files, journal).read()
    done = Rollback()
    for journal in journals:
        done += _roll_back(files, runner, journal, force=force, dry_run=dry_run)
    return done


def _roll_back(files: HostFiles, runner: Runner, path: str, *, force: bool, dry_run: bool) -> Rollback:
    journal, resources = Journal(files, path), Resources(files, runner)
    ledger, boot_id = journal.read(), read_boot_id(files)
    restored: list[ChangeStatus] = []
    kept: list[ChangeStatus] = []
    problems: list[str] = []
    looks = [status_of(resources, outstanding, boot_id, lasts=path == APPLIED) for outstanding in ledger.outstanding]
    for _, change in rollback_order([(change.step, change) for change in looks]):
        if change.kept and force and not change.trouble:
            change = replace(change, restored=change.original, kept=False)
        if change.kept:
            kept.append(change)
            continue
        if change.resource.companions and change.needs_restoring and change.restored is not None:
            change = replace(change, restored={**change.restored, **_restored_companions(change, looks)})
        if not dry_run:
            try:
                if change.resource.companions and change.needs_restoring and change.restored is not None:
                    with suppress(OSError):
                        journal.returning(change.restored)
                if change.resource.kind == "file":
                    files.discard_temporary(change.resource.names[0])
                if change.needs_restoring:
                    resources.change_to(change.resource, change.restored, resources.read(change.resource))
                for folder in reversed(change.folders):
                    files.remove_folder_if_empty(folder)
            except (TuningError, OSError) as error:
                problems.append(str(error))
                continue
            # If this line is lost, the next rollback reads the resource and finds it restored.
            with suppress(OSError):
                journal.restored(change.resource)
        if change.needs_restoring:
            restored.append(change)
    commands = () if runner.absent else tuple(undo_commands(ledger.commands))
    if not dry_run:
        problems += _run_all(runner, commands)
        problems += _close(journal, keep=bool(kept or problems))
    return Rollback(tuple(restored), tuple(kept), tuple(problems), commands)


def _restored_companions(change: ChangeStatus, looks: Sequence[ChangeStatus]) -> dict[str, str]:
    """The final values of settings that the kernel resets with this one and that Highwater changed too."""
    return {
        path: text
        for other in looks
        if other.needs_restoring and other.resource != change.resource
        for path, text in (other.restored or {}).items()
        if path in change.resource.companions
    }


def _run_all(runner: Runner, commands: Sequence[tuple[str, ...]]) -> list[str]:
    completed = [(argv, runner.run(argv)) for argv in commands]
    return [f"`{' '.join(argv)}` failed: {done.complaint}" for argv, done in completed if done.status != 0]


def _close(journal: Journal, *, keep: bool) -> list[str]:
    """Remove the journal, or mark its last run as complete."""
    try:
        if not keep:
            journal.remove()
        elif journal.read().unfinished is not None:
            journal.end()
    except OSError as error:
        return [f"{journal.path} cannot be written ({error.strerror or error})"]
    return []
