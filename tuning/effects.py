"""Verifies the effect of settings: in processes, in the kernel, and at the next boot."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from . import probes
from .boot_files import limits_d, systemd, tmpfiles, tuned, udev
from .boot_files.precedence import simulate_boot
from .capabilities import why_not_given
from .check import CANNOT_BE_CHANGED, KnobReport, evaluate
from .facts.model import Facts
from .model import Knob, NotApplicable
from .planning.devices import Devices
from .planning.judging import Judge
from .planning.mounts import FSTAB_SOURCE, boot_mount, lacks_option
from .probes import Effective
from .runner import Runner
from .workload import Workload

EffectState = Literal[
    "effective",
    "failed",  # not as expected, or written but not in effect, or undone at the next boot
    "pending",  # takes effect when a unit restarts, a file system is mounted again, or at the next login
    "unknown",  # not visible from here
    "not_applicable",
]
_CHECKED_ONLY: Final = "checked, but never set by this program"


@dataclass(frozen=True)
class Effect:
    """One row: Parameter, Expected, Actual, Effective, How seen."""

    parameter: str
    target: str
    """The disk, directory, unit or queue of this row; empty for the whole host."""
    expected: str
    actual: str
    """The value in the setting's own file."""
    effective: str
    """The value in force, as the kernel or the process shows it elsewhere."""
    at_boot: str
    """The value that the next boot will set, with the file that sets it; empty when no file does."""
    seen_by: str
    """The file or command that showed `effective`."""
    state: EffectState
    footnotes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class _Outlook:
    """The value of a setting after the next boot. `good` is None when no file sets it."""

    good: bool | None
    text: str = ""


class SharedReadings:
    """Readings that all rows share."""

    def __init__(self, facts: Facts, stale_units: frozenset[str]) -> None:
        self.stale_units = stale_units
        self.boot = simulate_boot(facts.files)
        self.profile = tuned.active_profile(facts.files)
        self._devices = Devices(facts)
        self._writes = tmpfiles.parse_writes(facts.files.read(tmpfiles.MANAGED_FILE).text or "")
        self._rules = udev.parse_rules(facts.files.read(udev.MANAGED_FILE).text or "")

    def kept(self, persistence: str, path: str) -> tuple[str, str] | None:
        """The file of Highwater that persists a setting of /sys, and the value there; None when none does."""
        if persistence == "tmpfiles.d" and path in self._writes:
            return tmpfiles.MANAGED_FILE, self._writes[path]
        if persistence == "udev rule" and (rule := self._devices.rule_of(path)) in self._rules:
            return udev.MANAGED_FILE, self._rules[rule]
        return None

    @classmethod
    def of(cls, facts: Facts, workload: Workload, runner: Runner) -> SharedReadings:
        """runner: runs `systemctl show` where systemd is running."""
        return cls(facts, _units_to_be_read_again(facts, workload, runner))


def verify(
    facts: Facts,
    workload: Workload,
    knobs: Sequence[Knob],
    runner: Runner,
    *,
    accepted: frozenset[str] = frozenset(),
) -> list[Effect]:
    """One row per knob and target; changes nothing. Collect `facts` after the changes that are to be verified.

    accepted: ids of the knobs whose trade the user accepted by name; other trades are not applicable.
    runner: runs `systemctl show` where systemd is running.
    """
    by_id = {knob.id: knob for knob in knobs}
    host = SharedReadings.of(facts, workload, runner)
    rows: list[Effect] = []
    for report in evaluate(facts, workload, knobs, named=accepted):
        judge = Judge(facts, workload, by_id[report.id], report.target, accepted)
        rows.append(_row(judge, report, host))
    return rows


