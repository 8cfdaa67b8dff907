"""Knobs of limits: open files, and what a service unit may use."""

from __future__ import annotations

from typing import Final

from ..formulas import limits as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import capability, sources

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="fs.file-max",
        title="Open files of the whole host",
        group="limits",
        mechanism="sysctl",
        path="/proc/sys/fs/file-max",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=constant(1_000_000, "1000000"),
        reason="Above it every open and accept on the host fails.",
        detail="Modern kernels size it by memory or leave it practically unlimited, so that this is often no change.",
        authorities=(Authority("TiUP", "1000000", sources.TIUP),),
        sources=(sources.KERNEL_FS, sources.TIUP),
        risk="low",
        risk_text="Each open file costs about 1 KiB of kernel memory.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="fs.nr_open",
        title="The most open files any process may be allowed",
        group="limits",
        mechanism="sysctl",
        path="/proc/sys/fs/nr_open",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=formulas.nr_open,
        reason="A file limit above it is refused: the unit does not start, the login fails.",
        detail="It is the ceiling of every RLIMIT_NOFILE and has to be raised before a limit above it is set.",
        authorities=(Authority("kernel default", "1048576", sources.KERNEL_FS),),
        sources=(sources.KERNEL_FS,),
        risk="low",
        risk_text="None known by itself.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="unit.limit_nofile",
        title="Open files that one process may hold",
        group="limits",
        mechanism="unit",
        path="systemctl show {target} --property=LimitNOFILE",
        unit="count",
        scope="unit",
        comparison="at_least",
        recommend=formulas.nofile,
        reason="Segments, indexes and sockets are all files; at the limit a broker stops accepting and rolling.",
        detail="The soft limit counts: a process meets it unless it raises it itself. The value shown is that of the "
        "session that ran the check. A systemd unit does not take its limits from /etc/security/limits.d but from "
        "LimitNOFILE=, and a login does not take them from the unit: the playbook writes both.",
        authorities=(
            Authority("Apache Kafka", "100000 at least", sources.KAFKA_OS),
            Authority("TiUP", "1000000", sources.TIUP),
            Authority("systemd default", "1024 soft, 524288 hard", sources.SYSTEMD_EXEC),
        ),
        sources=(sources.KAFKA_OS, sources.SYSTEMD_EXEC),
        risk="low",
        risk_text="Programs that close every possible descriptor at start take longer to start.",
        persistence="systemd drop-in",
        capability=capability.UNIT,
    ),
)
