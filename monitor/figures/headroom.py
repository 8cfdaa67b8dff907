"""Headroom: how much of what was measured to be possible is left, by broker and resource.

headroom = 1 − demand / ceiling. The ceiling is of a benchmark on a host of the same class; under other conditions than
those of the benchmark it may be another one, and the figure is then stale, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.ceilings import CONSUME, DISK_READ, DISK_WRITE, PRODUCE, Ceiling, Ceilings, HostClass
from highwater.common.host_answer import HostAnswer
from highwater.common.units import count_text, percent_text, plural, size_text
from highwater.monitor.figures.hosts import BrokerOnHost, HostFigures
from highwater.monitor.figures.rows import BrokerFigures, Level, PartitionFigures
from highwater.monitor.model import Host, Snapshot

CPU: Final = "CPU"
DISK_SPACE: Final = "disk space"
SHARES: Final = frozenset((CPU, DISK_SPACE))
"""Their demand is a share of what the host counts; that of the others is bytes per second."""
OF_HOST: Final = (CPU, DISK_WRITE, DISK_READ)
"""What all brokers of a host have together."""
WARN_RATIO: Final = 0.2
_GIB: Final = 1 << 30
# A produce request with batches this much smaller than those of the measurement costs clearly more for each byte.
_SMALLER_FACTOR: Final = 4
_SHOWN_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """What a broker is asked for now; None is not known."""

    broker_id: int
    bytes_in_per_s: float | None
    """Bytes from producers, and from the leaders that the broker follows."""
    bytes_out_per_s: float | None
    """To consumers and followers."""
    request_bytes: float | None
    """The mean size of a produce request."""
    disk_used_ratio: float | None


@dataclass(frozen=True, slots=True)
class Headroom:
    broker_id: int
    resource: str
    ratio: float | None
    """1 is all, 0 is nothing left, below 0 is more than was measured. None if it is not known."""
    demand: float | None = None
    """Bytes per second; of CPU and disk space, a share."""
    ceiling: float | None = None
    is_at_least: bool = False
    """The true ceiling may be higher, so that at least so much is left."""
    stale: tuple[str, ...] = ()
    """Why the ceiling may not hold here, one reason each; the figure is then shown in grey."""
    unknown: str = ""
    """Why there is no figure."""
    run: str = ""
    """The result that the ceiling comes from."""

    @property
    def level(self) -> Level:
        if self.ratio is None or self.stale:
            return Level.UNKNOWN
        return Level.OK if self.ratio >= WARN_RATIO else Level.WARN if self.ratio > 0 else Level.ERROR

    @property
    def sentence(self) -> str:
        """One sentence, without a full stop."""
        if self.ratio is None:
            return self.unknown
        if self.stale:
            return "; ".join(self.stale)
        if self.ratio < 0:
            return f"the demand for {self.resource} is more than was ever measured"
        return (
            f"{percent_text(max(0.0, self.ratio))} {'or more ' if self.is_at_least else ''}of {self.resource} is left"
        )


def left(demand: float, ceiling: float) -> float:
    return 1 - demand / ceiling


def headroom(
    demand: Demand, host: Host | None, row: HostFigures | None, ceilings: Sequence[Ceilings]
) -> list[Headroom]:
    """Return the rows of one broker. host, row: the broker's host; None if nothing reports which one it is."""
    rows = [_share(demand.broker_id, DISK_SPACE, demand.disk_used_ratio, "the broker does not report it")]
    if host is None or row is None or host.answer is None or row.is_silent:
        why = "no agent reports its host" if host is None else f"its host does not answer: {host.error}"
        known = (CPU, PRODUCE, CONSUME, DISK_WRITE, DISK_READ)
        return [*(Headroom(demand.broker_id, each, None, unknown=why) for each in known), *rows]
    cpu = _share(demand.broker_id, CPU, row.cpu_ratio, "known after the second answer of the host's agent")
    of_class = [each for each in ceilings if is_same_class(each.host, host.answer)]
    wanted = {
        PRODUCE: (demand.bytes_in_per_s, "it is not known how much is produced"),
        CONSUME: (
            demand.bytes_out_per_s,
            "the broker does not report what it sends: give its metrics page to the agent",
        ),
        DISK_WRITE: (row.written_bytes_per_s, "known after the second answer of the host's agent"),
        DISK_READ: (row.read_bytes_per_s, "known after the second answer of the host's agent"),
    }
    measured = [
        _measured(demand, resource, value, why, host.answer, of_class, ceilings)
        for resource, (value, why) in wanted.items()
    ]
    return [cpu, *measured, *rows]


