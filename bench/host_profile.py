"""A host profile in force while a trial runs: applied before, held to, taken back after, and told in the summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.errors import TrialError, UsageError
from bench.results import HostProfileUse, Reason
from bench.workload import NO_PROFILE
from tuning import profile_session
from tuning.errors import TuningError
from tuning.facts import Facts
from tuning.fingerprint import fingerprint
from tuning.profile_session import Change
from tuning.profiles import find_profile
from tuning.workload import Workload as HostWorkload


class AppliedProfile:
    """The host as a trial finds it, with a profile in force or without one.

    fingerprint: of its settings (`tuning.fingerprint`). use: what the summary says of the profile, from `end` on; None
    without a profile. faults: what makes its trial invalid, from `end` on.
    """

    def __init__(self, name: str, facts: Facts, changes: list[Change]) -> None:
        self.fingerprint, _ = fingerprint(facts)
        self.faults: list[Reason] = []
        self._name = name
        self._facts = facts
        self._changes = changes
        self._in_force = name != NO_PROFILE
        self.use: HostProfileUse | None = None

    def end(self) -> None:
        """Look whether it still holds, and take it back. Raises TrialError when the host cannot be restored."""
        if not self._in_force:
            return
        differing = profile_session.differing(self._facts.files, self._changes)
        self._take_back()
        if differing:
            self.faults.append(
                Reason(
                    check="host.profile",
                    value=", ".join(differing),
                    limit=self._name,
                    text=f"host profile {self._name} did not hold until the end of the load: {', '.join(differing)}; "
                    "find out what else changes this host's settings",
                )
            )
        self.use = HostProfileUse(
            name=self._name,
            applied={change.name: change.after for change in self._changes},
            before={change.name: change.before for change in self._changes},
            verified=not differing,
            rolled_back=True,
        )

    def _take_back(self) -> None:
        self._in_force = False
        try:
            profile_session.roll_back(self._facts.files)
        except TuningError as error:
            raise TrialError(f"host profile {self._name}: {error}") from None

    def close(self) -> None:
        """Take it back if that has not been done."""
        if self._in_force:
            self._take_back()


@contextmanager
def applied_profile(name: str, facts: Facts) -> Iterator[AppliedProfile]:
    """Apply a profile for the body. Raises UsageError when this host does not let it be applied."""
    changes: list[Change] = []
    if name != NO_PROFILE:
        changes = _plan(name, facts)
        try:
            profile_session.recover(facts.files)
            profile_session.apply_profile(facts.files, name, changes)
        except TuningError as error:
            raise UsageError(str(error)) from None
    profile = AppliedProfile(name, facts, changes)
    try:
        yield profile
    finally:
        profile.close()


def check_profile(name: str, facts: Facts) -> None:
    """Before a run starts. Raises UsageError when the profile is unknown or this host does not let it be applied."""
    if name != NO_PROFILE:
        _plan(name, facts)


def restore_after_a_killed_run(facts: Facts) -> list[str]:
    """Take back the profile that a killed run left in force; what was restored, as `name = value`.

    Raises UsageError when the run that holds a profile still lives, or the host cannot be restored.
    """
    try:
        return [f"{change.name} = {change.before}" for change in profile_session.recover(facts.files)]
    except TuningError as error:
        raise UsageError(str(error)) from None


def _plan(name: str, facts: Facts) -> list[Change]:
    try:
        return profile_session.plan_profile(find_profile(name), facts, HostWorkload())
    except TuningError as error:
        raise UsageError(str(error)) from None