def _row(judge: Judge, report: KnobReport, host: SharedReadings) -> Effect:
    if report.state in ("not_applicable", "obsolete", "left_alone"):
        return _effect(report, "not_applicable", note=report.note)
    if report.state == "unknown":
        return _effect(report, "unknown", note=report.note)
    if report.mechanism == "advice":
        state: EffectState = "effective" if report.state == "ok" else "not_applicable"
        return _effect(report, state, Effective(report.current_text, judge.path), note=_CHECKED_ONLY)
    if report.mechanism == "login":
        return login_row(judge, report)
    if report.state == "differs":
        by = _unit_file(judge) if report.mechanism == "unit" else judge.path
        return _effect(
            report, "failed", Effective(report.current_text, by), _outlook(judge, host), note=report.obstacle
        )
    if report.mechanism == "unit":
        return unit_row(judge, report, host)
    return setting_row(judge, report, host)


def setting_row(judge: Judge, report: KnobReport, host: SharedReadings) -> Effect:
    """The row of a setting, mount or swap whose own file is as expected: checks its effect elsewhere and at boot."""
    outlook = _outlook(judge, host)
    seen = probes.probe(judge.facts, judge.workload, report)
    if seen is None:
        seen = Effective(report.current_text, judge.path)
    if seen.fault:
        state: EffectState = "pending" if seen.until else "failed"
        return _effect(report, state, seen, outlook, note=seen.fault)
    if outlook.good is False:
        return _effect(report, "failed", seen, outlook, note="undone at the next boot")
    return _effect(report, "effective", seen, outlook, note=seen.note)


def unit_row(judge: Judge, report: KnobReport, host: SharedReadings) -> Effect:
    """The row of a unit: what its processes have. They may have started before the file was written."""
    unit = judge.facts.unit(report.target)
    written = judge.knob.unit_property in unit.settings
    found = [probes.probe_instance(judge.facts, judge.knob.unit_property, instance) for instance in unit.instances]
    outlook = _Outlook(True, f"{report.current_text} by {_unit_file(judge) if written else 'default'}")
    if report.target in host.stale_units:
        note = "systemd has not reloaded its files: systemctl daemon-reload"
        return _effect(report, "pending", _joined(found), outlook, note=note)
    seen = [item for item in found if item is not None and item.value is not None]
    if not unit.instances:
        state: EffectState = "pending" if written else "not_applicable"
        note = "takes effect when the unit is started" if written else "systemd's default is as good"
        return _effect(report, state, Effective("not running"), outlook, note=note)
    if not seen:
        return _effect(report, "unknown", _joined(found), outlook, note="the running unit does not show it")
    late = [item for item in seen if item.value is not None and not judge.accepts_value(item.value)]
    if not late:
        return _effect(report, "effective", _joined(found), outlook)
    if all(probes.older_than_files(judge.facts, item.pid, unit.drop_ins) for item in late):
        note = f"{', '.join(item.name for item in late)} started before the file was written: restart it"
        return _effect(report, "pending", _joined(late), outlook, note=note)
    why_not = why_not_given(judge.facts, judge.knob.unit_property)
    note = f"{CANNOT_BE_CHANGED}{why_not}" if why_not else "its file is older than the process, but not in effect"
    return _effect(report, "failed", _joined(late), outlook, note=note)


def _unit_file(judge: Judge) -> str:
    """The last drop-in that sets the unit's property; the unit file when none does."""
    unit = judge.facts.unit(judge.target)
    for path in reversed(unit.drop_ins):
        if judge.knob.unit_property in systemd.parse_drop_in(judge.facts.files.read(path).text or "").get(
            "Service", {}
        ):
            return path
    return unit.path or ""


