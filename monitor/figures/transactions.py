"""Transactions that stay open: which hang, since when, which groups wait for them, and what ends them.

A transaction holds read_committed consumers at the last stable offset until it ends. Its coordinator ends it at its
time-out, unless it does not know that the transaction is open in a partition: then nobody does (KIP-664).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.units import plural, wait_text
from highwater.monitor.command_line import quoted
from highwater.monitor.figures.rows import TransactionFigures, TransactionVerdict
from highwater.monitor.model import OpenTransaction, Snapshot
from highwater.monitor.undecided import Undecided

# A coordinator aborts a transaction after transaction.max.timeout.ms at the latest, which is 15 minutes by default;
# five minutes more are what Kafka itself gives it before it counts a transaction as late.
DEFAULT_MAX_TIMEOUT_MS: Final = 15 * 60 * 1000
GRACE_MS: Final = 5 * 60 * 1000
_SETTING: Final = "transaction.max.timeout.ms"
_NAMES_SHOWN: Final = 3


def max_timeout_ms(snapshot: Snapshot) -> int:
    """Return the largest `transaction.max.timeout.ms` of the brokers, or its default where no broker reports it."""
    said = [
        int(setting.value)
        for broker in snapshot.brokers.values()
        if broker.config is not None
        if (setting := broker.config.get(_SETTING)) is not None and (setting.value or "").isdecimal()
        if setting.value is not None
    ]
    return max(said, default=DEFAULT_MAX_TIMEOUT_MS)


def transaction_figures(
    snapshot: Snapshot, undecided: Mapping[TopicPartition, Undecided]
) -> tuple[TransactionFigures, ...]:
    """Return a row for each open transaction of the snapshot that still holds its partition back."""
    there = [each for each in snapshot.transactions if _is_there(each, snapshot)]
    if not there:
        return ()
    groups = _held_up(snapshot, {each.key for each in there})
    limit_ms = max_timeout_ms(snapshot)
    return tuple(_row(each, snapshot, undecided.get(each.key), groups.get(each.key, ()), limit_ms) for each in there)


def hanging(
    rows: Collection[TransactionFigures], undecided: Mapping[TopicPartition, Undecided], snapshot: Snapshot
) -> dict[TopicPartition, int]:
    """Return for each partition with a hanging or late transaction for how many milliseconds it is open.

    A partition whose last stable offset stands still for longer than any transaction may take has one too, whatever
    its leader and the coordinators say.
    """
    limit_ms = max_timeout_ms(snapshot) + GRACE_MS
    found = {
        key: snapshot.at_ms - state.since_ms
        for key, state in undecided.items()
        if snapshot.at_ms - state.since_ms >= limit_ms
    }
    for row in rows:
        if row.verdict.is_bad:
            found[row.key] = max(row.age_ms, found.get(row.key, 0))
    return found


def _is_there(each: OpenTransaction, snapshot: Snapshot) -> bool:
    """Transactions are asked for in few ticks, and offsets in each."""
    partition = snapshot.partition(each.key)
    if partition is None:
        return False
    return partition.last_stable_offset is None or partition.last_stable_offset <= each.start_offset


def _held_up(snapshot: Snapshot, keys: set[TopicPartition]) -> dict[TopicPartition, tuple[str, ...]]:
    """Groups by partition, that stand at its last stable offset: read_committed consumers can read no further."""
    found: dict[TopicPartition, list[str]] = {}
    for group in snapshot.groups.values():
        for key in keys & group.commits.keys():
            partition = snapshot.partition(key)
            if partition is not None and group.commits[key].offset == partition.last_stable_offset:
                found.setdefault(key, []).append(group.name)
    return {key: tuple(names) for key, names in found.items()}


def _row(
    each: OpenTransaction,
    snapshot: Snapshot,
    standing: Undecided | None,
    groups: tuple[str, ...],
    max_ms: int,
) -> TransactionFigures:
    standing_ms = 0 if standing is None else snapshot.at_ms - standing.since_ms
    # Timestamps of records are what a producer says: none may make a transaction younger than it was seen to be.
    began_ms = each.last_written_ms if each.started_ms is None else each.started_ms
    seen_ms = snapshot.taken_at_ms - standing_ms
    since_ms = min(began_ms, seen_ms) if began_ms > 0 else seen_ms
    age_ms = snapshot.taken_at_ms - since_ms
    limit_ms = max_ms if each.timeout_ms is None else each.timeout_ms
    verdict = _verdict(each.is_known, age_ms, limit_ms)
    command = _abort_command(each, snapshot) if verdict is TransactionVerdict.HANGING else ""
    partition = snapshot.partition(each.key)
    end = None if partition is None else partition.end_offset
    return TransactionFigures(
        each.topic,
        each.partition,
        each.transactional_id,
        each.producer_id,
        each.producer_epoch,
        each.coordinator,
        each.state,
        each.start_offset,
        since_ms,
        age_ms,
        each.timeout_ms,
        None if end is None else max(0, end - each.start_offset),
        groups,
        verdict,
        _sentence(each, verdict, since_ms, limit_ms, groups),
        command,
    )


def _verdict(is_known: bool | None, age_ms: int, limit_ms: int) -> TransactionVerdict:
    if is_known is False:
        return TransactionVerdict.HANGING if age_ms > limit_ms else TransactionVerdict.OPEN
    if age_ms > limit_ms + GRACE_MS:
        return TransactionVerdict.LATE if is_known else TransactionVerdict.UNKNOWN
    return TransactionVerdict.OPEN


def _sentence(
    each: OpenTransaction, verdict: TransactionVerdict, since_ms: int, limit_ms: int, groups: tuple[str, ...]
) -> str:
    where = partition_name(each.topic, each.partition)
    who = f"Transaction {each.transactional_id}" if each.transactional_id else "A transaction"
    producer = f"producer {each.producer_id}, epoch {each.producer_epoch}"
    begins = f"{who} is open in {where}: since {_clock(since_ms)}, by {producer}"
    coordinator = f"its coordinator, broker {each.coordinator}, "
    match verdict:
        case TransactionVerdict.HANGING:
            says = "and no coordinator knows it there, so that nothing will end it."
        case TransactionVerdict.LATE:
            says = (
                f"and {coordinator}should have ended it after {wait_text(limit_ms / 1000)}; there it is {each.state}. "
                "Look at that broker's log, and at the partitions of the transaction."
            )
        case TransactionVerdict.UNKNOWN:
            says = "longer than a transaction may take. No coordinator reported whether it knows it."
        case TransactionVerdict.OPEN if each.is_known:
            says = (
                f"and {coordinator}ends it at {_clock(since_ms + limit_ms)} at the latest. It ends at once if a "
                "producer starts with the same transactional id."
            )
        case _:
            unknown = "No coordinator knows it there" if each.is_known is False else "No coordinator reported it"
            says = f"not longer than a transaction may take. {unknown}."
    return f"{begins}, {says}{_waiting(groups)}"


def _waiting(groups: tuple[str, ...]) -> str:
    if not groups:
        return ""
    more = len(groups) - _NAMES_SHOWN
    named = ", ".join(groups[:_NAMES_SHOWN]) + (f" and {plural(more, 'group')} more" if more > 0 else "")
    stands = f"Group {named} stands" if len(groups) == 1 else f"Groups {named} stand"
    return f" {stands} there, and cannot read past it."


def _abort_command(each: OpenTransaction, snapshot: Snapshot) -> str:
    """Return the command of Kafka's tool since 3.0. Clients reach the leader at the same address as the monitor."""
    partition = snapshot.partition(each.key)
    leader = snapshot.brokers.get(partition.leader) if partition is not None else None
    address = f"{leader.host}:{leader.port}" if leader is not None else "HOST:PORT"
    return (
        f"kafka-transactions.sh --bootstrap-server {quoted(address)} abort --topic {quoted(each.topic)} "
        f"--partition {each.partition} --start-offset {each.start_offset}"
    )


def _clock(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
