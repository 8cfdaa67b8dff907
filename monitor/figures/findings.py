"""What is wrong with a cluster or not known, each in one sentence, and the one sentence for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from highwater.common.topic_partition import partition_name
from highwater.common.units import count_text, percent_text, plural, wait_text
from highwater.monitor.figures.brokers import DISK_ERROR_PERCENT, DISK_WARN_PERCENT, sharing_a_disk
from highwater.monitor.figures.rows import (
    BrokerFigures,
    Finding,
    FindingKind,
    GroupFigures,
    LagVerdict,
    Level,
    TopicFigures,
    Totals,
    TransactionFigures,
)
from highwater.monitor.model import HOST_SOURCE, Snapshot, SourceState

# Closing needs more than opening, so that a value at the limit does not open and close an alert again and again.
DISK_NEAR_PERCENT: Final = 17.0
_HOUR_MS: Final = 3_600_000
DISK_FULL_WARN_MS: Final = 24 * _HOUR_MS
DISK_FULL_ERROR_MS: Final = 4 * _HOUR_MS
LOSS_WARN_MS: Final = 24 * _HOUR_MS
LOSS_ERROR_MS: Final = _HOUR_MS
_NEAR: Final = 1.25
_REFUSED: Final = "Connection refused"
"""The text of ECONNREFUSED on Linux, which a source's error ends with."""
# Some sources are asked in every fourth tick.
SILENT_AFTER_MS: Final = 90_000
SILENT_AFTER_TICKS: Final = 6
_NAMES_SHOWN: Final = 3
KAFKA: Final = "kafka"
_CONTROLLERS: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_DOES: Final = {
    LagVerdict.WARN: "falls behind",
    LagVerdict.LOSS: "has lost records",
    LagVerdict.REWIND: "was set back",
    LagVerdict.STALL: "is stalled",
    LagVerdict.STOP: "has stopped",
}
_KIND_RANKS: Final = {kind: rank for rank, kind in enumerate(FindingKind)}


def findings(
    snapshot: Snapshot,
    totals: Totals,
    brokers: Mapping[int, BrokerFigures],
    topics: Mapping[str, TopicFigures],
    groups: Mapping[str, GroupFigures],
    transactions: Sequence[TransactionFigures],
    tick_ms: int,
    of_hosts: Iterable[Finding] = (),
) -> tuple[Finding, ...]:
    """Return all findings, the worst first. `tick_ms` is the time since the tick before, 0 in the first one."""
    found = [
        *_of_sources(snapshot, tick_ms),
        *_of_controller(snapshot),
        *_of_partitions(totals, topics),
        *_of_transactions(totals, topics, transactions),
        *_of_brokers(snapshot, brokers),
        *(finding for row in groups.values() for finding in _of_group(row)),
        *of_hosts,
    ]
    return tuple(sorted(found, key=_badness))


def verdict(snapshot: Snapshot, totals: Totals, found: Sequence[Finding]) -> tuple[Level, str]:
    """Return the cluster's level and sentence. It is no surer than the snapshot: it names what is not known."""
    told = [finding for finding in found if not finding.is_near]
    if told:
        worst = told[0]
        others = len(told) - 1
        more = f" {plural(others, 'more problem')}." if others else ""
        return worst.level, worst.sentence + more
    unknown = list(_unknown(snapshot, totals))
    sound_groups = totals.groups - totals.unjudged_groups
    well = (
        f"{totals.alive_text}, {plural(totals.topics, 'topic')} with "
        f"{plural(totals.partitions, 'partition')} in sync, {plural(sound_groups, 'group')} without problems."
    )
    if not snapshot.brokers:
        return Level.UNKNOWN, "Nothing is known yet: no broker has answered."
    if unknown:
        return Level.UNKNOWN, f"No problem is found so far: {well} Not known: {'; '.join(unknown)}."
    idle = f" {_idle(totals.idle_groups)}" if totals.idle_groups else ""
    return Level.OK, f"Healthy: {well}{idle}"


