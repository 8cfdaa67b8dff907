"""Where an open-file limit is kept: systemd drop-ins for units, limits.d for logins. Neither reaches the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from .errors import TuningError
from .facts import Facts
from .formulas.limits import SYSTEMD_NOFILE_HARD
from .model import Knob, NotApplicable
from .sysctl_files import HEADER
from .workload import Workload

LIMITS_FILE: Final = "/etc/security/limits.d/90-highwater.conf"
_UNIT_NAME: Final = re.compile(r"[A-Za-z0-9:_.@-]+\.service")
# limits.conf(5): a user, @group, * or a range of ids.
_LOGIN_DOMAIN: Final = re.compile(r"[A-Za-z0-9@%*:_.-]+")


def unit_drop_in(unit: str) -> str:
    return f"/etc/systemd/system/{unit}.d/90-highwater-limits.conf"


def plan_limit_files(
    knob: Knob,
    facts: Facts,
    workload: Workload,
    units: Sequence[str],
    login_domains: Sequence[str],
    nr_open: int | None,
) -> dict[str, str]:
    """The files that hold the open-file limit, with their wanted text.

    Raises TuningError for a bad name, for a host without systemd or pam_limits, and for a limit above `fs.nr_open`,
    with which units would not start and nobody could log in.
    """
    _check_names(units, login_domains)
    target = knob.recommend(facts, workload, "")
    assert not isinstance(target, NotApplicable)
    assert isinstance(target.value, int)
    if nr_open is not None and target.value > nr_open:
        raise TuningError(
            f"{knob.id} {target.value} is more than fs.nr_open {nr_open} allows; choose the knob fs.nr_open as well"
        )
    ceilings = [nr_open, facts.nofile_hard if facts.can_raise_limits is False else None]
    ceiling = min((bound for bound in ceilings if bound is not None), default=None)
    wanted: dict[str, str] = {}
    if units and not facts.files.exists("/etc/systemd"):
        raise TuningError(f"{knob.id} cannot be set for {units[0]}: this host has no systemd; name no units")
    for unit in units:
        path = unit_drop_in(unit)
        soft, hard = _limits(_present(facts, path, r"^LimitNOFILE=(\d+)(?::(\d+))?"), target.value, 0, ceiling)
        wanted[path] = f"{HEADER}[Service]\nLimitNOFILE={soft}:{hard}\n"
    if login_domains and not facts.files.exists("/etc/security"):
        raise TuningError(f"{knob.id} cannot be set for logins: this host has no pam_limits; name no login domains")
    if login_domains:
        present = _present(facts, LIMITS_FILE, r"^\S+ soft nofile (\d+)\n\S+ hard nofile (\d+)")
        # A login's present hard limit may be higher than ours: writing less would take it away.
        soft, hard = _limits(present, target.value, facts.nofile_hard or 0, ceiling)
        rows = [f"{domain} soft nofile {soft}\n{domain} hard nofile {hard}\n" for domain in login_domains]
        wanted[LIMITS_FILE] = HEADER + "".join(rows)
    return wanted


def _check_names(units: Sequence[str], login_domains: Sequence[str]) -> None:
    for unit in units:
        if not _UNIT_NAME.fullmatch(unit):
            raise TuningError(f"{unit!r} is not the name of a service unit, such as highwater-broker@.service")
    for domain in login_domains:
        if not _LOGIN_DOMAIN.fullmatch(domain):
            raise TuningError(f"{domain!r} is not a user, @group or * of limits.conf(5)")


def _present(facts: Facts, path: str, pattern: str) -> tuple[int, int]:
    match = re.search(pattern, facts.files.read(path).text or "", re.MULTILINE)
    return (int(match[1]), int(match[2] or match[1])) if match else (0, 0)


def _limits(present: tuple[int, int], target: int, present_hard: int, ceiling: int | None) -> tuple[int, int]:
    """Soft and hard limit: never less than what the file has, and never more than this host can grant."""
    soft = max(present[0], target)
    hard = max(soft, present[1], present_hard, SYSTEMD_NOFILE_HARD)
    return (soft, hard) if ceiling is None else (min(soft, ceiling), min(hard, ceiling))
