"""Knobs of the kernel as a whole: what it does when it fails, and its clock against others'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..formulas import kernel as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import capability, sources

ROWS: Final[Mapping[int, tuple[str, ...]]] = {
    78: ("clock.sync",),
    79: ("kernel.core_pattern",),
    80: ("kernel.panic_on_oops",),
}

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="clock.sync",
        title="Synchronisation of the clock with other hosts",
        group="kernel",
        mechanism="advice",
        path="timedatectl show --property=NTPSynchronized",
        unit="",
        scope="host",
        comparison="equal",
        recommend=formulas.clock_sync,
        observe=formulas.observe_clock,
        reason="A latency measured between two hosts is wrong by the difference of their clocks.",
        detail="Records carry the time of the producer or of the broker, and retention, offsets by time and end-to-end "
        "latency are computed from it. Below 1 ms between hosts, which chrony reaches on one network, measurements "
        "across hosts mean something. `chronyc tracking` tells the offset; it cannot be read from a file.",
        authorities=(
            Authority("Redpanda rpk check", "synchronised", sources.REDPANDA),
            Authority("TiUP", "within 500 ms", sources.TIUP),
            Authority("DataStax", "synchronised", sources.DATASTAX),
        ),
        sources=(sources.REDPANDA, sources.TIUP),
        risk="low",
        risk_text="A clock that is stepped while a broker runs makes timestamps go backwards.",
        persistence="nothing",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="kernel.core_pattern",
        title="Where the memory of a crashed process is written",
        group="kernel",
        mechanism="advice",
        path="/proc/sys/kernel/core_pattern",
        unit="",
        scope="host",
        comparison="equal",
        recommend=formulas.core_pattern,
        observe=formulas.observe_core_pattern,
        reason="A dump as big as the process, in the working directory, may fill the disk of the log.",
        detail="A plain name is written where the process was started, for a broker often its data directory; a "
        "handler such as systemd-coredump compresses and bounds what it keeps. The distribution's crash handler owns "
        "this setting, so that it is looked at here and never taken over.",
        authorities=(
            Authority("kernel default", "core", sources.KERNEL_KERNEL),
            Authority("Redpanda rpk", "a script of its own", sources.REDPANDA),
        ),
        sources=(sources.CORE, sources.KERNEL_KERNEL),
        risk="medium",
        risk_text="A pattern that somebody else's crash reports depend on is lost when it is overwritten.",
        persistence="nothing",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="kernel.panic_on_oops",
        title="Whether the machine stops at an error in the kernel",
        group="kernel",
        mechanism="sysctl",
        path="/proc/sys/kernel/panic_on_oops",
        unit="count",
        scope="host",
        comparison="equal",
        recommend=constant(1, "1: replicas take over from a host that is gone, and not from one that limps"),
        reason="After an error in the kernel a broker may hang half alive, and its cluster waits for it.",
        detail="The process that met the error is killed with whatever locks it held. In a cluster a clean failure is "
        "better; on a single host it turns a fault that might be survived into an outage. With kernel.panic=N the "
        "machine restarts after N seconds; with 0 it stays down.",
        authorities=(
            Authority("kernel default", "0, unless it was built otherwise", sources.KERNEL_KERNEL),
            Authority("TuneD oracle", "1", sources.TUNED),
        ),
        sources=(sources.KERNEL_KERNEL,),
        risk="medium",
        risk_text="Any error in the kernel takes the machine down at once, with unwritten data.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
        only_if_named="it trades unwritten data and a running machine for a clean failure: for clusters with replicas",
    ),
)