def _idle(groups: int) -> str:
    verb = "has" if groups == 1 else "have"
    since = f"and {verb} had none since the monitor started"
    return f"{plural(groups, 'group')} of them {verb} unread records and no reader, {since}."


def _unknown(snapshot: Snapshot, totals: Totals) -> Iterator[str]:
    health = totals.health
    if health.unknown_offsets:
        yield f"the end offsets of {plural(health.unknown_offsets, 'partition')}"
    if health.unknown_min_isr:
        yield f"min.insync.replicas of {plural(health.unknown_min_isr, 'partition')}"
    failed_topics = sum(bool(topic.error) for topic in snapshot.topics.values())
    if failed_topics:
        yield f"all of {plural(failed_topics, 'topic')}"
    failed_groups = sum(bool(group.error) for group in snapshot.groups.values())
    if failed_groups:
        yield f"members or commits of {plural(failed_groups, 'group')}"
    if totals.unjudged_groups:
        keep = "keeps" if totals.unjudged_groups == 1 else "keep"
        yield f"how well {plural(totals.unjudged_groups, 'group')} {keep} up"
    for source in snapshot.sources.values():
        if source.error:
            yield f"a part of {source.name} ({source.error.rstrip('. ')})"


def _badness(finding: Finding) -> tuple[bool, int, int, str]:
    # What Kafka said before it fell silent is no answer to how it is now.
    is_stale = finding.kind is FindingKind.SOURCE_SILENT and finding.level is Level.ERROR
    return finding.is_near, -finding.level.rank, -1 if is_stale else _KIND_RANKS[finding.kind], finding.subject


def _of_sources(snapshot: Snapshot, tick_ms: int) -> Iterator[Finding]:
    for source in snapshot.sources.values():
        if not _is_silent(snapshot, source, tick_ms):
            continue
        level = Level.ERROR if source.name == KAFKA else Level.WARN
        is_host = source.name.removeprefix(HOST_SOURCE) in snapshot.hosts
        what = f"H{source.name[1:]}" if is_host else f"Source {source.name}"
        if source.name == KAFKA and snapshot.other_cluster_id and source.as_of_ms is not None:
            yield Finding(FindingKind.SOURCE_SILENT, level, f"source {KAFKA}", _of_another_cluster(snapshot, source))
            continue
        if source.as_of_ms is None:
            since = "It has never answered, so nothing is known about it."
        else:
            age = wait_text(max(0, snapshot.taken_at_ms - source.as_of_ms) / 1000)
            since = f"The data shown for it is {age} old."
        sentence = f"{what} does not answer: {_clause(source.error)} {since}"
        kind, subject = (
            (FindingKind.HOST_SILENT, source.name) if is_host else (FindingKind.SOURCE_SILENT, f"source {source.name}")
        )
        yield Finding(kind, level, subject, sentence)


def _of_another_cluster(snapshot: Snapshot, source: SourceState) -> str:
    at = datetime.fromtimestamp((source.as_of_ms or 0) / 1000, UTC)
    return (
        f"Another cluster answers at the addresses of this one: {snapshot.other_cluster_id} in place of "
        f"{snapshot.cluster_id}. Its data is ignored; what is shown is from {at:%Y-%m-%d %H:%M:%S} UTC. Start the "
        "monitor again, with another --data, to watch the other one."
    )


def _is_silent(snapshot: Snapshot, source: SourceState, tick_ms: int) -> bool:
    """False too if it answered in part, or lately: some sources are not asked in each tick."""
    if not source.error:
        return False
    if source.as_of_ms is None:
        return True
    # Of a broker that is gone nothing was asked, so that it has no error.
    if source.name == KAFKA and all(broker.error for broker in snapshot.brokers.values() if broker.is_alive):
        return True
    return snapshot.taken_at_ms - source.as_of_ms > max(SILENT_AFTER_MS, SILENT_AFTER_TICKS * tick_ms)


