"""A session: a profile that a benchmark has in force temporarily, from plan to rollback.

The session's journal names its process, so that a later run can roll back what a killed process left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .. import engine
from ..check import KnobReport, evaluate
from ..errors import TuningError
from ..facts.model import Facts
from ..facts.reading import value_of
from ..hostfiles import HostFiles
from ..journal import SESSION, Owner
from ..model import Knob
from ..planning import make_plan
from ..planning.draft import PlanOptions
from ..runner import Runner
from ..steps import RemountStep, SettingStep, TuningPlan, setting_name
from ..workload import Workload
from . import knobs_of, temporary_knobs, wishes_of
from .model import Profile


@dataclass(frozen=True)
class SessionPlan:
    """The changes of a profile on this host. `settled`: its settings that have their value already, path to text."""

    profile: str
    plan: TuningPlan
    settled: Mapping[str, str]

    @property
    def before(self) -> dict[str, str]:
        """All settings of the profile without the profile, by their names for people."""
        return {name: before for name, before, _ in self._values()}

    @property
    def after(self) -> dict[str, str]:
        return {name: after for name, _, after in self._values()}

    def _values(self) -> Iterator[tuple[str, str, str]]:
        for path, text in self.settled.items():
            yield setting_name(path), text, text
        for step in self.plan.steps:
            if isinstance(step, SettingStep):
                yield setting_name(step.path), step.before, step.after
                if step.twin_path is not None:
                    yield setting_name(step.twin_path), step.twin_before or "0", "0"
            elif isinstance(step, RemountStep):
                yield f"{step.layer} {step.mount_point}", ",".join(step.before_options), ",".join(step.after_options)


def plan_session(profile: Profile, facts: Facts, workload: Workload) -> SessionPlan:
    """Plan a profile on this host; writes nothing. Raises TuningError that lists all knobs that cannot be set.

    Mount options are changed only where the profile names them, as a remount affects all users of a file system.
    """
    wishes = wishes_of(profile)
    knobs = tuple(
        knob
        for knob in temporary_knobs(knobs_of(profile))
        if knob.id in wishes or knob.mechanism in ("sysctl", "sysfs")
    )
    problems: list[str] = []
    differing: set[str] = set()
    settled: dict[str, str] = {}
    reports = evaluate(facts, workload, knobs)
    for knob in knobs:
        of_knob = [report for report in reports if report.id == knob.id]
        usable = [report for report in of_knob if report.state in ("ok", "differs")]
        wish = wishes.get(knob.id)
        if wish is not None and not wish.where_present and not usable:
            problems += [f"{report.name}: {report.note}" for report in of_knob]
        for report in usable:
            if report.state == "differs":
                differing.add(knob.id)
                if report.obstacle:
                    problems.append(f"{report.name} {report.obstacle}")
            elif wish is not None:
                settled |= _settled(knob, report, facts.files)
    plan = TuningPlan(())
    if not problems:
        chosen = [knob for knob in knobs if knob.id in differing]
        plan = make_plan(facts, workload, chosen, PlanOptions(persist=False))
        problems += _not_permitted(plan, facts.files)
    if problems:
        raise TuningError(f"host profile {profile.name} cannot be applied: {'; '.join(problems)}")
    return SessionPlan(profile.name, plan, settled)


def begin_session(files: HostFiles, runner: Runner, session: SessionPlan) -> None:
    """Apply the profile, after rolling back what a killed run left. Raises TuningError with nothing changed."""
    recover_session(files, runner)
    try:
        engine.apply(files, runner, session.plan, Owner.this_process(files, session.profile), journal=SESSION)
    except TuningError as error:
        raise TuningError(f"host profile {session.profile} cannot be applied: {error}") from None


def differing(session: SessionPlan, facts: Facts) -> list[str]:
    """The settings and mounts that do not have the profile's value, from `facts` and the current files."""
    settled = {path: value_of(facts.files.read(path).text or "") for path in session.settled}
    found = [f"{setting_name(path)} is {now!r}" for path, now in settled.items() if now != session.settled[path]]
    found += engine.differing(facts.files, session.plan.steps)
    for step in session.plan.steps:
        if isinstance(step, RemountStep):
            mount = next((each for each in reversed(facts.mounts) if each.mount_point == step.mount_point), None)
            now = mount.options_of(step.layer) if mount else None
            if now is None or set(now) != set(step.after_options):
                found.append(f"{step.layer} {step.mount_point} is {','.join(now) if now is not None else 'gone'!r}")
    return found


def end_session(files: HostFiles, runner: Runner, session: SessionPlan) -> None:
    """Roll the profile back. Raises TuningError that lists what could not be restored; the journal then stays."""
    done = engine.rollback(
        files, runner, journals=(SESSION,), owner=Owner.this_process(files, session.profile), force=True
    )
    if done.problems:
        raise TuningError(f"{'; '.join(done.problems)}; try again: highwater tune rollback")


def recover_session(files: HostFiles, runner: Runner) -> list[str]:
    """Roll back what a killed run left; one line for each restored resource. Raises TuningError when it still runs."""
    done = engine.recover(files, runner)
    if done.problems:
        raise TuningError(f"{'; '.join(done.problems)}; try again: highwater tune rollback")
    return [held.describe() for held in done.restored]


def _settled(knob: Knob, report: KnobReport, files: HostFiles) -> dict[str, str]:
    path = knob.path.format(target=report.target)
    text = files.read(path).text if knob.mechanism in ("sysctl", "sysfs") else None
    return {} if text is None else {path: value_of(text)}


def _not_permitted(plan: TuningPlan, files: HostFiles) -> Iterator[str]:
    for step in plan.steps:
        if isinstance(step, SettingStep) and not files.may_write(step.path):
            yield f"{setting_name(step.path)} is not writable by this user"
        elif isinstance(step, RemountStep) and files.is_running_system and os.geteuid() != 0:
            yield f"remounting {step.mount_point} needs root"
