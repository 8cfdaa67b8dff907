"""What a proof compares: knobs with their values off and on, for this host.

`KNOB`: off is the present value, on the recommended one; if these are equal, off is the kernel's default.
`KNOB=ON` and `KNOB=OFF:ON` give the values. `KNOB+KNOB` changes both knobs together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.errors import UsageError
from highwater.tuning.catalogue import KNOBS, find_knob
from highwater.tuning.check import KnobReport, evaluate
from highwater.tuning.errors import TuningError
from highwater.tuning.facts.model import Facts
from highwater.tuning.model import Knob, Value
from highwater.tuning.profiles import AS_RECOMMENDED, ad_hoc
from highwater.tuning.quantities import format_value, parse_value
from highwater.tuning.workload import Workload as HostWorkload

_UNPROVABLE_PERSISTENCES: Final = {
    "boot line": "it takes a boot",
    "file system": "it is fixed when a file system is made",
}
_UNPROVABLE_SCOPES: Final = dict.fromkeys(
    ("interface", "receive queue", "transmit queue", "interrupt"),
    "the load runs over loopback, which has no network interface; measure from another host with kind: external",
)
_KERNEL_DEFAULT: Final = "kernel default"


@dataclass(frozen=True, slots=True)
class Change:
    """One knob with its values off and on. None = the host's present value; texts are for people."""

    knob: Knob
    off: str | None
    on: str | None
    off_text: str
    on_text: str
    binding: str = ""
    """Why the knob cannot have an effect here, according to configuration and counters."""
    shared: str = ""
    """Who else is affected while the trials run."""


@dataclass(frozen=True, slots=True)
class Subject:
    changes: tuple[Change, ...]
    target: str = ""
    """The storage target of the trials on, where a disk of its own is the setting; otherwise both sides have one."""

    @property
    def name(self) -> str:
        """`vm.dirty_background_bytes+vm.dirty_bytes`"""
        return "+".join(change.knob.id for change in self.changes)

    @property
    def off(self) -> dict[str, str]:
        """Knob -> value to apply for the trials; empty for the host's present values."""
        return {change.knob.id: change.off for change in self.changes if change.off is not None}

    @property
    def on(self) -> dict[str, str]:
        return {change.knob.id: change.on for change in self.changes if change.on is not None}

    @property
    def off_text(self) -> str:
        """`off` as text, such as `vm.dirty_bytes=512MiB`."""
        return _named(change.knob.id + "=" + change.off_text for change in self.changes if change.off is not None)

    @property
    def on_text(self) -> str:
        return _named(change.knob.id + "=" + change.on_text for change in self.changes if change.on is not None)


@dataclass(frozen=True, slots=True)
class Unprovable:
    """A knob that trials on this host cannot judge, and why."""

    knob_id: str
    reason: str


def subject_named(text: str, facts: Facts, inputs: HostWorkload, accepted: Iterable[str] = ()) -> Subject:
    """Parse a subject. accepted: knobs whose risk the user accepts. Raises UsageError when it cannot be proved."""
    changes = []
    for part in _parts(text):
        name, equals, values = part.partition("=")
        try:
            knob = find_knob(name)
        except TuningError as error:
            raise UsageError(str(error)) from None
        if (reason := why_not(knob, accepted)) is not None:
            raise UsageError(f"{knob.id} cannot be proved: {reason}")
        off, _, on = values.rpartition(":")
        if equals and not on:
            raise UsageError(f"{part}: names no value after the sign; write KNOB=ON or KNOB=OFF:ON")
        found = _change(knob, _reports(knob, facts, inputs), off or None, on or None, facts)
        if isinstance(found, Unprovable):
            raise UsageError(f"{knob.id} cannot be proved: {found.reason}")
        changes.append(found)
    if len({change.knob.id for change in changes}) < len(changes):
        raise UsageError(f"{text}: names a knob twice")
    return Subject(tuple(sorted(changes, key=lambda change: change.knob.id)))


def whatever_differs(facts: Facts, inputs: HostWorkload) -> tuple[list[Subject], list[Unprovable]]:
    """All knobs that differ from the recommendation and that trials can change; the others, each with the reason."""
    subjects, others = [], []
    for knob in KNOBS:
        reports = _reports(knob, facts, inputs)
        if not any(report.state == "differs" for report in reports):
            continue
        reason = why_not(knob)
        found = Unprovable(knob.id, reason) if reason is not None else _change(knob, reports, None, None, facts)
        if isinstance(found, Unprovable):
            others.append(found)
        else:
            subjects.append(Subject((found,)))
    return subjects, others


