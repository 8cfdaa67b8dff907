"""What the agent of a host reports, as frozen values and as JSON: the schema host.agent/1.

Counters are cumulative, so that who reads them twice has a rate, however long it is in between. None is what the host
does not report; `problems` says why. It holds no secret: no environment, no command line, no content of a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from .typed_json import DamagedError, parse_json, read_as

SCHEMA: Final = "host.agent/1"
_FAMILY: Final = "host.agent/"
_LONGEST_SHOWN: Final = 40


class AnswerError(ValueError):
    """It is no answer of an agent that this program knows. One sentence."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """Seconds of CPU time since boot, of all CPUs together."""

    count: int
    busy_s: float
    """All but idle and waiting for disks."""
    steal_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Figures of /proc/meminfo and /proc/vmstat."""

    total_bytes: int
    available_bytes: int
    cached_bytes: int
    """Page cache, with shared memory."""
    shared_bytes: int
    """Cached bytes that are no file on a disk (Shmem)."""
    dirty_bytes: int
    writeback_bytes: int
    dirty_background_bytes: int | None = None
    """The kernel writes back above this (nr_dirty_background_threshold)."""
    dirty_limit_bytes: int | None = None
    """Writers have to wait above this (nr_dirty_threshold)."""


@dataclass(frozen=True, slots=True)
class Network:
    """Since boot, of all interfaces but loopback."""

    received_bytes: int
    sent_bytes: int
    loopback_bytes: int


@dataclass(frozen=True, slots=True)
class Disk:
    """A device below a log directory, since boot."""

    name: str
    medium: str
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int
    busy_ms: int
    """Time in which the disk had something to do."""


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory of a broker."""

    path: str
    broker_id: int | None
    """The broker's number in its meta.properties."""
    cluster_id: str = ""
    devices: tuple[str, ...] = ()
    """Names of disks."""
    file_system: str = ""
    total_bytes: int | None = None
    free_bytes: int | None = None
    """For users without special rights."""
    log_bytes: int | None = None
    """Bytes of its segments, seconds ago."""
    resident_bytes: int | None = None
    """Bytes of the segments in the page cache (cachestat)."""
    unwritten_bytes: int | None = None
    """Bytes of the segments that are not on the disk yet."""


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A broker on this host: the process that has the lock of its log directories."""

    broker_id: int | None
    cluster_id: str
    process_id: int | None
    """None while it does not run."""
    started_ms: int | None = None
    """Unix time."""
    cpu_s: float | None = None
    """CPU time of the process with its children."""
    rss_bytes: int | None = None
    read_bytes: int | None = None
    """What its reads took from disks since its start; the rest of what it sent came from memory."""
    written_bytes: int | None = None
    """What it made dirty since its start."""
    metrics: Mapping[str, float] | None = None
    """Samples without labels of the broker's own page; None if the agent does not know the address."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A setting that is not as it was applied."""

    parameter: str
    target: str
    """The disk, directory or unit; empty for the whole host."""
    applied: str
    now: str
    note: str = ""

    @property
    def sentence(self) -> str:
        of = f" of {self.target}" if self.target else ""
        return f"{self.parameter}{of} is {self.now or '?'}, applied was {self.applied}"


@dataclass(frozen=True, slots=True)
class Tuning:
    fingerprint: str
    """SHA-256 over the host-wide settings."""
    profile: str = ""
    """Who applied what is applied: `highwater tune apply`, or a playbook; empty if nothing is."""
    applied_utc: str = ""
    in_effect: int = 0
    """Settings that are as they were applied."""
    waiting: int = 0
    """Settings that wait for a restart or a new login."""
    drift: tuple[Drift, ...] = ()
    interrupted: str = ""
    """What an interrupted run left, with the remedy."""
    differs_from_recommended: int | None = None
    """How many settings `highwater tune check` would change on a host without anything applied."""


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """One host at one time."""

    host: str
    boot_id: str
    at_ms: int
    """Unix time."""
    monotonic_ms: int
    """For rates."""
    kernel: str
    version: str
    """The version of Highwater."""
    cpu: Cpu
    memory: Memory
    network: Network
    cpu_model: str = ""
    runs_in: str = ""
    """A container or virtual machine that it is."""
    pressure_s: Mapping[str, float] = field(default_factory=dict)
    """Stalled time since boot (PSI), such as `io_some` and `io_full`; empty on kernels without it."""
    disks: tuple[Disk, ...] = ()
    directories: tuple[LogDirectory, ...] = ()
    brokers: tuple[BrokerProcess, ...] = ()
    tuning: Tuning | None = None
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""
    schema: str = SCHEMA

    def as_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def parse_answer(text: str | bytes) -> HostAnswer:
    """Raises AnswerError for what is no answer of this schema. Keys that this program does not know are left out."""
    try:
        told = parse_json(text)
    except ValueError:
        raise AnswerError("it does not answer in JSON: is there an agent of Highwater at this address?") from None
    schema = told.get("schema") if isinstance(told, dict) else None
    if not isinstance(schema, str) or not schema.startswith(_FAMILY):
        raise AnswerError("what answers there is no agent of Highwater")
    if schema != SCHEMA:
        raise AnswerError(
            f"its agent speaks {schema[:_LONGEST_SHOWN]}, and this program {SCHEMA}: "
            "install the same version of Highwater on both"
        )
    try:
        return read_as(HostAnswer, told)
    except DamagedError as error:
        raise AnswerError(f"its agent's answer is damaged: {error}") from None
