"""Host profiles: named sets of kernel settings that a benchmark puts in force for a while, and takes back.

A profile is data. It says what to write and why; `tuning.profile_session` writes, verifies and restores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from .catalogue import KNOBS
from .check import render, report_on, sysctl_path
from .errors import TuningError, nearest_match
from .facts import Facts
from .workload import Workload


@dataclass(frozen=True)
class Setting:
    """A file of /proc/sys or /sys and the text to write. `where_present`: a host without the file does without."""

    path: str
    value: str
    reason: str
    where_present: bool = False


@dataclass(frozen=True)
class Profile:
    name: str
    purpose: str
    settings: Callable[[Facts, Workload], Iterator[Setting]]


def _recommended(facts: Facts, workload: Workload) -> Iterator[Setting]:
    for knob in KNOBS:
        if knob.mechanism != "sysctl":
            continue  # mounts, limits and disks are not for a moment
        report = report_on(knob, facts, workload)
        if report.state == "differs" and report.recommended is not None:
            present = " ".join((facts.files.read(knob.path).text or "").split())
            yield Setting(knob.path, render(knob, report.recommended, present), knob.reason)


def _fixed(*settings: Setting) -> Callable[[Facts, Workload], Iterator[Setting]]:
    return lambda _facts, _workload: iter(settings)


def _sysctl(key: str, value: str, reason: str, *, where_present: bool = False) -> Setting:
    return Setting(sysctl_path(key), value, reason, where_present)


PROFILES: Final = (
    Profile("recommended", "what `highwater tune check` recommends for this host, of its sysctls", _recommended),
    Profile(
        "notes",
        "what the lecture notes behind this project ask for",
        _fixed(
            _sysctl("net.core.rmem_max", "524288000", "The notes' own figure for the largest receive buffer."),
            _sysctl("vm.swappiness", "1", "The notes want swap off; this is as near as a setting comes."),
            _sysctl(
                "vm.dirty_writeback_centisecs",
                "1500",
                "The notes want longer flush intervals, without a figure; this is three times the kernel's default.",
            ),
            _sysctl("vm.dirty_expire_centisecs", "9000", "As vm.dirty_writeback_centisecs, three times the default."),
        ),
    ),
    Profile(
        "benchmark-repeatable",
        "less noise, not more speed: what makes two runs of the same thing differ is turned off",
        _fixed(
            _sysctl("vm.swappiness", "1", "Memory that is swapped out in one trial is read back in the next."),
            _sysctl("vm.stat_interval", "10", "Fewer wake-ups of every CPU for statistics."),
            _sysctl(
                "kernel.perf_event_max_sample_rate", "1", "Profilers cannot interrupt a trial.", where_present=True
            ),
            _sysctl("kernel.nmi_watchdog", "0", "Its interrupts use a hardware counter.", where_present=True),
            _sysctl("kernel.numa_balancing", "0", "Pages do not wander between nodes.", where_present=True),
            Setting(
                "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
                "performance",
                "A clock that follows the load makes light trials slow.",
                where_present=True,
            ),
            Setting(
                "/sys/devices/system/cpu/intel_pstate/no_turbo",
                "1",
                "Turbo depends on temperature, and so on what ran before.",
                where_present=True,
            ),
            Setting(
                "/sys/devices/system/cpu/cpufreq/boost", "0", "As no_turbo, on other processors.", where_present=True
            ),
        ),
    ),
)
PROFILE_NAMES: Final = tuple(profile.name for profile in PROFILES)


def find_profile(name: str) -> Profile:
    """Raises TuningError for a name that there is none of."""
    for profile in PROFILES:
        if profile.name == name:
            return profile
    known = ", ".join(PROFILE_NAMES)
    raise TuningError(f"no host profile is called {name!r}{nearest_match(name, PROFILE_NAMES)} (known: {known})")
