"""Formulas for limits: open files of host, units and logins, threads, and locked memory."""

from __future__ import annotations

from typing import Final

from ...common.units import size_text
from ..facts.model import Facts
from ..facts.reading import parse_whole
from ..model import Formula, NotApplicable, Observation, Target, Value
from ..workload import Workload
from .common import MIB

_KAFKA_NOFILE: Final = 100_000
# systemd's default hard limit since version 240; a lower value would reduce it.
SYSTEMD_NOFILE_HARD: Final = 524_288
# Elasticsearch does not start below it; for a broker with fewer threads it does no harm.
_THREADS: Final = 4096
_THREADS_PER_CPU: Final = 16
# Requests in flight for another program that uses libaio.
_AIO_HEADROOM: Final = 65_536
_AIO_USUAL: Final = 1_048_576
INFINITY: Final = "infinity"
UNLIMITED: Final[tuple[Value, ...]] = (INFINITY,)


def of_login(formula: Formula) -> Formula:
    """The formula, for a host whose logins go through pam_limits."""

    def where_pam_is(facts: Facts, workload: Workload, target: str) -> Target | NotApplicable:
        if not facts.files.exists("/etc/security"):
            return NotApplicable("this host has no pam_limits, so that no login can get the limit")
        return formula(facts, workload, target)

    where_pam_is.__doc__ = formula.__doc__
    return where_pam_is


def nofile(_facts: Facts, workload: Workload, _target: str) -> Target:
    """the larger of 100000 and 1.2 × (3 files × segments + connections)"""
    files = round(1.2 * (3 * workload.segments + workload.connections))
    return Target(
        max(_KAFKA_NOFILE, files),
        f"{_KAFKA_NOFILE}, 1.2 × (3 files × {workload.segments} segments "
        f"+ {workload.connections} connections) = {files}",
        also=UNLIMITED,
    )


def nr_open(facts: Facts, workload: Workload, target: str) -> Target:
    """the larger of 524288, systemd's hard limit, and the file limit of the broker's unit"""
    wanted = nofile(facts, workload, target).value
    assert isinstance(wanted, int)
    value = max(wanted, SYSTEMD_NOFILE_HARD)
    return Target(value, f"{SYSTEMD_NOFILE_HARD} (systemd's hard limit), {wanted} (unit.limit_nofile)")


def file_max(facts: Facts, workload: Workload, target: str) -> Target:
    """the larger of 1000000 and twice the file limit of the broker's unit"""
    wanted = nofile(facts, workload, target).value
    assert isinstance(wanted, int)
    return Target(max(1_000_000, 2 * wanted), f"1000000, 2 × {wanted} (unit.limit_nofile) = {2 * wanted}")


def aio_max_nr(facts: Facts, _workload: Workload, _target: str) -> Target | NotApplicable:
    """the larger of 1048576 and the requests in use now + 65536, if any program uses libaio; brokers do not"""
    used = parse_whole(facts.files.read("/proc/sys/fs/aio-nr").text or "")
    if used == 0:
        return NotApplicable("no program uses libaio now (fs.aio-nr is 0), and brokers write through the page cache")
    wanted = (used or 0) + _AIO_HEADROOM
    in_use = "an unknown number in use" if used is None else f"{used} in use"
    return Target(max(_AIO_USUAL, wanted), f"{_AIO_USUAL}, {in_use} + {_AIO_HEADROOM} = {wanted}")


def threads(facts: Facts, _workload: Workload, _target: str) -> Target:
    """the larger of 4096 and 2 × 16 threads × processors + 1024"""
    cpus = facts.cpu_count
    if cpus is None:
        return Target(_THREADS, f"{_THREADS} (the number of processors is not known)", also=UNLIMITED)
    estimate = 2 * _THREADS_PER_CPU * cpus + 1024
    return Target(
        max(_THREADS, estimate),
        f"{_THREADS}, 2 × {_THREADS_PER_CPU} threads × {cpus} processors + 1024 = {estimate}",
        also=UNLIMITED,
    )


def login_memlock(_facts: Facts, _workload: Workload, _target: str) -> Target:
    """64 MiB: room for the buffers that load generators register with io_uring"""
    return Target(64 * MIB, "64 MiB, for buffers registered with io_uring", also=UNLIMITED)


def observe_login_nofile(facts: Facts, _target: str) -> Observation:
    """The soft limit of the session that runs this program; a program gets the soft limit."""
    if facts.nofile_soft is None:
        return Observation(None, facts.unknown.get("nofile", "the limit is not known"))
    return Observation(facts.nofile_soft, f"{facts.nofile_soft} (hard {facts.nofile_hard})")


def observe_login_memlock(facts: Facts, _target: str) -> Observation:
    limit = facts.limits.get("memlock")
    if limit is None:
        return Observation(None, facts.unknown.get("memlock", "the limit is not known"))
    if limit.soft is None:
        return Observation(INFINITY, INFINITY)
    hard = INFINITY if limit.hard is None else size_text(limit.hard)
    return Observation(limit.soft, f"{size_text(limit.soft)} (hard {hard})")
