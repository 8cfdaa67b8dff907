"""Compares the current value of each knob with the recommended one; reads only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..common.units import size_text
from .binding import binding_text
from .boot_files.precedence import Boot, simulate_boot
from .boot_files.sysctl_d import MANAGED_FILE
from .capabilities import capability
from .catalogue import KNOBS
from .facts.model import Facts
from .facts.reading import parse_whole, value_of
from .formulas.targets import targets_of
from .hostfiles import Reading
from .model import (
    Authority,
    Comparison,
    Group,
    Knob,
    Mechanism,
    NotApplicable,
    Observation,
    Persistence,
    Risk,
    Scope,
    Source,
    Target,
    Unit,
    Value,
)
from .quantities import format_value
from .workload import Workload

KnobState = Literal[
    "ok",
    "differs",
    "unknown",  # the current value cannot be read
    "not_applicable",  # there is nothing to recommend here
    "obsolete",  # this kernel no longer has it
    "left_alone",  # it trades durability or safety away, and the user did not name it
]
Fate = Literal[
    "stays",
    "changes",
    "if_asked",  # limits of logins, which only --login changes
    "by_hand",  # advice, which this program never changes
    "cannot",  # this host does not let it be changed
]
ReadFile = Callable[[str], Reading]

# The assumed or measured disk speed behind an "about" knob is no more precise than this.
_ABOUT_FACTOR: Final = 1.5
CANNOT_BE_CHANGED: Final = "cannot be changed here: "
_NO_TARGET: Final[dict[Scope, str]] = {
    "unit": "no service unit of the broker is named",
    "mount": "no data directory is named",
    "disk": "no local disk is under the data directories",
    "interface": "this host has no network interface with a device of its own",
    "receive queue": "no network interface shows its receive queues here",
    "transmit queue": "no network interface shows its transmit queues here",
    "frequency policy": "the hypervisor or the firmware sets the processors' clock",
    "interrupt": "no interrupt of a network interface is shown here",
}


@dataclass(frozen=True)
class KnobReport:
    """The result for one knob at one target. Texts that do not apply are empty."""

    id: str
    title: str
    group: Group
    mechanism: Mechanism
    scope: Scope
    target: str
    """The disk, directory, unit, interface, … of this report; empty for the whole host."""
    state: KnobState
    current: Value | None
    current_text: str
    recommended: Value | None
    recommended_text: str
    unit: Unit
    comparison: Comparison
    reason: str
    note: str
    """A remark on this host: why the knob is unknown, does not apply, or cannot be changed here."""
    formula: str
    binding: str
    """Why a change would have no effect now, and what to change first."""
    obstacle: str
    """Why it cannot be changed here."""
    ask: str
    """The request to the platform team, when it cannot be changed here."""
    obsolete: str
    """Why this kernel does not have it, and what to do instead."""
    only_if_named: str
    """The durability or safety that it trades away; such a knob is left alone unless the user names it."""
    trade_in_force: bool
    """Whether this host has the value that trades durability or safety away."""
    overridden_by: str
    """The file that gives the key a worse value at the next boot."""
    risk: Risk
    persistence: Persistence
    capability: str
    authorities: tuple[Authority, ...]
    sources: tuple[Source, ...]

    @property
    def name(self) -> str:
        """The knob with its target: `disk.scheduler of sda`, `vm.swappiness`."""
        return f"{self.id} of {self.target}" if self.target else self.id

    @property
    def fate(self) -> Fate:
        """What a plain apply does to it: `check` and `plan` both say what this says."""
        if self.state != "differs":
            return "stays"
        if self.mechanism == "advice":
            return "by_hand"
        if self.obstacle:
            return "cannot"
        return "if_asked" if self.mechanism == "login" else "changes"

    def as_json(self) -> dict[str, Any]:
        plain = dict(vars(self))
        plain["sources"] = [dict(vars(source)) for source in self.sources]
        plain["authorities"] = [
            {"who": authority.who, "value": authority.value, "source": dict(vars(authority.source))}
            for authority in self.authorities
        ]
        return plain


def evaluate(
    facts: Facts,
    workload: Workload | None = None,
    knobs: Iterable[Knob] = KNOBS,
    *,
    named: frozenset[str] = frozenset(),
    read: ReadFile | None = None,
) -> list[KnobReport]:
    """A report for each knob and each of its targets; a knob without a target here has one report, not applicable.

    named: ids of the knobs whose trade the user accepted by name. read: replaces the host's files, so that recorded or
    planned values can be judged too.
    """
    inputs = workload or Workload()
    boot = simulate_boot(facts.files) if read is None else None
    reports = []
    for knob in knobs:
        targets = targets_of(knob.scope, facts, inputs)
        if not targets:
            reports.append(_without_target(knob))
        reports += [report_on(knob, facts, inputs, target, read, named, boot) for target in targets]
    changing = frozenset(report.id for report in reports if report.fate == "changes")
    return [_beside_others(report, facts, inputs, changing) for report in reports]


def limited(reports: Iterable[KnobReport]) -> list[KnobReport]:
    """The knobs that apply changes although something else limits their effect now; `binding` says what."""
    return [report for report in reports if report.fate == "changes" and report.binding]


def _beside_others(report: KnobReport, facts: Facts, workload: Workload, changing: frozenset[str]) -> KnobReport:
    """The report without a limit that another knob sets which is changed too."""
    if not report.binding or report.fate != "changes" or not changing - {report.id}:
        return report
    others = changing - {report.id}
    binding = binding_text(report.id, facts, workload, report.target, report.current, report.recommended, others)
    return dataclasses.replace(report, binding=binding)


def report_on(
    knob: Knob,
    facts: Facts,
    workload: Workload,
    target: str = "",
    read: ReadFile | None = None,
    named: frozenset[str] = frozenset(),
    boot: Boot | None = None,
) -> KnobReport:
    """Evaluate one knob at one target; `read` and `named` as in `evaluate`. Without `boot`, no file overrides it."""
    observed = observe(knob, facts, target, read or facts.files.read)
    wanted = knob.recommend(facts, workload, target)
    if (fate := _lifetime_state(knob, facts)) is not None:
        return _report(knob, target, observed, state=fate[0], note=fate[1], obsolete=fate[1])
    if isinstance(wanted, NotApplicable):
        return _report(knob, target, observed, state="not_applicable", note=wanted.reason)
    recommended, formula = _never_worse(knob, wanted, observed)
    if observed.value is None:
        return _report(
            knob,
            target,
            observed,
            state="unknown",
            recommended=recommended,
            formula=formula,
            note=observed.text,
        )
    good = _acceptable(knob, wanted, observed.value)
    if _needs_naming(knob, named):
        trade = f"{'in force here' if good else 'left alone unless it is named'}: {knob.only_if_named}"
        return _report(
            knob,
            target,
            observed,
            state="left_alone",
            recommended=recommended,
            formula=formula,
            note=trade,
            trade_in_force=good,
        )
    obstacle, ask, remark = ("", "", "") if good else _capability(knob, facts, target, recommended)
    binding = binding_text(knob.id, facts, workload, target, observed.value, recommended)
    return _report(
        knob,
        target,
        observed,
        state="ok" if good else "differs",
        recommended=recommended,
        formula=formula,
        note="; ".join(text for text in (wanted.note, _unknown_lifetime(knob, facts), obstacle, remark) if text),
        binding=binding,
        obstacle=obstacle,
        ask=ask,
        overridden_by=_overridden_by(knob, facts, wanted, boot),
        trade_in_force=good and bool(knob.only_if_named),
    )


def observe(knob: Knob, facts: Facts, target: str, read: ReadFile) -> Observation:
    """The knob's current value; `read` reads its file."""
    if knob.observe is not None:
        return knob.observe(facts, target)
    path = knob.path.format(target=target)
    if not path.startswith("/"):
        return Observation(None, f"shown by: {path}")
    reading = read(path)
    if reading.text is None:
        return Observation(None, _why_unreadable(knob, facts, reading.reason))
    text = value_of(reading.text)
    if not knob.unit:
        return Observation(text, text)
    words = text.split()
    index = knob.field or 0
    number = parse_whole(words[index]) if index < len(words) else None
    if number is None:
        return Observation(None, f"{path} holds {reading.text!r}, not numbers")
    if number == 0 and knob.twin is not None:
        return _observe_percentage(knob, knob.twin, facts, read)
    return Observation(number, format_value(number, knob.unit))


