"""Formulas for the kernel as a whole: its behaviour on failures, and its clock."""

from __future__ import annotations

from typing import Final

from ...common.units import size_text
from ..facts.model import Facts
from ..model import NotApplicable, Observation, Target
from ..workload import Workload
from .common import broker_memory

# systemd-timesyncd creates it after it has set the clock.
_SYNCHRONISED: Final = "/run/systemd/timesync/synchronized"
_DAEMONS: Final = {
    "/run/chrony/chronyd.pid": "chronyd",
    "/run/chronyd.pid": "chronyd",
    "/run/ntpd.pid": "ntpd",
    "/run/openntpd.pid": "ntpd",
}


def clock_sync(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """synchronised, to less than 1 ms between hosts whose clocks are compared"""
    if facts.container is not None:
        return NotApplicable("a container has the clock of its host: check it there")
    return Target("synchronised", "synchronised; a running daemon counts as synchronised", also=("a daemon runs",))


def core_pattern(_facts: Facts, workload: Workload, _target: str) -> Target:
    """to a program, or to an absolute path with room for the whole process: never into the working directory"""
    size, text = broker_memory(workload)
    return Target(
        "to a program",
        f"to a program or to an absolute path; a dump may be {size_text(size)} ({text})",
        also=("to an absolute path", "nowhere"),
    )


def observe_clock(facts: Facts, _target: str) -> Observation:
    if facts.files.exists(_SYNCHRONISED):
        return Observation("synchronised", "synchronised by systemd-timesyncd")
    for path, daemon in _DAEMONS.items():
        if facts.files.exists(path):
            return Observation("a daemon runs", f"{daemon} runs; its offset is not visible here")
    if not facts.files.exists("/run"):
        return Observation(None, "/run does not exist, so a daemon that sets the clock cannot be found")
    return Observation("not synchronised", "no program that sets the clock was found")


def observe_core_pattern(facts: Facts, _target: str) -> Observation:
    reading = facts.files.read("/proc/sys/kernel/core_pattern")
    if reading.text is None:
        return Observation(None, reading.reason)
    if reading.text.startswith("|"):
        return Observation("to a program", f"to a program: {reading.text}")
    if reading.text.startswith("/"):
        return Observation("to an absolute path", f"to an absolute path: {reading.text}")
    if not reading.text:
        return Observation("nowhere", "nowhere: the pattern is empty")
    return Observation("into the working directory", f"into the working directory: {reading.text}")