def _of_controller(snapshot: Snapshot) -> Iterator[Finding]:
    if not snapshot.brokers:
        return
    said = [
        broker.metrics.get(_CONTROLLERS)
        for broker in snapshot.brokers.values()
        if broker.is_alive and broker.metrics is not None
    ]
    counts = [count for count in said if count is not None]
    total = sum(counts)
    if snapshot.controller is None:
        sentence = "The cluster has no controller: no leaders are elected."
        yield Finding(FindingKind.NO_CONTROLLER, Level.ERROR, "", sentence, 0.0)
    elif total > 1:
        sentence = f"{count_text(total)} brokers say that they are the controller; one is right."
        yield Finding(FindingKind.NO_CONTROLLER, Level.ERROR, "", sentence, total)


def _of_partitions(totals: Totals, topics: Mapping[str, TopicFigures]) -> Iterator[Finding]:
    health = totals.health
    kinds = (
        (
            FindingKind.PARTITIONS_OFFLINE,
            Level.ERROR,
            "offline",
            "{have} no leader: clients cannot read or write there ({where})",
        ),
        (
            FindingKind.UNDER_MIN_ISR,
            Level.ERROR,
            "under_min_isr",
            "{reject} writes with acks=all: fewer replicas are in sync than min.insync.replicas ({where})",
        ),
        (FindingKind.UNDER_REPLICATED, Level.WARN, "under_replicated", "{have} replicas out of sync: {where}"),
    )
    for kind, level, name, what in kinds:
        count: int = getattr(health, name)
        if count:
            where = _named([row.name for row in topics.values() if getattr(row.health, name)], "topic")
            have, reject = ("has", "rejects") if count == 1 else ("have", "reject")
            sentence = f"{plural(count, 'partition')} {what.format(have=have, reject=reject, where=where)}."
            yield Finding(kind, level, "", sentence, count)


def _of_transactions(
    totals: Totals, topics: Mapping[str, TopicFigures], transactions: Sequence[TransactionFigures]
) -> Iterator[Finding]:
    """One for each transaction, however many partitions it is open in, and one for the partitions that name none."""
    bad = [row for row in transactions if row.verdict.is_bad]
    by_producer: dict[tuple[int, int], list[TransactionFigures]] = {}
    for row in bad:
        by_producer.setdefault((row.producer_id, row.producer_epoch), []).append(row)
    for (producer_id, epoch), rows in by_producer.items():
        worst = max(rows, key=lambda row: (row.verdict.rank, len(row.groups), row.age_ms))
        sentence = worst.sentence
        if len(rows) > 1:
            sentence += f" It is open in {plural(len(rows) - 1, 'more partition')}."
        if worst.command:
            sentence += f" This ends it in {partition_name(*worst.key)}: {worst.command}"
        subject = f"transaction of producer {producer_id}, epoch {epoch}"
        yield Finding(FindingKind.HANGING_TRANSACTION, worst.verdict.level, subject, sentence, worst.age_ms)
    unnamed = totals.health.hanging_transactions - len({row.key for row in bad})
    if unnamed > 0:
        where = [row.name for row in topics.values() if row.health.hanging_transactions]
        verb = "has" if unnamed == 1 else "have"
        sentence = (
            f"{plural(unnamed, 'partition')} {verb} a hanging transaction: read_committed consumers read no further "
            f"there ({_named(where, 'topic')})."
        )
        yield Finding(FindingKind.HANGING_TRANSACTION, Level.WARN, "", sentence, unnamed)


def _of_brokers(snapshot: Snapshot, brokers: Mapping[int, BrokerFigures]) -> Iterator[Finding]:
    sharing = sharing_a_disk(snapshot, {number: row for number, row in brokers.items() if row.is_alive})
    for number, row in brokers.items():
        yield from _of_broker(snapshot, row, sharing.get(number))


