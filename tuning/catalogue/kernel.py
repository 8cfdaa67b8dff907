"""Knobs of the kernel as a whole: its behaviour on failures, and its clock."""

from __future__ import annotations

from functools import partial
from typing import Final

from ..formulas import kernel as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="kernel")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="clock.sync",
        title="Synchronisation of the clock with other hosts",
        mechanism="advice",
        path="timedatectl show --property=NTPSynchronized",
        unit="",
        recommend=formulas.clock_sync,
        observe=formulas.observe_clock,
        reason="A latency measured between two hosts is wrong by the difference of their clocks.",
        detail="Records have the time of the producer or of the broker; retention, offsets by time and end-to-end "
        "latency are computed from it. Measurements across hosts are meaningful with an offset below 1 ms, which "
        "chrony reaches on one network. `chronyc tracking` shows the offset; it cannot be read from a file.",
        authorities=(
            Authority("Redpanda rpk check", "synchronised", sources.REDPANDA),
            Authority("TiUP", "within 500 ms", sources.TIUP),
            Authority("DataStax", "synchronised", sources.DATASTAX),
        ),
        sources=(sources.REDPANDA, sources.TIUP),
        risk="low",
        risk_text="A clock that is stepped while a broker runs makes timestamps go backwards.",
    ),
    _knob(
        id="kernel.core_pattern",
        title="Where the memory of a crashed process is written",
        mechanism="advice",
        unit="",
        recommend=formulas.core_pattern,
        observe=formulas.observe_core_pattern,
        reason="A dump as large as the process, in the working directory, may fill the disk of the log.",
        detail="A plain name is written to the working directory, for a broker often its data directory. A handler "
        "such as systemd-coredump compresses and limits its dumps. The distribution's crash handler owns this "
        "setting, so Highwater checks it and never changes it.",
        authorities=(
            Authority("kernel default", "core", sources.KERNEL_KERNEL),
            Authority("Redpanda rpk", "a script of its own", sources.REDPANDA),
        ),
        sources=(sources.CORE, sources.KERNEL_KERNEL),
        risk="medium",
        risk_text="Crash reports of other programs may depend on the current pattern.",
    ),
    _knob(
        id="kernel.panic_on_oops",
        title="Whether an error in the kernel stops the machine",
        unit="count",
        recommend=constant(1, "1: replicas take over from a dead host, but not from one that half works"),
        reason="After an error in the kernel a broker may half work, and its cluster waits for it.",
        detail="The kernel kills the process in which the error happened, with the locks that the process holds. In a "
        "cluster a clean failure is better; on a single host it turns a survivable fault into an outage. With "
        "kernel.panic=N the machine restarts after N seconds; with 0 it stays down.",
        authorities=(
            Authority("kernel default", "0, unless it was built otherwise", sources.KERNEL_KERNEL),
            Authority("TuneD oracle", "1", sources.TUNED),
        ),
        sources=(sources.KERNEL_KERNEL,),
        risk="medium",
        risk_text="Any error in the kernel takes the machine down at once, with unwritten data.",
        only_if_named="it trades unwritten data and a running machine for a clean failure: for clusters with replicas",
    ),
)