def is_same_class(measured: HostClass, answer: HostAnswer) -> bool:
    """The same processors, and the same memory but for what firmware and kernel keep."""
    return (measured.cpu_model, measured.cpu_count) == (answer.cpu_model, answer.cpu.count) and abs(
        measured.memory_bytes - answer.memory.total_bytes
    ) < _GIB


def stale_reasons(of: Ceilings, ceiling: Ceiling, demand: Demand, answer: HostAnswer) -> tuple[str, ...]:
    """What is other than when the ceiling was measured. What one of the two does not say is no difference."""
    return tuple(_differences(of.host, ceiling, demand, answer))


def verdict(rows: Sequence[Headroom]) -> tuple[Level, str]:
    """The least headroom that is known and not stale, and how many are not."""
    known = [row for row in rows if row.ratio is not None and not row.stale]
    stale = sum(bool(row.stale) for row in rows)
    unknown = sum(row.ratio is None for row in rows)
    rest = [f"{count_text(number)} {what}" for number, what in ((stale, "grey"), (unknown, "not known")) if number]
    more = f" ({', '.join(rest)} of {plural(len(rows), 'figure')})" if rest else ""
    if not known:
        return Level.UNKNOWN, f"No headroom is known{more}."
    least = least_of(known)
    assert least is not None
    return least.level, f"Broker {least.broker_id} has the least headroom: {least.sentence}{more}."


def least_of(rows: Sequence[Headroom]) -> Headroom | None:
    """Return the least of the rows that are known and not stale; None if there is none."""
    known = [(row.ratio, row) for row in rows if row.ratio is not None and not row.stale]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def demand_of(broker: BrokerFigures, followed_bytes_per_s: float | None, process: BrokerOnHost | None) -> Demand:
    """followed_bytes_per_s: what the broker takes in as a follower."""
    used = None if broker.disk_usable_percent is None else 1 - broker.disk_usable_percent / 100
    parts = [value for value in (broker.bytes_in_per_s, followed_bytes_per_s) if value is not None]
    return Demand(
        broker.node_id,
        bytes_in_per_s=sum(parts) if parts else None,
        bytes_out_per_s=None if process is None else process.sent_bytes_per_s,
        request_bytes=None if process is None else process.request_bytes,
        disk_used_ratio=used,
    )


def host_of(broker_id: int, hosts: Mapping[str, Host]) -> Host | None:
    """If several have it, by mistake or under two names: one that answers."""
    found = [host for host in hosts.values() if broker_id in host.brokers]
    return min(found, key=lambda host: (host.answer is None, bool(host.error)), default=None)


def _share(broker_id: int, resource: str, used: float | None, why: str) -> Headroom:
    """Return the headroom of what the host itself counts: its CPUs, its file systems."""
    if used is None:
        return Headroom(broker_id, resource, None, unknown=why)
    return Headroom(broker_id, resource, left(used, 1.0), used, 1.0)


def _measured(
    demand: Demand,
    resource: str,
    value: float | None,
    why: str,
    answer: HostAnswer,
    of_class: Sequence[Ceilings],
    all_ceilings: Sequence[Ceilings],
) -> Headroom:
    found = [
        (stale_reasons(each, ceiling, demand, answer), ceiling)
        for each in of_class
        for ceiling in each.ceilings
        if ceiling.resource == resource
    ]
    if not found:
        return Headroom(
            demand.broker_id, resource, None, value, unknown=_no_ceiling(resource, answer, of_class, all_ceilings)
        )
    stale, ceiling = min(found, key=lambda pair: (len(pair[0]), -pair[1].bytes_per_s))
    if value is None:
        return Headroom(demand.broker_id, resource, None, None, ceiling.bytes_per_s, unknown=why, run=ceiling.run)
    return Headroom(
        demand.broker_id,
        resource,
        left(value, ceiling.bytes_per_s),
        value,
        ceiling.bytes_per_s,
        ceiling.is_at_least,
        stale,
        run=ceiling.run,
    )


