"""Knobs of limits: open files of host, processes and logins; locked memory; requests of libaio."""

from __future__ import annotations

from functools import partial
from typing import Final

from ..formulas import limits as formulas
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="limits")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="fs.file-max",
        title="Open files of the whole host",
        unit="count",
        comparison="at_least",
        recommend=formulas.file_max,
        reason="Above it every open and accept on the host fails.",
        detail="The kernel sizes it by memory, and systemd raises it to the maximum at boot, so often nothing changes. "
        "It must not be lower than the limit of one process.",
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
    ),
    _knob(
        id="fs.nr_open",
        title="Highest file limit that any process can have",
        unit="count",
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
    ),
    _knob(
        id="fs.aio-max-nr",
        title="Requests in flight of all programs that use libaio",
        unit="count",
        comparison="at_least",
        recommend=formulas.aio_max_nr,
        reason="Programs that use libaio fail to start when others have reserved all requests.",
        detail="It has no effect on page-cache I/O, and so none on a log broker; a database or a load generator such "
        "as fio may need it. /proc/sys/fs/aio-nr has the number in use. Programs reserve their share at start, so a "
        "fixed number without the share of others is too low on a shared host.",
        authorities=(
            Authority("kernel default", "65536", sources.KERNEL_FS),
            Authority("Redpanda rpk", "1048576", sources.REDPANDA),
            Authority("TuneD oracle, openshift", "1048576", sources.TUNED),
            Authority("ScyllaDB", "1048576", sources.SCYLLA),
        ),
        sources=(sources.KERNEL_FS, sources.REDPANDA),
        risk="low",
        risk_text="Programs may pin more kernel memory for requests.",
    ),
    _knob(
        id="login.nofile",
        title="Open files of a program that is started from a login",
        mechanism="login",
        path="/proc/self/limits",
        unit="count",
        scope="login",
        comparison="at_least",
        recommend=formulas.of_login(formulas.nofile),
        observe=formulas.observe_login_nofile,
        reason="A load generator or a broker started by hand stops at 1024 connections.",
        detail="The value shown is the soft limit of the session that ran the check; a program gets the soft limit "
        "unless it raises it itself. pam_limits sets it for new logins, also by ssh, and never for a systemd unit: "
        "that is unit.limit_nofile.",
        authorities=(
            Authority("Apache Kafka", "100000 at least", sources.KAFKA_OS),
            Authority("DataStax", "100000", sources.DATASTAX),
            Authority("TiUP", "1000000", sources.TIUP),
            Authority("systemd default", "1024 soft, 524288 hard", sources.SYSTEMD_EXEC),
        ),
        sources=(sources.PAM_LIMITS, sources.KAFKA_OS),
        risk="low",
        risk_text="With a limit above fs.nr_open no login would work, so Highwater refuses it.",
    ),
    _knob(
        id="login.memlock",
        title="Memory that a program started from a login may lock",
        mechanism="login",
        path="/proc/self/limits",
        unit="bytes",
        scope="login",
        comparison="at_least",
        recommend=formulas.of_login(formulas.login_memlock),
        observe=formulas.observe_login_memlock,
        reason="A disk benchmark that registers its buffers with io_uring fails at the default limit.",
        detail="Buffers that a program registers count against this limit. With unlimited, which databases ask for, "
        "every login could take all memory from the page cache, and the kernel could not reclaim it.",
        authorities=(
            Authority("systemd default", "8 MiB", sources.SYSTEMD_EXEC),
            Authority("DataStax", "unlimited", sources.DATASTAX),
        ),
        sources=(sources.IO_URING_REGISTER, sources.PAM_LIMITS),
        risk="low",
        risk_text="Each user may lock 64 MiB of the host's memory.",
    ),
)