def why_not(knob: Knob, accepted: Iterable[str] = ()) -> str | None:
    """Why a trial cannot change the knob; None when it can."""
    reason = _UNPROVABLE_PERSISTENCES.get(knob.persistence) or _UNPROVABLE_SCOPES.get(knob.scope)
    try:
        ad_hoc({knob.id: AS_RECOMMENDED})
    except TuningError as error:
        reason = reason or str(error).removeprefix(f"{knob.id} ")
    if reason is None and knob.only_if_named and knob.id not in accepted:
        return f"{knob.only_if_named}; the trials would put this host at that risk: --accept-risk {knob.id}"
    return reason


def _reports(knob: Knob, facts: Facts, inputs: HostWorkload) -> list[KnobReport]:
    return evaluate(facts, inputs, [knob], named=frozenset({knob.id}))


def _change(
    knob: Knob, reports: Sequence[KnobReport], off: str | None, on: str | None, facts: Facts
) -> Change | Unprovable:
    known = [report for report in reports if report.current is not None]
    if not known:
        return Unprovable(knob.id, _listed(report.note for report in reports) or "it is not here")
    if obstacle := next((report.obstacle for report in known if report.obstacle), ""):
        return Unprovable(knob.id, obstacle)
    present = {report.current for report in known}
    present_text = _listed(report.current_text for report in known)
    shared = _shared(knob, [report.target for report in known], facts)
    on_text = ""
    if on is None:
        wanted = [report for report in known if report.recommended is not None]
        if not wanted:
            notes = _listed(report.note for report in known if report.note)
            return Unprovable(knob.id, f"no value is recommended ({notes}); give one: {knob.id}=VALUE")
        values = {report.recommended for report in wanted}
        on = str(values.pop()) if len(values) == 1 else AS_RECOMMENDED  # each target gets its own
        on_text = _listed(report.recommended_text for report in wanted)
    is_so = all(report.state == "ok" for report in known) if on_text else _is(knob, on, present)
    if is_so:
        if off is None and (off := _kernel_default(knob, present)) is None:
            return Unprovable(
                knob.id, f"it is {present_text} already; name what to hold that against: {knob.id}=OFF:ON"
            )
        return Change(knob, off, None, _text(knob, off), present_text, known[0].binding, shared)
    if off is not None and _is(knob, off, present):
        off = None
    off_text = present_text if off is None else _text(knob, off)
    return Change(knob, off, on, off_text, on_text or _text(knob, on), known[0].binding, shared)


def _shared(knob: Knob, targets: Sequence[str], facts: Facts) -> str:
    if knob.scope == "mount":
        mounts = _listed(mount.mount_point for target in targets if (mount := facts.mount_of(target)) is not None)
        return f"remounts {mounts} while its trials run, which affects everything stored there"
    if knob.scope == "disk":
        return f"changes {_listed(targets)} while its trials run, which affects all its users"
    return ""


def _named(texts: Iterable[str]) -> str:
    return "+".join(text.replace(" ", "") for text in texts)


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(texts))


def _kernel_default(knob: Knob, present: set[Value | None]) -> str | None:
    """The kernel's default, if it is a plain value that differs from the present one."""
    for authority in knob.authorities:
        if authority.who == _KERNEL_DEFAULT and (knob.unit == "" or authority.value.isdecimal()):
            return None if _is(knob, authority.value, present) else authority.value
    return None


def _is(knob: Knob, text: str, present: set[Value | None]) -> bool:
    return present == {_value(knob, text)}


def _text(knob: Knob, text: str) -> str:
    return format_value(_value(knob, text), knob.unit)


def _value(knob: Knob, text: str) -> Value:
    """Parse a value of the knob. Raises UsageError."""
    try:
        return parse_value(text, knob.unit)
    except ValueError as error:
        raise UsageError(f"{knob.id}: {error}") from None


def knob_ids(text: str) -> list[str]:
    """The knobs that a subject names, whether they exist or not."""
    return [part.partition("=")[0] for part in _parts(text)]


def _parts(text: str) -> list[str]:
    """Split at each `+` before a knob's name, because values such as defer+madvise contain a `+`, too."""
    return re.split(r"\+(?=[A-Za-z_]\w*(?:\.[\w-]+)+(?:=|\+|$))", text)
