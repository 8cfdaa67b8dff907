"""Knobs of limits: open files of host, processes and logins; locked memory; requests of libaio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..formulas import limits as formulas
from ..model import Authority, Knob
from . import capability, sources

ROWS: Final[Mapping[int, tuple[str, ...]]] = {
    18: ("fs.file-max",),
    19: ("fs.nr_open",),
    23: ("login.nofile", "login.memlock"),
    24: ("fs.aio-max-nr",),
}

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
        recommend=formulas.file_max,
        reason="Above it every open and accept on the host fails.",
        detail="The kernel sizes it by memory, and systemd lifts it out of the way at boot, so that this is often no "
        "change. It cannot usefully be lower than what one process may hold.",
        authorities=(
            Authority("kernel default", "a tenth of the KiB of memory", sources.KERNEL_FS),
            Authority("systemd default since 240", "9223372036854775807", sources.SYSTEMD_FILES),
            Authority("TiUP", "1000000", sources.TIUP),
            Authority("Redpanda, Ansible collection", "1048576", sources.REDPANDA_ANSIBLE),
            Authority("TuneD oracle", "6815744", sources.TUNED),
            Authority("ScyllaDB", "9223372036854775807", sources.SCYLLA),
        ),
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
        authorities=(
            Authority("kernel default", "1048576", sources.KERNEL_FS),
            Authority("systemd default since 240", "1073741816", sources.SYSTEMD_FILES),
            Authority("ScyllaDB", "1073741816", sources.SCYLLA),
        ),
        sources=(sources.KERNEL_FS,),
        risk="low",
        risk_text="None known by itself.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="fs.aio-max-nr",
        title="Requests that all programs together may have under way with libaio",
        group="limits",
        mechanism="sysctl",
        path="/proc/sys/fs/aio-max-nr",
        unit="count",
        scope="host",
        comparison="at_least",
        recommend=formulas.aio_max_nr,
        reason="Programs that use libaio fail to start when others have taken all of it.",
        detail="It has no effect on page-cache I/O, and so none on a log broker; a database or a load generator such "
        "as fio beside it may need it. What is in use is in /proc/sys/fs/aio-nr, and programs take their share at "
        "start: a fixed number that forgets the others' share is too low on a shared host.",
        authorities=(
            Authority("kernel default", "65536", sources.KERNEL_FS),
            Authority("Redpanda rpk", "1048576", sources.REDPANDA),
            Authority("TuneD oracle, openshift", "1048576", sources.TUNED),
            Authority("ScyllaDB", "1048576", sources.SCYLLA),
        ),
        sources=(sources.KERNEL_FS, sources.REDPANDA),
        risk="low",
        risk_text="Programs may pin more kernel memory for requests.",
        persistence="sysctl.d",
        capability=capability.HOST_ONLY,
    ),
    Knob(
        id="login.nofile",
        title="Open files of a program that is started from a login",
        group="limits",
        mechanism="login",
        path="/proc/self/limits",
        unit="count",
        scope="login",
        comparison="at_least",
        recommend=formulas.of_login(formulas.nofile),
        observe=formulas.observe_login_nofile,
        reason="A load generator or a broker started by hand stops at 1024 connections.",
        detail="The value shown is that of the session that ran the check; the soft limit counts, as a program meets "
        "it unless it raises it itself. pam_limits gives it to new logins, by ssh as well, and never to a systemd "
        "unit: that is unit.limit_nofile.",
        authorities=(
            Authority("Apache Kafka", "100000 at least", sources.KAFKA_OS),
            Authority("DataStax", "100000", sources.DATASTAX),
            Authority("TiUP", "1000000", sources.TIUP),
            Authority("systemd default", "1024 soft, 524288 hard", sources.SYSTEMD_EXEC),
        ),
        sources=(sources.PAM_LIMITS, sources.KAFKA_OS),
        risk="low",
        risk_text="A limit above fs.nr_open would keep everybody from logging in, and is refused here.",
        persistence="limits.d",
        capability=capability.LOGIN,
    ),
    Knob(
        id="login.memlock",
        title="Memory that a program started from a login may lock",
        group="limits",
        mechanism="login",
        path="/proc/self/limits",
        unit="bytes",
        scope="login",
        comparison="at_least",
        recommend=formulas.of_login(formulas.login_memlock),
        observe=formulas.observe_login_memlock,
        reason="A disk benchmark that registers its buffers with io_uring fails for want of some MiB.",
        detail="Buffers that a program registers count against it. unlimited, as databases ask for, would let every "
        "login take all memory away from page cache, where it cannot be got back.",
        authorities=(
            Authority("systemd default", "8 MiB", sources.SYSTEMD_EXEC),
            Authority("DataStax", "unlimited", sources.DATASTAX),
        ),
        sources=(sources.IO_URING_REGISTER, sources.PAM_LIMITS),
        risk="low",
        risk_text="Each user may withhold 64 MiB from the rest of the host.",
        persistence="limits.d",
        capability=capability.LOGIN,
    ),
)
