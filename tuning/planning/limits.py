"""Plans the limits of units (systemd drop-ins) and of logins (limits.d); neither affects the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..boot_files import limits_d, systemd
from ..check import sysctl_path
from ..errors import TuningError
from ..facts.reading import parse_whole
from ..formulas.limits import SYSTEMD_NOFILE_HARD
from ..model import Value
from ..steps import SettingStep
from .draft import Draft, SelectedKnob

_NOFILE: Final = "LimitNOFILE"
_UNLIMITED: Final = ("infinity", "unlimited", "-1")


def plan_units(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    """Raises TuningError for an invalid name, and for a file limit above `fs.nr_open`: the unit would not start."""
    if chosen and not draft.facts.files.exists("/etc/systemd"):
        for item in chosen:
            _refuse(draft, item, f"{item.knob.id} cannot be set for {item.report.target}: this host has no systemd")
        return
    for item in chosen:
        unit, name = item.report.target, item.knob.unit_property
        systemd.check_unit(unit)
        path = systemd.drop_in(unit)
        present = systemd.parse_drop_in(draft.text(path) or "").get("Service", {}).get(name)
        if item.report.state == "ok":
            continue
        wanted = _unit_value(draft, item, name, present)
        if wanted is None:
            continue
        if wanted == present:
            draft.warnings.append(_overridden(draft, unit, name, path))
            continue
        text = systemd.with_settings(draft.text(path), "Service", {name: wanted})
        draft.put(path, text, f"limits and weights of {unit}")
        draft.pending.append(f"{name}={wanted} of {unit}: when it is next started")
        if draft.facts.unit(unit).path is None:
            way_out = "name the broker's unit (--unit) if it has another name"
            draft.warnings.append(f"{unit} is not installed; its drop-in takes effect once it is: {way_out}")


def plan_logins(draft: Draft, chosen: Sequence[SelectedKnob]) -> None:
    """Raises TuningError for an invalid domain, and for a file limit above `fs.nr_open`: nobody could log in."""
    domains = draft.options.login_domains
    for domain in domains:
        limits_d.check_domain(domain)
    if not chosen:
        return
    if not domains:
        for item in chosen:
            if item.knob.id in draft.options.named:
                raise TuningError(f"{item.knob.id}: name the logins it is for, such as --login '*'")
        return
    if not draft.facts.files.exists("/etc/security"):
        for item in chosen:
            _refuse(draft, item, f"{item.knob.id} cannot be set for logins: this host has no pam_limits")
        return
    present = limits_d.parse_limits(draft.text(limits_d.MANAGED_FILE) or "")
    wanted: dict[limits_d.LimitsEntry, limits_d.Limits] = {}
    for item in chosen:
        name = item.knob.id.removeprefix("login.")
        for domain in domains:
            entry = limits_d.LimitsEntry(domain, name)
            limits = _login_limits(draft, item, name, present.get(entry))
            if limits is not None and limits != present.get(entry):
                wanted[entry] = limits
    if wanted:
        text = limits_d.with_limits(draft.text(limits_d.MANAGED_FILE), wanted)
        draft.put(limits_d.MANAGED_FILE, text, f"limits of logins: {', '.join(domains)}")
        draft.pending.append(f"limits of {', '.join(domains)}: at the next login")


def _unit_value(draft: Draft, item: SelectedKnob, name: str, present: str | None) -> str | None:
    """The text of a property; None when it cannot be set here."""
    recommended = item.report.recommended
    assert recommended is not None
    if name != _NOFILE:
        return _at_least(item, present, str(recommended))
    ceiling = _ceiling(draft, item, recommended)
    if ceiling is None:
        return None
    match = re.fullmatch(r"(\d+)(?::(\d+))?", present or "")
    soft, hard = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    soft = max(soft, int(recommended))
    hard = max(soft, hard, SYSTEMD_NOFILE_HARD)
    return f"{min(soft, ceiling)}:{min(hard, ceiling)}"


def _overridden(draft: Draft, unit: str, name: str, ours: str) -> str:
    """The warning when Highwater's drop-in sets a property but a file that is read later overrides it."""
    files = draft.facts.files
    drop_ins = draft.facts.unit(unit).drop_ins
    later = [path for path in drop_ins if path.rpartition("/")[2] > ours.rpartition("/")[2]]
    for path in reversed(later):
        if name in systemd.parse_drop_in(files.read(path).text or "").get("Service", {}):
            return f"{path} sets {name} after {ours}: it wins; remove that line"
    return f"{ours} sets {name} of {unit}, and another file wins over it: systemctl cat {unit} shows which"


def _login_limits(
    draft: Draft, item: SelectedKnob, name: str, present: limits_d.Limits | None
) -> limits_d.Limits | None:
    recommended = item.report.recommended
    assert recommended is not None
    if str(recommended) in _UNLIMITED:
        return limits_d.Limits("unlimited", "unlimited")
    ceiling = _ceiling(draft, item, recommended) if name == "nofile" else None
    if name == "nofile" and ceiling is None:
        return None
    # limits.conf(5) counts memory in KiB.
    value = int(recommended) // 1024 if item.knob.unit == "bytes" else int(recommended)
    if item.report.state == "ok" and present is None:
        return None
    before = [int(text) if text.isdecimal() else 0 for text in (present or limits_d.Limits("0", "0"))]
    if present is not None and "unlimited" in present and name != "nofile":
        return present
    soft = max(before[0], value)
    # A login's current hard limit may be higher; a lower line would reduce it.
    present_hard = draft.facts.nofile_hard or 0 if name == "nofile" else 0
    hard = max(soft, before[1], present_hard, SYSTEMD_NOFILE_HARD if name == "nofile" else 0)
    if ceiling is not None:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    return limits_d.Limits(str(soft), str(hard))


def _at_least(item: SelectedKnob, present: str | None, wanted: str) -> str:
    """The wanted value, or the one in Highwater's file where that is higher and the knob only raises."""
    if item.knob.comparison != "at_least" or present is None:
        return wanted
    if present in _UNLIMITED:
        return present
    return str(max(int(present), int(wanted))) if present.isdecimal() and wanted.isdecimal() else wanted


def _ceiling(draft: Draft, item: SelectedKnob, wanted: Value) -> int | None:
    """The highest file limit that can be set here; None, with a warning, when that is lower than the wanted one."""
    nr_open = _nr_open_after(draft)
    granted = draft.facts.nofile_hard if draft.facts.can_raise_limits is False else None
    ceiling = min((bound for bound in (nr_open, granted) if bound is not None), default=2**30)
    if int(wanted) > ceiling:
        bound = (
            f"fs.nr_open {nr_open} allows; choose the knob fs.nr_open as well"
            if ceiling == nr_open
            else (f"the hard limit of {granted} here, which this system may not raise")
        )
        _refuse(draft, item, f"{item.knob.id} {wanted} is more than {bound}")
        return None
    return ceiling


def _nr_open_after(draft: Draft) -> int | None:
    path = sysctl_path("fs.nr_open")
    for step in draft.live:
        if isinstance(step, SettingStep) and step.path == path:
            return int(step.after)
    return parse_whole(draft.facts.files.read(path).text or "")


def _refuse(draft: Draft, item: SelectedKnob, why: str) -> None:
    """Raises TuningError for a knob that was named; leaves another out with a warning."""
    if item.knob.id in draft.options.named:
        raise TuningError(why)
    draft.warnings.append(f"left as it is: {why}")
