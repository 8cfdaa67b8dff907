"""Carries a plan out, and takes it back: preflight, journal, write, read back; three-way rollback; status.

Either all of a plan is in force or none of it: when a change fails, those before it are taken back at once. A process
that is killed leaves a journal from which the next run goes on or goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from .hostfiles import HostFiles
from .journal import APPLIED, SESSION, Owner
from .runner import Runner
from .steps import Plan, Resource, State, Step


@dataclass(frozen=True)
class Applied:
    """What an apply did, a line each. `skipped`: commands that a captured tree has no system for."""

    done: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Rollback:
    """What a rollback did, a line each."""

    restored: tuple[str, ...]
    kept: tuple[str, ...]
    """Changed by somebody else since, and left as it is."""
    problems: tuple[str, ...]
    """Could not be restored; the journal stays."""


@dataclass(frozen=True)
class Held:
    """Something that we changed, three ways."""

    resource: Resource
    knob_id: str
    target: str
    original: State
    ours: State
    now: State
    standing: Literal["ours", "original", "changed since", "gone"]


@dataclass(frozen=True)
class Status:
    """What of ours is in force, from the journals alone."""

    owner: Owner | None
    """Of the last apply; None when nothing is applied."""
    applied_utc: str
    booted_since: bool
    interrupted: str
    """What a run that did not come to its end left, and the way out; empty when there is none."""
    held: tuple[Held, ...]
    session: Owner | None
    """Of a benchmark that has a profile in force."""
    session_lives: bool
    session_held: tuple[Held, ...]


def apply(files: HostFiles, runner: Runner, plan: Plan, owner: Owner, journal: str = APPLIED) -> Applied:
    """Make the host as planned. An apply that was killed is gone on with by making a plan again and applying that.

    Raises TuningError when nothing was changed, or everything was taken back again; PartlyChangedError when the host is
    left between the two, with the journal holding the way back.
    """
    raise NotImplementedError


def rollback(
    files: HostFiles,
    runner: Runner,
    *,
    journals: Sequence[str] = (SESSION, APPLIED),
    force: bool = False,
    dry_run: bool = False,
) -> Rollback:
    """Put back what the journals say, the last change first. `force`: also over later edits of somebody else.

    Raises TuningError, with nothing changed, when a journal is damaged or the session's process still lives.
    """
    raise NotImplementedError


def recover(files: HostFiles, runner: Runner) -> Rollback:
    """Take back the session of a process that is no more. Raises TuningError when it lives."""
    raise NotImplementedError


def status(files: HostFiles) -> Status:
    """Raises TuningError when a journal is damaged."""
    raise NotImplementedError


def interrupted(files: HostFiles) -> str:
    """What a run that did not come to its end left, and the way out; empty when there is none."""
    raise NotImplementedError


def originals(files: HostFiles) -> dict[str, str]:
    """Of every setting that is ours: its path, and its text before us. For judging what a host is without us."""
    raise NotImplementedError


def differing(files: HostFiles, steps: Iterable[Step]) -> list[str]:
    """The settings that do not have the value of these steps just now, as `name is 'value'`."""
    raise NotImplementedError