def render(knob: Knob, value: Value, present_text: str) -> str:
    """The text to write for a sysctl; numbers of the file that belong to other knobs are kept."""
    if knob.field is None:
        return str(value)
    numbers = present_text.split()
    numbers[knob.field] = str(value)
    return " ".join(numbers)


def sysctl_path(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def _without_target(knob: Knob) -> KnobReport:
    why = _NO_TARGET.get(knob.scope, "this host has no target for it")
    return _report(knob, "", Observation(None, why), state="not_applicable", note=why)


def _report(
    knob: Knob,
    target: str,
    observed: Observation,
    *,
    state: KnobState,
    note: str,
    recommended: Value | None = None,
    formula: str = "",
    binding: str = "",
    obstacle: str = "",
    ask: str = "",
    obsolete: str = "",
    overridden_by: str = "",
    trade_in_force: bool = False,
) -> KnobReport:
    return KnobReport(
        id=knob.id,
        title=knob.title,
        group=knob.group,
        mechanism=knob.mechanism,
        scope=knob.scope,
        target=target,
        state=state,
        current=observed.value,
        current_text="?" if observed.value is None else observed.text,
        recommended=recommended,
        recommended_text="–" if recommended is None else format_value(recommended, knob.unit),
        unit=knob.unit,
        comparison=knob.comparison,
        reason=knob.reason,
        note=note,
        formula=formula,
        binding=binding,
        obstacle=obstacle,
        ask=ask,
        obsolete=obsolete if state == "obsolete" else "",
        only_if_named=knob.only_if_named,
        trade_in_force=trade_in_force,
        overridden_by=overridden_by,
        risk=knob.risk,
        persistence=knob.persistence,
        capability=knob.capability,
        authorities=knob.authorities,
        sources=knob.sources,
    )


def _lifetime_state(knob: Knob, facts: Facts) -> tuple[KnobState, str] | None:
    """State and text of a knob that this kernel release does not have; None when it has or may have it."""
    version = facts.kernel_version
    if version is None:
        return None
    life = knob.lifetime
    if life.removed is not None and version >= life.removed:
        text = f"removed in Linux {_version(life.removed)}, and this is {_version(version)}"
        return "obsolete", f"{text}: {life.text}" if life.text else text
    if life.since is not None and version < life.since:
        return "not_applicable", f"new in Linux {_version(life.since)}, and this is {_version(version)}"
    return None


def _unknown_lifetime(knob: Knob, facts: Facts) -> str:
    life = knob.lifetime
    if facts.kernel_version is not None or (life.removed is None and life.since is None):
        return ""
    ends = (("since", life.since), ("until", life.removed))
    known = " ".join(f"{word} Linux {_version(release)}" for word, release in ends if release is not None)
    return f"the kernel's version is not known, and it exists {known} only"


def _version(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def _needs_naming(knob: Knob, named: frozenset[str]) -> bool:
    return bool(knob.only_if_named) and knob.id not in named


def _never_worse(knob: Knob, wanted: Target, observed: Observation) -> tuple[Value, str]:
    """The value to recommend and its formula: an `at_least` knob is never lowered, an `at_most` knob never raised."""
    if observed.value is not None and observed.value in wanted.also and knob.comparison in ("at_least", "at_most"):
        return observed.value, f"{observed.value}, or {wanted.formula}"  # `infinity` is not lowered to a limit
    if not isinstance(observed.value, int) or not isinstance(wanted.value, int):
        return wanted.value, wanted.formula
    present = format_value(observed.value, knob.unit)
    if knob.comparison == "at_least":
        return max(observed.value, wanted.value), f"max(current {present}, {wanted.formula})"
    if knob.comparison == "at_most":
        return min(observed.value, wanted.value), f"min(current {present}, {wanted.formula})"
    return wanted.value, wanted.formula


def _acceptable(knob: Knob, wanted: Target, value: Value) -> bool:
    if value == wanted.value or value in wanted.also or str(value) == str(wanted.value):
        return True
    if isinstance(value, str) or isinstance(wanted.value, str):
        return False
    if knob.comparison == "at_least":
        return value >= wanted.value
    if knob.comparison == "at_most":
        return value <= wanted.value
    if knob.comparison == "about":
        return wanted.value / _ABOUT_FACTOR <= value <= wanted.value * _ABOUT_FACTOR
    return False


def _capability(knob: Knob, facts: Facts, target: str, recommended: Value) -> tuple[str, str, str]:
    """Obstacle to the change, request to the platform team, and remark; each may be empty."""
    if knob.mechanism == "advice":
        return "", "", ""
    found = capability(facts, knob, target, str(recommended))
    if found.can:
        return "", "", found.why
    return f"{CANNOT_BE_CHANGED}{found.why}", found.ask, ""


def _overridden_by(knob: Knob, facts: Facts, wanted: Target, boot: Boot | None) -> str:
    """The file of another program that sets the key to a worse value at the next boot; empty when none does."""
    winner = boot.winner(knob.id) if boot is not None and knob.mechanism == "sysctl" else None
    if winner is None or winner.path == MANAGED_FILE:
        return ""
    pair = {knob.id, knob.twin} - {None, winner.key} if knob.twin else set()
    texts = {sysctl_path(str(key)): "0" for key in pair} | {sysctl_path(winner.key): winner.value}
    read = facts.files.read
    at_boot = observe(knob, facts, "", lambda path: Reading(texts[path]) if path in texts else read(path))
    if at_boot.value is None or _acceptable(knob, wanted, at_boot.value):
        return ""
    return str(winner)


def _why_unreadable(knob: Knob, facts: Facts, reason: str) -> str:
    if knob.scope == "network namespace" and facts.container:
        return f"{reason}: not visible in this container's network namespace"
    if "does not exist" in reason and facts.kernel_release:
        return f"{reason} on kernel {facts.kernel_release}"
    return reason


def _observe_percentage(knob: Knob, twin: str, facts: Facts, read: ReadFile) -> Observation:
    """The value of a key in bytes that is 0: the percentage of its twin, of the available memory."""
    percent = parse_whole(read(sysctl_path(twin)).text or "")
    usable = facts.memory.usable_bytes
    if percent is None or usable is None:
        return Observation(None, f"neither {knob.id} nor {twin} shows a value")
    effective = percent * usable // 100
    return Observation(effective, f"{percent} % = {size_text(effective)}")
