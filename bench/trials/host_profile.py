"""Applies a host profile for one trial, checks that it holds, and restores the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from highwater.bench.workload.host import Host
from highwater.common.errors import TrialError, UsageError
from highwater.results.models import HostProfileUse, Reason
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect_from
from highwater.tuning.facts.model import Facts
from highwater.tuning.fingerprint import fingerprint
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.profiles.session import (
    SessionPlan,
    begin_session,
    differing,
    end_session,
    plan_session,
    recover_session,
)
from highwater.tuning.runner import runner_for
from highwater.tuning.trades import durability_trades
from highwater.tuning.workload import Workload as HostWorkload


class AppliedProfile:
    """The host as a trial finds it, with a profile in force or without one.

    facts: of the host as it is now. fingerprint: of its settings (`tuning.fingerprint`). durability_trades: what stands
    against crash safety, in words. use: what the summary says of the profile, from `end` on; None without a profile.
    faults: what makes its trial invalid, from `end` on.
    """

    def __init__(self, session: SessionPlan | None, facts: Facts, data_dirs: Sequence[str]) -> None:
        """`facts` are those of the host with the profile in force, if there is one."""
        self.facts = facts
        self.fingerprint, _ = fingerprint(facts)
        self.durability_trades = [str(trade) for trade in durability_trades(facts, data_dirs)]
        self.faults: list[Reason] = []
        self.use: HostProfileUse | None = None
        self._session = session

    def end(self) -> None:
        """Look whether it still holds, and take it back. Raises TrialError when the host cannot be restored."""
        session = self._session
        if session is None:
            return
        found = differing(session, collect_from(self.facts.files))
        _take_back(session, self.facts.files)
        if found:
            self.faults.append(
                Reason(
                    check="host.profile",
                    value=", ".join(found),
                    limit=session.profile,
                    text=f"host profile {session.profile} did not hold until the end of the load: {', '.join(found)}; "
                    "find out what else changes this host's settings",
                )
            )
        self.use = HostProfileUse(
            name=session.profile,
            applied=session.after,
            before=session.before,
            verified=not found,
            rolled_back=True,
        )


@contextmanager
def applied_profile(host: Host, facts: Facts, data_dirs: Sequence[str] = ()) -> Iterator[AppliedProfile]:
    """Have a workload's host settings in force for the body; `data_dirs` give the disks and mounts they are about.

    Raises UsageError when this host does not let them be applied.
    """
    if host.is_left_alone:
        yield AppliedProfile(None, facts, data_dirs)
        return
    files, session = facts.files, _plan(host, facts, data_dirs)
    try:
        begin_session(files, runner_for(files.root), session)
    except TuningError as error:
        raise UsageError(str(error)) from None
    try:
        yield AppliedProfile(session, collect_from(files), data_dirs)
    finally:
        _take_back(session, files)  # once more does no harm


def check_profile(host: Host, facts: Facts, data_dirs: Sequence[str] = ()) -> None:
    """Before a run starts. Raises UsageError when this host does not let a workload's host settings be applied."""
    if not host.is_left_alone:
        _plan(host, facts, data_dirs)


def restore_after_a_killed_run(facts: Facts) -> list[str]:
    """Take back the profile that a killed run left in force; what was restored, a line each.

    Raises UsageError when the run that holds a profile still lives, or the host cannot be restored.
    """
    try:
        return recover_session(facts.files, runner_for(facts.files.root))
    except TuningError as error:
        raise UsageError(str(error)) from None


def _take_back(session: SessionPlan, files: HostFiles) -> None:
    try:
        end_session(files, runner_for(files.root), session)
    except TuningError as error:
        raise TrialError(f"host profile {session.profile}: {error}") from None


def _plan(host: Host, facts: Facts, data_dirs: Sequence[str]) -> SessionPlan:
    try:
        return plan_session(host.as_profile(), facts, HostWorkload(data_dirs=tuple(data_dirs)))
    except TuningError as error:
        raise UsageError(str(error)) from None
