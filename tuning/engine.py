"""Applies a plan, all of it or nothing: preflight, journal, write, read back.

When a change fails, the changes before it are rolled back at once. A process that is killed leaves a journal: the next
apply continues from it, or a rollback undoes it. `tuning.rollback` undoes changes, `tuning.change_status` reports them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from .change_status import ChangeStatus, HostStatus, differing, interrupted, original_texts, status, undo_commands
from .errors import PartlyChangedError, TuningError
from .hostfiles import HostFiles
from .journal import APPLIED, ApplyRun, Journal, JournaledChange, Ledger, Owner, change_lock, read_boot_id, session_of
from .resources import Resources
from .rollback import Rollback, recover, rollback
from .runner import Runner
from .steps import (
    CommandStep,
    FileStep,
    RemountStep,
    ResourceState,
    ResourceStep,
    Step,
    SwapOffStep,
    TuningPlan,
    conflicts,
    rollback_order,
)
from .three_way import same_state

__all__ = [
    "Applied",
    "ChangeStatus",
    "HostStatus",
    "Owner",
    "Rollback",
    "apply",
    "check",
    "differing",
    "interrupted",
    "original_texts",
    "recover",
    "rollback",
    "status",
]


@dataclass(frozen=True)
class Applied:
    """What an apply did, one line per step. `skipped`: steps that need a running system, on a captured tree."""

    done: tuple[str, ...]
    skipped: tuple[str, ...]


def apply(files: HostFiles, runner: Runner, plan: TuningPlan, owner: Owner, journal: str = APPLIED) -> Applied:
    """Apply the plan. To continue an apply that was killed, plan again and apply the new plan.

    Raises TuningError when nothing was changed or everything was restored, and PartlyChangedError when only a part was
    restored; the journal then stays for the next rollback.
    """
    if not plan.steps and not interrupted(files, journal):
        return Applied((), ())
    _refuse_conflicts(plan)
    with change_lock(files):
        refuse_beside_a_session(files)
        return _Transaction(files, runner, Journal(files, journal)).apply(plan, owner)


def check(files: HostFiles, runner: Runner, plan: TuningPlan) -> None:
    """Raises TuningError for what keeps `apply` from carrying out the plan on this host; changes nothing."""
    _refuse_conflicts(plan)
    refuse_beside_a_session(files)
    _changes(files, Resources(files, runner), plan.steps)


def _refuse_conflicts(plan: TuningPlan) -> None:
    if problems := list(conflicts(plan.steps)):
        raise TuningError(f"this plan cannot be applied: {'; '.join(problems)}")


def refuse_beside_a_session(files: HostFiles) -> None:
    """Raises TuningError when a benchmark has a profile in force, or was killed and left its profile in force."""
    owner, lives = session_of(files)
    if owner is None:
        return
    if lives:
        raise TuningError(f"the run of process {owner.pid} has host profile {owner.name} in force; wait for its end")
    raise TuningError(
        f"a run that was killed left host profile {owner.name} in force; undo it first: highwater tune rollback"
    )


class _Transaction:
    def __init__(self, files: HostFiles, runner: Runner, journal: Journal) -> None:
        self._files = files
        self._runner = runner
        self._journal = journal
        self._resources = Resources(files, runner)

    def apply(self, plan: TuningPlan, owner: Owner) -> Applied:
        ledger = self._journal.read()
        skipped = tuple(f"{step.describe()}: {self._runner.absent}" for step in plan.steps if self._is_skipped(step))
        steps = [step for step in plan.steps if not self._is_skipped(step)]
        changes = (*_changes(self._files, self._resources, steps), *self._unfinished_commands(ledger, plan))
        if not changes:
            if ledger.unfinished is not None:
                self._write_end()
            return Applied((), skipped)
        self._begin(changes, owner)
        started = 0
        try:
            for number, change in enumerate(changes):
                started = number + 1
                self._journal.done(number, self._carry_out(change))
            self._journal.end()
        except (TuningError, OSError, KeyboardInterrupt) as error:
            self._roll_back(error, changes[:started], was_empty=ledger.is_empty)
        return Applied(tuple(change.step.describe() for change in changes), skipped)

    def _is_skipped(self, step: object) -> bool:
        return bool(self._runner.absent) and isinstance(step, CommandStep | RemountStep | SwapOffStep)

    def _unfinished_commands(self, ledger: Ledger, plan: TuningPlan) -> Iterator[JournaledChange]:
        """Commands that a killed run had announced but not run; the changes that need them are made by now."""
        run = ledger.unfinished
        if run is None or self._runner.absent:
            return
        for number, change in enumerate(run.changes):
            if isinstance(change.step, CommandStep) and number not in run.done and change.step not in plan.steps:
                yield change

    def _begin(self, changes: Sequence[JournaledChange], owner: Owner) -> None:
        run = ApplyRun(
            owner=owner,
            boot_id=read_boot_id(self._files),
            utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            kernel=self._files.read("/proc/sys/kernel/osrelease").text or "",
            changes=tuple(changes),
        )
        try:
            self._journal.begin(run)
        except (OSError, KeyboardInterrupt) as error:
            with suppress(OSError):
                self._journal.retract()
            if isinstance(error, KeyboardInterrupt):
                raise
            raise TuningError(
                f"the journal {self._journal.path} cannot be written ({error.strerror or error}); nothing was changed"
            ) from error

    def _carry_out(self, change: JournaledChange) -> ResourceState:
        """Make one change. Returns the new state when the kernel resets other settings with it, else None.

        Raises TuningError when the change cannot be made.
        """
        if isinstance(change.step, CommandStep):
            done = self._runner.run(change.step.argv)
            if done.status != 0:
                raise TuningError(f"`{' '.join(change.step.argv)}` failed: {done.complaint}")
            return None
        resource = change.step.resource
        self._resources.change_to(resource, change.after, change.before)
        return self._resources.read(resource) if resource.companions else None

    def _write_end(self) -> None:
        try:
            self._journal.end()
        except OSError as error:
            raise TuningError(f"{self._journal.path} cannot be written ({error.strerror or error})") from error

    def _roll_back(self, error: BaseException, changes: Sequence[JournaledChange], *, was_empty: bool) -> NoReturn:
        """Restore what was changed, the last change first, and raise the error for the caller."""
        text = _error_text(error, self._journal.path)
        problems = [
            problem
            for step, change in rollback_order([(change.step, change) for change in changes])
            for problem in self._restore(step, change, failed=change is changes[-1])
        ]
        commands = [change.step for change in changes if isinstance(change.step, CommandStep)]
        for argv in undo_commands(commands):
            done = self._runner.run(argv)
            if done.status != 0:
                problems.append(f"`{' '.join(argv)}` failed: {done.complaint}")
        if not problems:
            try:
                self._journal.remove() if was_empty else self._journal.cancelled()
            except OSError as failure:
                problems.append(f"{self._journal.path} cannot be written ({failure.strerror or failure})")
        if problems:
            raise PartlyChangedError(
                f"{text}; not everything could be put back: {'; '.join(problems)}; then run `highwater tune rollback`"
            ) from error
        if isinstance(error, KeyboardInterrupt):
            raise error
        raise TuningError(f"{text}; everything was put back as it was") from error

    def _restore(self, step: ResourceStep, change: JournaledChange, *, failed: bool) -> Iterator[str]:
        resource = step.resource
        try:
            now = self._resources.read(resource)
            is_there = now is not None or resource.kind == "file"
            # Whatever the failed change left is Highwater's; any other deviation is somebody else's change.
            is_ours = failed or same_state(resource, now, change.after)
            if is_there and is_ours and now != change.before:
                self._resources.change_to(resource, change.before, now)
            for folder in reversed(change.folders):
                self._files.remove_folder_if_empty(folder)
        except TuningError as error:
            yield str(error)
        except OSError as error:
            yield f"{resource}: {error.strerror or error}"


def _changes(files: HostFiles, resources: Resources, steps: Sequence[Step]) -> list[JournaledChange]:
    """The changes to make, each with the state before it. Raises TuningError that lists all obstacles."""
    changes: list[JournaledChange] = []
    problems = resources.obstacles(steps)
    for step in steps:
        if isinstance(step, CommandStep):
            changes.append(JournaledChange(step, None, None))
            continue
        try:
            now = resources.read(step.resource)
            problem = _conflict(step, now)
        except TuningError as error:
            problem = str(error)
        if problem:
            problems.append(problem)
        elif not same_state(step.resource, now, step.states[1]):
            changes.append(_change(step, now, files))
    if problems:
        raise TuningError(f"{'; '.join(problems)}; nothing was changed")
    return changes


def _conflict(step: ResourceStep, now: ResourceState) -> str:
    before, after = step.states
    if same_state(step.resource, now, after) or same_state(step.resource, now, before):
        return ""
    return f"{step.resource} " + ("is not there" if now is None else "was changed since this was planned; plan again")


def _change(step: ResourceStep, now: ResourceState, files: HostFiles) -> JournaledChange:
    """The change to announce: an existing file keeps its mode and owner, missing folders are created."""
    after = step.states[1]
    if not isinstance(step, FileStep):
        return JournaledChange(step, now, after)
    if after is not None:
        after = {**now, **after} if now is not None else {**after, "mode": f"{step.mode:o}"}
    return JournaledChange(step, now, after, files.missing_folders(step.path))


def _error_text(error: BaseException, journal: str) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        return f"{journal} cannot be written ({error.strerror or error})"
    return str(error)