def _of_broker(snapshot: Snapshot, row: BrokerFigures, sharing: tuple[int, ...] | None) -> Iterator[Finding]:
    """sharing: the brokers that the finding of its disk is of; None if that is itself alone."""
    broker = snapshot.brokers[row.node_id]
    subject = f"broker {row.node_id}"
    where = f"broker {row.node_id} ({broker.address})"
    which = f"B{where[1:]}"
    if not row.is_alive:
        sentence = f"{which} is gone: the cluster does not list it. {plural(row.replicas, 'replica')} are on it."
        yield Finding(FindingKind.BROKER_GONE, Level.ERROR, subject, sentence)
        return
    if broker.error and not snapshot.other_cluster_id:
        sentence = f"{which} does not answer: {_clause(broker.error)} Offsets of its partitions are not known."
        # A slow answer may come in the next tick; what listens no more is the first thing to know.
        level = Level.ERROR if _REFUSED in broker.error else Level.WARN
        yield Finding(FindingKind.SOURCE_SILENT, level, subject, sentence)
    for directory in broker.directories:
        if directory.error:
            sentence = f"A log directory of {where} is offline: {directory.path}: {_clause(directory.error)}"
            yield Finding(FindingKind.LOG_DIRECTORY_OFFLINE, Level.ERROR, f"{subject} {directory.path}", sentence)
    if sharing is None:
        yield from _of_disk(row, subject, f"{which} has", where)
    elif sharing:
        if len(sharing) > 1:
            where = f"{_named([str(each) for each in sharing], 'broker')} on {broker.host}"
        yield from _of_disk(row, subject, f"B{where[1:]} {'have' if len(sharing) > 1 else 'has'}", where)


def _of_disk(row: BrokerFigures, subject: str, who_has: str, where: str) -> Iterator[Finding]:
    percent, full_ms = row.disk_usable_percent, row.disk_full_ms
    if percent is not None and percent < DISK_NEAR_PERCENT:
        level = Level.ERROR if percent < DISK_ERROR_PERCENT else Level.WARN
        sentence = f"{who_has} only {percent_text(percent / 100)} of a disk left."
        if full_ms is not None:
            sentence += f" At the present rate it will be full in {wait_text(full_ms / 1000)}."
        yield Finding(FindingKind.DISK_FULL, level, subject, sentence, percent, is_near=percent >= DISK_WARN_PERCENT)
    elif full_ms is not None and full_ms < DISK_FULL_WARN_MS * _NEAR:
        level = Level.ERROR if full_ms < DISK_FULL_ERROR_MS else Level.WARN
        sentence = f"A disk will be full in {wait_text(full_ms / 1000)} at the present rate: that of {where}."
        is_near = full_ms >= DISK_FULL_WARN_MS
        yield Finding(FindingKind.DISK_FULL, level, subject, sentence, full_ms, is_near)


def _of_group(row: GroupFigures) -> Iterator[Finding]:
    subject = f"group {row.name}"
    if row.level.rank >= Level.WARN.rank:
        kind = FindingKind.RECORDS_LOST if row.verdict is LagVerdict.LOSS else FindingKind.LAG
        sentence = f"Group {row.name} {_DOES[row.verdict]}. {row.sentence}"
        yield Finding(kind, row.level, subject, sentence, row.lost if kind is FindingKind.RECORDS_LOST else row.lag)
    eta = row.loss_eta_ms
    if eta is None or row.level is Level.UNKNOWN or eta >= LOSS_WARN_MS * _NEAR:
        return
    if row.catch_up_ms is None or row.never_catches_up or row.catch_up_ms > eta:
        level = Level.ERROR if eta < LOSS_ERROR_MS else Level.WARN
        sentence = (
            f"Group {row.name} will lose records in {wait_text(eta / 1000)}: retention deletes what it has not read."
        )
        yield Finding(FindingKind.RETENTION_LOSS, level, subject, sentence, eta, is_near=eta >= LOSS_WARN_MS)


def _named(names: Sequence[str], noun: str) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return f"{noun if len(names) == 1 else noun + 's'} {shown}" + (f" and {count_text(rest)} more" if rest > 0 else "")


def _clause(error: str) -> str:
    """The sentence of an error with one full stop."""
    return f"{error.rstrip('. ')}."
