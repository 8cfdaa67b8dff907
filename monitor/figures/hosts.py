"""Rows of hosts: how loaded each is, what its page cache serves, whether it is tuned as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.common.host_answer import BrokerProcess, HostAnswer, Tuning
from highwater.common.units import percent_text, plural, wait_text
from highwater.monitor.figures.memory import BYTES_IN, BYTES_OUT
from highwater.monitor.figures.rows import Level
from highwater.monitor.figures.sums import known_max, known_sum
from highwater.monitor.model import Host, Snapshot

# From here on a short burst makes producers wait for the disk.
UNWRITTEN_WARN_RATIO: Final = 0.9
_OLD_AFTER_MS: Final = 90_000
_SHOWN: Final = 3
_SENT: Final = (BYTES_OUT, "kafka_server_brokertopicmetrics_replicationbytesout_total")
_PRODUCE_REQUESTS: Final = "kafka_server_brokertopicmetrics_totalproducerequests_total"


@dataclass(frozen=True, slots=True)
class BrokerOnHost:
    """What a host's agent says of one broker. Rates are of the last minute."""

    broker_id: int
    cpu_cores: float | None
    rss_bytes: int | None
    read_bytes_per_s: float | None
    """What its reads took from disks."""
    sent_bytes_per_s: float | None
    """To consumers and followers, by the broker's own counters."""
    cache_served_ratio: float | None
    """Share of the sent bytes that came from the page cache; None while nothing is sent."""
    request_bytes: float | None = None
    """The mean size of a produce request."""


@dataclass(frozen=True, slots=True)
class DiskFigures:
    name: str
    medium: str
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    busy_ratio: float | None


@dataclass(frozen=True, slots=True)
class HostFigures:
    name: str
    level: Level
    sentence: str
    is_tuned: bool | None
    """All that was applied is as it was applied; None if nothing is applied, or it is not known."""
    brokers: tuple[int, ...]
    drifted: int | None = None
    """Settings that are not as they were applied; None if that is not known now."""
    is_silent: bool = False
    """It has not answered for so long that all of this may be other than it was."""
    cpu_ratio: float | None = None
    """The share of all CPUs' time that was busy in the last minute."""
    steal_ratio: float | None = None
    io_wait_ratio: float | None = None
    """Share of time in which something waited for a disk (PSI)."""
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    page_cache_bytes: int | None = None
    """Without shared memory."""
    unwritten_bytes: int | None = None
    """Dirty, and under write-back."""
    unwritten_ratio: float | None = None
    """Unwritten bytes by the limit at which writers have to wait: at 1 they wait."""
    log_bytes: int | None = None
    resident_bytes: int | None = None
    """Bytes of the logs that are in memory."""
    read_bytes_per_s: float | None = None
    """The sum of all disks below logs."""
    written_bytes_per_s: float | None = None
    received_bytes_per_s: float | None = None
    sent_bytes_per_s: float | None = None
    disks: tuple[DiskFigures, ...] = ()
    processes: tuple[BrokerOnHost, ...] = ()

    @property
    def busiest_disk_ratio(self) -> float | None:
        return known_max(disk.busy_ratio for disk in self.disks)


