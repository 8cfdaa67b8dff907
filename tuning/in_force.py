"""Verifies what `apply` changed: whether each change is still there, and has its effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from .boot_files import limits_d, systemd
from .catalogue import KNOBS
from .change_status import ChangeStatus, change_statuses, state_text
from .check import KnobReport, observe, report_on
from .effects import Effect, EffectState, SharedReadings, login_row, setting_row, unit_row
from .facts.model import Facts
from .formulas.common import constant
from .journal import APPLIED
from .model import Knob, Value
from .planning.judging import Judge
from .runner import Runner
from .steps import FileStep, RemountStep, SettingStep, SwapOffStep
from .three_way import Standing
from .workload import Workload

_AS_APPLIED: Final = "the value that was applied"
_KNOBS: Final = {knob.id: knob for knob in KNOBS}
_UNIT_KNOBS: Final = {knob.unit_property: knob for knob in KNOBS if knob.unit_property}
_WHY_NOT: Final[dict[Standing, str]] = {
    "back": "it is as it was before apply",
    "drifted": "somebody changed it since: highwater tune status shows how",
    "gone": "it is gone",
}


def verify_applied(facts: Facts, runner: Runner) -> list[Effect]:
    """Rows for all changes in the journal of `apply`; empty when nothing is applied. Changes nothing.

    The expected value of a row is the applied one, whatever is recommended now. Raises TuningError when the journal is
    damaged.
    """
    changes = list(change_statuses(facts.files, APPLIED))
    units = tuple(unit for change in changes if (unit := _unit_of(change)))
    workload = dataclasses.replace(Workload(), units=units) if units else Workload()
    host = SharedReadings.of(facts, workload, runner)
    return [row for change in changes for row in _rows(change, facts, workload, host)]


def _rows(change: ChangeStatus, facts: Facts, workload: Workload, host: SharedReadings) -> Iterator[Effect]:
    if change.trouble:
        yield _plain_row(change, "unknown", change.trouble)
    elif change.standing != "in_force":
        yield _plain_row(change, "failed", _WHY_NOT[change.standing])
    elif isinstance(change.step, SettingStep):
        yield _setting_row(change.step, facts, workload, host)
    else:
        yield _plain_row(change, "effective", "")
        if unit := _unit_of(change):
            yield from _unit_rows(unit, change, facts, workload, host)
        elif isinstance(change.step, FileStep) and change.step.path == limits_d.MANAGED_FILE:
            yield from _login_rows(change.step, facts, workload)


def _plain_row(change: ChangeStatus, state: EffectState, note: str) -> Effect:
    """A row for a resource as such: what a file, a mount or a swap device is, compared with what it became."""
    step, ours = change.step, state_text(change.resource, change.ours)
    now = "" if change.trouble else state_text(change.resource, change.now)
    name, target = str(change.resource), ""
    if isinstance(step, FileStep):
        ours = "as applied"
        now = ours if state == "effective" else now
    elif isinstance(step, RemountStep):
        name, target = "mount options", step.mount_point
        ours = ",".join(step.new) or ours
        now = ours if state == "effective" else now
    elif isinstance(step, SwapOffStep):
        name, target = "swap.devices", step.device
    elif isinstance(step, SettingStep):
        name, target = step.knob_id, step.target
    return Effect(name, target, ours, now, now, "", "", state, (note,) if note else ())


def _setting_row(step: SettingStep, facts: Facts, workload: Workload, host: SharedReadings) -> Effect:
    """The row of a setting that has the applied value in its own file."""
    knob = _KNOBS[step.knob_id]
    value = observe(knob, facts, step.target, facts.files.read).value
    judge = _judge(knob, value if value is not None else step.after, facts, workload, step.target)
    return setting_row(judge, _report(judge), host)


def _unit_rows(
    unit: str, change: ChangeStatus, facts: Facts, workload: Workload, host: SharedReadings
) -> Iterator[Effect]:
    written = systemd.parse_drop_in((change.now or {}).get("text", "")).get("Service", {})
    for name, text in written.items():
        knob = _UNIT_KNOBS.get(name)
        if knob is None:
            continue
        value = observe(knob, facts, unit, facts.files.read).value
        judge = _judge(knob, value if value is not None else text, facts, workload, unit)
        row = unit_row(judge, _report(judge), host)
        effective = facts.unit(unit).settings.get(name, text)
        if effective != text:
            note = f"another file of the unit sets {name}={effective}"
            row = dataclasses.replace(row, expected=text, state="failed", footnotes=(note,))
        yield row


def _login_rows(step: FileStep, facts: Facts, workload: Workload) -> Iterator[Effect]:
    for entry, limit in limits_d.parse_limits(step.after or "").items():
        knob = _KNOBS.get(f"login.{entry.item}")
        if knob is not None:
            judge = _judge(knob, limits_d.number(entry.item, limit.soft), facts, workload, "")
            yield login_row(judge, _report(judge))


def _judge(knob: Knob, value: Value, facts: Facts, workload: Workload, target: str) -> Judge:
    applied = dataclasses.replace(knob, recommend=constant(value, _AS_APPLIED))
    return Judge(facts, workload, applied, target, frozenset({knob.id}))


def _report(judge: Judge) -> KnobReport:
    return report_on(judge.knob, judge.facts, judge.workload, judge.target, named=judge.accepted)


def _unit_of(change: ChangeStatus) -> str:
    """The service unit whose drop-in the change wrote; empty for any other change."""
    step = change.step
    if not isinstance(step, FileStep) or step.after is None:
        return ""
    unit = step.path.removeprefix("/etc/systemd/system/").partition(".d/")[0]
    return unit if unit.endswith(".service") and systemd.drop_in(unit) == step.path else ""