def login_row(judge: Judge, report: KnobReport) -> Effect:
    """The row of a login limit. The observed value is that of this session, which may be older than the file."""
    item = report.id.removeprefix("login.")
    seen = Effective(f"{report.current_text} in this session", "/proc/self/limits")
    kept = [(entry, limits) for entry, limits in limits_d.at_login(judge.facts.files).items() if entry.item == item]
    text = ", ".join(f"{entry.domain} {limits.soft}:{limits.hard} by {limits.path}" for entry, limits in kept)
    good = [judge.accepts_value(limits_d.number(item, limits.soft)) for _, limits in kept if limits.ours]
    if good and not all(good):
        return _effect(report, "failed", seen, _Outlook(False, text), note="a later file overrides it")
    if report.state == "ok":
        return _effect(report, "effective", seen, _Outlook(None, text))
    if good:
        return _effect(report, "pending", seen, _Outlook(True, text), note="takes effect at the next login")
    # `apply` changes logins only with --login, so a limit that nobody asked for has not failed.
    note = report.obstacle or "not requested: apply --login WHO gives it to logins"
    return _effect(report, "not_applicable", seen, _Outlook(None, text), note=note)


def _outlook(judge: Judge, host: SharedReadings) -> _Outlook:
    """What the next boot makes of a setting, for any mechanism."""
    knob, path = judge.knob, judge.path
    if knob.mechanism == "mount":
        return _outlook_of_mount(judge)
    if knob.mechanism == "swap":
        sources = [source for source in judge.facts.swap_sources if not source.masked]
        text = ", ".join(f"{source.path} turns {source.device or 'swap'} on" for source in sources)
        return _Outlook(not sources, text or "nothing turns swap on")
    if knob.mechanism == "sysctl":
        winner = host.boot.winner(knob.id)
        return (
            _Outlook(None)
            if winner is None
            else _Outlook(judge.accepts_sysctls({winner.key: winner.value}), str(winner))
        )
    line = host.profile.sets(knob.id, path) if host.profile else None
    if line is not None:
        return _Outlook(judge.accepts_texts({path: line.value}), f"{line.path}:{line.number} sets {line.value} (TuneD)")
    kept = host.kept(knob.persistence, path)
    return (
        _Outlook(None) if kept is None else _Outlook(judge.accepts_texts({path: kept[1]}), f"{kept[0]} sets {kept[1]}")
    )


def _outlook_of_mount(judge: Judge) -> _Outlook:
    mount = judge.facts.mount_of(judge.target)
    wanted = judge.knob.recommend(judge.facts, judge.workload, judge.target)
    if mount is None or isinstance(wanted, NotApplicable) or judge.knob.id == FSTAB_SOURCE:
        return _Outlook(None)
    option = str(wanted.value)
    kept = boot_mount(judge.facts, judge.facts.files.read_verbatim, mount, option)
    if kept is None:
        return _Outlook(None)
    return _Outlook(not lacks_option(kept.options, option), f"{kept.path} mounts with {','.join(kept.options)}")


def _units_to_be_read_again(facts: Facts, workload: Workload, runner: Runner) -> frozenset[str]:
    """Units whose files changed since systemd read them; for a template, systemd is asked about its instances."""
    if runner.absent or not facts.systemd.running:
        return frozenset()
    stale: set[str] = set()
    for unit in workload.units:
        names = [instance.name for instance in facts.unit(unit).instances]
        for name in names:
            done = runner.run(("systemctl", "show", "--property=NeedDaemonReload", name))
            if done.status == 0 and "NeedDaemonReload=yes" in done.stdout:
                stale.add(unit)
    return frozenset(stale)


def _joined(found: Sequence[Effective | None]) -> Effective:
    present = [item for item in found if item is not None]
    return Effective(", ".join(item.text for item in present), ", ".join(dict.fromkeys(item.by for item in present)))


def _effect(
    report: KnobReport,
    state: EffectState,
    seen: Effective | None = None,
    outlook: _Outlook | None = None,
    *,
    note: str = "",
) -> Effect:
    return Effect(
        parameter=report.id,
        target=report.target,
        expected=report.recommended_text,
        actual=report.current_text,
        effective=seen.text if seen else "",
        at_boot=outlook.text if outlook else "",
        seen_by=seen.by if seen else "",
        state=state,
        footnotes=tuple(text for text in (note, report.binding if state == "effective" else "") if text),
    )