def host_figures(host: Host, answers: Sequence[HostAnswer], snapshot: Snapshot) -> HostFigures:
    """answers: of the last minute and of one boot, the oldest first, the newest one last."""
    answer = host.answer
    if answer is None:
        sentence = f"Nothing is known about it: {host.error}."
        return HostFigures(host.name, Level.UNKNOWN, sentence, None, host.brokers, is_silent=True)
    first = answers[0] if len(answers) > 1 else None
    memory = answer.memory
    unwritten_bytes = memory.dirty_bytes + memory.writeback_bytes
    unwritten_ratio = unwritten_bytes / memory.dirty_limit_bytes if memory.dirty_limit_bytes else None
    level, sentence = _judge(host, answer, unwritten_ratio, snapshot)
    is_silent = is_old(host, snapshot.taken_at_ms)
    disks = tuple(_disks(first, answer))
    return HostFigures(
        name=host.name,
        level=level,
        sentence=sentence,
        is_tuned=None if answer.tuning is None or not answer.tuning.profile else not answer.tuning.drift,
        brokers=host.brokers,
        drifted=None if answer.tuning is None or is_silent else len(answer.tuning.drift),
        is_silent=is_silent,
        cpu_ratio=_share(first, answer, lambda one: one.cpu.busy_s),
        steal_ratio=_share(first, answer, lambda one: one.cpu.steal_s),
        io_wait_ratio=_per_s(first, answer, lambda one: one.pressure_s.get("io_some")),
        memory_total_bytes=memory.total_bytes,
        memory_available_bytes=memory.available_bytes,
        page_cache_bytes=max(0, memory.cached_bytes - memory.shared_bytes),
        unwritten_bytes=unwritten_bytes,
        unwritten_ratio=unwritten_ratio,
        log_bytes=known_sum(each.log_bytes for each in answer.directories),
        resident_bytes=known_sum(each.resident_bytes for each in answer.directories),
        read_bytes_per_s=known_sum(disk.read_bytes_per_s for disk in disks),
        written_bytes_per_s=known_sum(disk.written_bytes_per_s for disk in disks),
        received_bytes_per_s=_per_s(first, answer, lambda one: one.network.received_bytes),
        sent_bytes_per_s=_per_s(first, answer, lambda one: one.network.sent_bytes),
        disks=disks,
        processes=tuple(
            _process(first, answer, each.broker_id, each)
            for each in answer.brokers
            if each.broker_id is not None and each.broker_id in host.brokers
        ),
    )


def is_old(host: Host, taken_at_ms: int) -> bool:
    """It has not answered for so long that what it said is no answer to how it is now."""
    return bool(host.error) and taken_at_ms - (host.as_of_ms or 0) > _OLD_AFTER_MS


def drift_sentence(tuning: Tuning) -> str:
    """The first setting that is not as applied and how many more there are, without a full stop."""
    more = len(tuning.drift) - 1
    rest = f"; {plural(more, 'more setting')} {'is' if more == 1 else 'are'} not as applied" if more else ""
    return f"{tuning.drift[0].sentence}{rest}"


def verdict(rows: Sequence[HostFigures]) -> tuple[Level, str]:
    """The level and the sentence of all hosts together, the worst named first. Raises ValueError without a row."""
    level = max((row.level for row in rows), key=lambda each: each.rank)
    bad = sorted((row for row in rows if row.level is not Level.OK), key=lambda row: -row.level.rank)
    named = [f"{row.name}: {row.sentence.rstrip('.')}" for row in bad[:_SHOWN]]
    if len(bad) > _SHOWN:
        named.append(f"{plural(len(bad) - _SHOWN, 'more host')} with problems")
    return level, "; ".join([_tuned(rows), *named]) + "."


def _tuned(rows: Sequence[HostFigures]) -> str:
    tuned = sum(row.is_tuned is True for row in rows)
    if all(row.is_tuned is None for row in rows):
        return "The host is not known to be tuned" if len(rows) == 1 else "No host is known to be tuned"
    if tuned == len(rows):
        return "The host's tuning is in place" if tuned == 1 else f"The tuning of all {tuned} hosts is in place"
    return f"The tuning of {tuned} of {plural(len(rows), 'host')} is in place"


def _judge(host: Host, answer: HostAnswer, unwritten_ratio: float | None, snapshot: Snapshot) -> tuple[Level, str]:
    if is_old(host, snapshot.taken_at_ms):
        age_ms = snapshot.taken_at_ms - (host.as_of_ms or 0)
        return Level.UNKNOWN, f"This data is {wait_text(age_ms / 1000)} old: {host.error}."
    tuning = answer.tuning
    if tuning is not None and tuning.drift:
        return Level.WARN, f"{drift_sentence(tuning)}."
    if tuning is not None and tuning.interrupted:
        return Level.WARN, f"A change of its tuning was interrupted: {tuning.interrupted}."
    if unwritten_ratio is not None and unwritten_ratio >= UNWRITTEN_WARN_RATIO:
        share = percent_text(unwritten_ratio)
        return (
            Level.WARN,
            f"Writers wait for the disk: {share} of the unwritten bytes that the kernel allows.",
        )
    if tuning is None:
        return Level.UNKNOWN, "Its tuning is not known."
    if not tuning.profile:
        wanted = tuning.differs_from_recommended
        advice = "" if wanted is None else f"; highwater tune would change {plural(wanted, 'setting')}"
        return Level.OK, f"No tuning is applied{advice}."
    waiting = f", {tuning.waiting} of them after a restart" if tuning.waiting else ""
    return Level.OK, f"Tuning in place: {plural(tuning.in_effect + tuning.waiting, 'setting')} in effect{waiting}."