def _no_ceiling(
    resource: str, answer: HostAnswer, of_class: Sequence[Ceilings], all_ceilings: Sequence[Ceilings]
) -> str:
    if not all_ceilings:
        return "no ceiling was measured: see ceilings in the file"
    if not of_class:
        memory = size_text(answer.memory.total_bytes)
        what = f"{answer.cpu.count} × {answer.cpu_model or '?'}, {memory}"
        return f"no ceiling was measured on a host like this one ({what})"
    return f"no ceiling of {resource} was measured on a host like this one"


def _differences(measured: HostClass, ceiling: Ceiling, demand: Demand, answer: HostAnswer) -> Iterator[str]:
    if measured.kernel != answer.kernel:
        yield f"the kernel is {answer.kernel}, the measurement was on {measured.kernel}"
    tuning = answer.tuning
    if tuning is not None and tuning.fingerprint != measured.tuning_fingerprint:
        now, then = tuning.fingerprint[:_SHOWN_DIGITS], measured.tuning_fingerprint[:_SHOWN_DIGITS]
        yield f"the host's settings are {now}, those of the measurement were {then}"
    product, _, version = ceiling.system.partition(" ")
    if ceiling.resource in (PRODUCE, CONSUME) and product == "highwater" and version != answer.version:
        yield f"Highwater is {answer.version}, that of the measurement was {version}"
    of_broker = [each for each in answer.directories if each.broker_id == demand.broker_id]
    media = {disk.medium for disk in answer.disks if any(disk.name in each.devices for each in of_broker)}
    if ceiling.medium and media and media != {ceiling.medium}:
        yield f"its log is on {', '.join(sorted(media))}, the measurement was on {ceiling.medium}"
    systems = {each.file_system for each in of_broker if each.file_system}
    if ceiling.resource in (PRODUCE, CONSUME) and ceiling.file_system and systems and systems != {ceiling.file_system}:
        yield f"its log is on {', '.join(sorted(systems))}, the measurement was on {ceiling.file_system}"
    request, batch = demand.request_bytes, ceiling.batch_bytes
    if ceiling.resource == PRODUCE and request is not None and batch is not None and request * _SMALLER_FACTOR < batch:
        yield f"a produce request has {size_text(request)}, the batches of the measurement had up to {size_text(batch)}"


def headroom_of(
    snapshot: Snapshot,
    brokers: Mapping[int, BrokerFigures],
    partitions: Mapping[str, Sequence[PartitionFigures]],
    hosts: Mapping[str, HostFigures],
    ceilings: Sequence[Ceilings],
) -> tuple[Headroom, ...]:
    """Return the rows of all live brokers, in their order; empty if no host and no ceiling is known."""
    if not hosts and not ceilings:
        return ()
    followed = _followed(snapshot, partitions)
    rows: list[Headroom] = []
    for broker in brokers.values():
        if not broker.is_alive:
            continue
        host = host_of(broker.node_id, snapshot.hosts)
        row = None if host is None else hosts.get(host.name)
        processes = () if row is None else row.processes
        process = next((each for each in processes if each.broker_id == broker.node_id), None)
        rows += headroom(demand_of(broker, followed.get(broker.node_id), process), host, row, ceilings)
    return tuple(rows)


def _followed(snapshot: Snapshot, partitions: Mapping[str, Sequence[PartitionFigures]]) -> dict[int, float]:
    """Bytes per second that each broker takes in as a follower."""
    found: dict[int, float] = {}
    for name, topic in snapshot.topics.items():
        for partition, row in zip(topic.partitions, partitions.get(name, ()), strict=False):
            if row.bytes_in_per_s:
                for broker in partition.in_sync_replicas:
                    if broker != partition.leader:
                        found[broker] = found.get(broker, 0.0) + row.bytes_in_per_s
    return found