def _disks(first: HostAnswer | None, answer: HostAnswer) -> Iterator[DiskFigures]:
    before = {} if first is None else {disk.name: disk for disk in first.disks}
    for disk in answer.disks:
        old = before.get(disk.name)
        seconds = _seconds(first, answer)
        if old is None or seconds is None:
            yield DiskFigures(disk.name, disk.medium, None, None, None)
            continue
        yield DiskFigures(
            disk.name,
            disk.medium,
            _rate(old.read_bytes, disk.read_bytes, seconds),
            _rate(old.written_bytes, disk.written_bytes, seconds),
            None if disk.busy_ms < old.busy_ms else min(1.0, (disk.busy_ms - old.busy_ms) / 1000 / seconds),
        )


def _process(first: HostAnswer | None, answer: HostAnswer, broker_id: int, now: BrokerProcess) -> BrokerOnHost:
    then = next((each for each in first.brokers if each.broker_id == broker_id), None) if first is not None else None
    seconds = _seconds(first, answer)
    if then is None or seconds is None or then.process_id != now.process_id or then.started_ms != now.started_ms:
        return BrokerOnHost(broker_id, None, now.rss_bytes, None, None, None)
    read = _rate(then.read_bytes, now.read_bytes, seconds)
    sent = _rate(_sent_bytes(then), _sent_bytes(now), seconds)
    return BrokerOnHost(
        broker_id,
        cpu_cores=_rate(then.cpu_s, now.cpu_s, seconds),
        rss_bytes=now.rss_bytes,
        read_bytes_per_s=read,
        sent_bytes_per_s=sent,
        cache_served_ratio=served_ratio(read, sent),
        request_bytes=_request_bytes(then, now),
    )


def served_ratio(read: float | None, sent: float | None) -> float | None:
    """Share of what was sent that did not have to be read from a disk; read-ahead can exceed what was sent."""
    return None if read is None or not sent else min(1.0, max(0.0, 1 - read / sent))


def _sent_bytes(process: BrokerProcess) -> float | None:
    metrics = process.metrics
    if metrics is None or BYTES_OUT not in metrics:
        return None
    return sum(metrics.get(name, 0.0) for name in _SENT)


def _request_bytes(then: BrokerProcess, now: BrokerProcess) -> float | None:
    if then.metrics is None or now.metrics is None:
        return None
    grown = [now.metrics.get(name, 0.0) - then.metrics.get(name, 0.0) for name in (BYTES_IN, _PRODUCE_REQUESTS)]
    return grown[0] / grown[1] if min(grown) > 0 else None


def _seconds(first: HostAnswer | None, answer: HostAnswer) -> float | None:
    span_ms = 0 if first is None else answer.monotonic_ms - first.monotonic_ms
    return span_ms / 1000 if span_ms > 0 else None


def _rate(then: float | None, now: float | None, seconds: float) -> float | None:
    """None for a counter that began anew."""
    return None if then is None or now is None or now < then else (now - then) / seconds


def _per_s(first: HostAnswer | None, answer: HostAnswer, read: Callable[[HostAnswer], float | None]) -> float | None:
    seconds = _seconds(first, answer)
    return None if first is None or seconds is None else _rate(read(first), read(answer), seconds)


def _share(first: HostAnswer | None, answer: HostAnswer, read: Callable[[HostAnswer], float]) -> float | None:
    """Return the share of all CPUs' time since `first` that `read` counts."""
    if first is None:
        return None
    total_s = answer.cpu.total_s - first.cpu.total_s
    return None if total_s <= 0 else min(1.0, max(0.0, (read(answer) - read(first)) / total_s))
