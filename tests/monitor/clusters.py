"""Makes snapshots of clusters that do not exist: small ones by hand, and large ones from a seed.

The builders fill what a test does not name with values of a healthy cluster. `window` makes the ticks of a cluster at
work: offsets rise, groups follow, some of them lag.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from highwater.common.topic_partition import TopicPartition
from highwater.monitor.model import (
    NO_LEADER,
    Broker,
    ClientMetrics,
    ClientPush,
    Commit,
    ConfigValue,
    Group,
    GroupState,
    LogDirectory,
    Member,
    OpenTransaction,
    Partition,
    Snapshot,
    SourceState,
    Topic,
)

TICK_MS = 15_000
UNIX_START_MS = 1_790_000_000_000
GIB = 1 << 30
# Kafka forbids these in topics; groups, client ids and hosts have no rule.
HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egnirts thgir-ot-tfel",
    "مجموعة المستهلكين",
    "{{ 7 * 7 }}",
    "'; DROP TABLE group_s; --",
    "../../etc/passwd",
    "a b\tc\nd",
    "=HYPERLINK(0)",
    "%2e%2e%2f",
    "ü" * 120,
    "g" * 249,
)
LONGEST_TOPIC = "t" * 249


def partition(
    topic: str,
    number: int = 0,
    *,
    replicas: Sequence[int] = (0, 1, 2),
    leader: int | None = None,
    isr: Sequence[int] | None = None,
    start: int | None = 0,
    end: int | None = 0,
    stable: int | None = None,
    at_ms: int = 0,
    bytes_per_offset: int = 100,
) -> Partition:
    """A partition led by its first replica, all in sync, with nothing undecided; `leader=NO_LEADER` for offline."""
    held = 0 if start is None or end is None else end - start
    own_replicas = _shared(tuple(replicas))
    return Partition(
        topic=topic,
        partition=number,
        leader=replicas[0] if leader is None else leader,
        leader_epoch=0,
        replicas=own_replicas,
        in_sync_replicas=own_replicas if isr is None else _shared(tuple(isr)),
        log_start_offset=start,
        end_offset=end,
        last_stable_offset=end if stable is None else stable,
        offsets_at_ms=None if end is None else at_ms,
        size_bytes=dict.fromkeys(replicas, held * bytes_per_offset),
        follower_lag=_no_lag(own_replicas),
    )


# What many partitions and topics have alike is one object, as in snapshots of a real cluster.
@cache
def _shared(brokers: tuple[int, ...]) -> tuple[int, ...]:
    return brokers


@cache
def _no_lag(brokers: tuple[int, ...]) -> Mapping[int, int]:
    return dict.fromkeys(brokers, 0)


@cache
def _config(min_isr: int) -> Mapping[str, ConfigValue]:
    return {"min.insync.replicas": ConfigValue(str(min_isr), "DEFAULT_CONFIG")}


def topic(
    name: str, *partitions: Partition, min_isr: int | None = 1, topic_id: str | None = None, internal: bool = False
) -> Topic:
    """`min_isr=None`: the topic's configuration is not known."""
    config = None if min_isr is None else _config(min_isr)
    return Topic(name, f"id-of-{name}" if topic_id is None else topic_id, internal, partitions, config)


def broker(node_id: int, *, alive: bool = True, total: int | None = 100 * GIB, usable: int | None = 60 * GIB) -> Broker:
    """A broker with one log directory."""
    directories = (LogDirectory("/var/lib/log", total_bytes=total, usable_bytes=usable),) if alive else ()
    return Broker(node_id, f"broker-{node_id}", 9092, is_alive=alive, directories=directories)


def commit(offset: int, at_ms: int = 0) -> Commit:
    return Commit(offset, at_ms)


def member(name: str, *assigned: TopicPartition) -> Member:
    return Member(f"{name}-5f1c", name, "/10.0.0.7", assigned=assigned)


def group(
    name: str,
    commits: Mapping[TopicPartition, int],
    *members: Member,
    at_ms: int = 0,
    state: GroupState | None = None,
) -> Group:
    """Stable with members, Empty without, unless `state` is given."""
    natural = GroupState.STABLE if members else GroupState.EMPTY
    return Group(
        name,
        natural if state is None else state,
        coordinator=0,
        protocol="range" if members else "",
        members=members,
        commits={key: Commit(offset, at_ms) for key, offset in commits.items()},
    )


def push(client_id: str, number: int = 0, *, group: str = "", broker: int = 0, **values: float) -> ClientPush:
    """What one of the instances of a client pushed: `produce_ms` and so on."""
    return ClientPush(
        instance_id=f"{client_id}-{number}",
        client_id=client_id,
        software="librdkafka",
        version="2.12.1",
        address="10.0.0.7",
        user="ANONYMOUS",
        group=group,
        broker=broker,
        at_ms=UNIX_START_MS,
        interval_ms=60_000,
        is_last=False,
        values=values,
        metrics=16,
        broker_produce_ms=0.25,
        broker_fetch_ms=5.0,
    )


def with_clients(one: Snapshot, *pushes: ClientPush) -> Snapshot:
    return replace(one, client_metrics=ClientMetrics(pushes, len(pushes), 1))


def open_transaction(
    topic: str = "orders",
    number: int = 0,
    *,
    start: int = 500,
    producer: int = 4711,
    written_ms: int = UNIX_START_MS,
    known: bool | None = False,
    name: str = "",
    state: str = "",
    timeout_ms: int | None = None,
    started_ms: int | None = None,
) -> OpenTransaction:
    """One that no coordinator knows, unless `known` says otherwise."""
    coordinator = 2 if name else None
    return OpenTransaction(
        topic, number, start, producer, 3, written_ms, known, name, coordinator, state, timeout_ms, started_ms
    )


def with_transactions(one: Snapshot) -> Snapshot:
    """Open for an hour in some partitions, with hostile names; each second one is known to its coordinator."""
    partitions = [each for topic in one.topics.values() for each in topic.partitions]
    made = [
        open_transaction(
            *each.key,
            start=each.last_stable_offset or 0,
            producer=4711 + number,
            written_ms=one.taken_at_ms - 3_600_000,
            known=bool(number % 2),
            name=HOSTILE_NAMES[number],
            state="PrepareCommit",
            timeout_ms=60_000,
            started_ms=one.taken_at_ms - 3_600_000 if number % 2 else None,
        )
        for number, each in enumerate(partitions[: len(HOSTILE_NAMES)])
    ]
    return replace(one, transactions=tuple(made))


def snapshot(
    *,
    number: int = 0,
    at_ms: int | None = None,
    brokers: Iterable[Broker] | int = 3,
    topics: Iterable[Topic] = (),
    groups: Iterable[Group] = (),
    transactions: Iterable[OpenTransaction] = (),
    controller: int | None = 0,
    error: str = "",
) -> Snapshot:
    """A snapshot of tick `number`; `brokers` may be their number. `error` is that of the source Kafka."""
    at = number * TICK_MS if at_ms is None else at_ms
    nodes = [broker(node_id) for node_id in range(brokers)] if isinstance(brokers, int) else list(brokers)
    return Snapshot(
        cluster="synthetic",
        number=number,
        at_ms=at,
        taken_at_ms=UNIX_START_MS + at,
        cluster_id="c1uSTerIdOf22Characters",
        controller=controller,
        controller_epoch=1,
        brokers={node.node_id: node for node in nodes},
        topics={one.name: one for one in topics},
        groups={one.name: one for one in groups},
        transactions=tuple(transactions),
        sources={
            "kafka": SourceState(
                "kafka", UNIX_START_MS + at, error, requests=12, received_bytes=9_000, duration_ms=80.0
            )
        },
    )


@dataclass(frozen=True)
class Shape:
    """How large a cluster is, and how much of it is not well."""

    brokers: int = 3
    topics: int = 10
    partitions: int = 50
    groups: int = 10
    partitions_of_group: int = 5
    replication_factor: int = 3
    hostile: bool = False
    """With names of groups, members and topics that break careless pages."""
    ill: float = 0.02
    """Share of partitions out of sync or offline, and of groups that stop."""


SMALL = Shape()


def window(shape: Shape = SMALL, ticks: int = 4, seed: int = 1) -> list[Snapshot]:
    """Return the snapshots of `ticks` ticks of one cluster, the newest last. The same seed makes the same window."""
    rng = random.Random(seed)
    newest = _first_snapshot(shape, rng)
    rates = {
        one.key: 0 if rng.random() < 0.3 else int(rng.paretovariate(1.2) * 20)
        for each in newest.topics.values()
        for one in each.partitions
    }
    # A group reads all that comes, a part of it, or nothing.
    paces = {name: 0.0 if rng.random() < shape.ill else rng.choice((1.0, 1.0, 1.0, 0.8)) for name in newest.groups}
    snapshots = [newest]
    for number in range(1, ticks):
        snapshots.append(_next_snapshot(snapshots[-1], number, rates, paces))
    return snapshots


def _first_snapshot(shape: Shape, rng: random.Random) -> Snapshot:
    names = _topic_names(shape)
    sizes = _parts(shape.partitions, len(names), rng)
    topics = [
        topic(
            name,
            *(_random_partition(name, number, shape, rng) for number in range(size)),
            min_isr=min(2, shape.replication_factor),
            internal=name.startswith("__"),
        )
        for name, size in zip(names, sizes, strict=True)
    ]
    keys = [one.key for each in topics for one in each.partitions]
    ends = {one.key: one.end_offset or 0 for each in topics for one in each.partitions}
    groups = [_random_group(name, keys, ends, shape, rng) for name in _group_names(shape)]
    return snapshot(brokers=shape.brokers, topics=topics, groups=groups)


def _next_snapshot(
    last: Snapshot, number: int, rates: Mapping[TopicPartition, int], paces: Mapping[str, float]
) -> Snapshot:
    at_ms = number * TICK_MS
    grown = {
        key: rate * TICK_MS // 1000 for key, rate in rates.items() if (one := last.partition(key)) and one.leader >= 0
    }
    topics = {
        name: replace(each, partitions=tuple(_grown(one, grown.get(one.key, 0), at_ms) for one in each.partitions))
        for name, each in last.topics.items()
    }
    groups = {
        name: replace(
            each,
            commits={
                key: Commit(old.offset + int(paces[name] * grown.get(key, 0)), at_ms - 20)
                for key, old in each.commits.items()
            },
        )
        for name, each in last.groups.items()
    }
    return replace(
        last,
        number=number,
        at_ms=at_ms,
        taken_at_ms=UNIX_START_MS + at_ms,
        topics=topics,
        groups=groups,
        sources={name: replace(state, as_of_ms=UNIX_START_MS + at_ms) for name, state in last.sources.items()},
    )


def _grown(one: Partition, offsets: int, at_ms: int) -> Partition:
    if one.end_offset is None:
        return one
    end = one.end_offset + offsets
    return replace(
        one,
        end_offset=end,
        last_stable_offset=end,
        offsets_at_ms=at_ms,
        size_bytes={node: size + 100 * offsets for node, size in one.size_bytes.items()},
    )


def _random_partition(name: str, number: int, shape: Shape, rng: random.Random) -> Partition:
    replicas = rng.sample(range(shape.brokers), min(shape.replication_factor, shape.brokers))
    end = rng.randrange(10_000_000)
    start = rng.randrange(end + 1) if rng.random() < 0.5 else 0
    if rng.random() >= shape.ill:
        return partition(name, number, replicas=replicas, start=start, end=end)
    if rng.random() < 0.2:
        return partition(name, number, replicas=replicas, leader=NO_LEADER, isr=(), start=None, end=None)
    return partition(name, number, replicas=replicas, isr=replicas[:-1], start=start, end=end)


def _random_group(
    name: str, keys: Sequence[TopicPartition], ends: Mapping[TopicPartition, int], shape: Shape, rng: random.Random
) -> Group:
    # Neighbours in the list are partitions of few topics, as a group subscribes to topics.
    begin = rng.randrange(len(keys))
    read = keys[begin : begin + shape.partitions_of_group]
    furthest = rng.choice((0, 0, 1_000))
    commits = {key: max(0, ends[key] - rng.randint(0, furthest)) for key in read if rng.random() > 0.02}
    readers = rng.randrange(3)
    host = rng.choice(HOSTILE_NAMES) if shape.hostile else "consumer"
    return group(name, commits, *(member(f"{host}-{index}", *read[index::readers]) for index in range(readers)))


def _topic_names(shape: Shape) -> list[str]:
    special = ["__consumer_offsets", *((LONGEST_TOPIC, "a.b_c-d", "...", "-0-1") if shape.hostile else ())]
    rest = (f"orders.region-{index:05}.v1" for index in range(shape.topics))
    return [*special, *rest][: shape.topics]


def _group_names(shape: Shape) -> list[str]:
    special = HOSTILE_NAMES if shape.hostile else ()
    return [*special, *(f"billing-{index:05}" for index in range(shape.groups))][: shape.groups]


def _parts(total: int, parts: int, rng: random.Random) -> list[int]:
    """Split `total` into `parts` of at least one, of very different size."""
    sizes = [1] * parts
    for _ in range(total - parts):
        sizes[min(parts - 1, int(parts * rng.random() ** 3))] += 1
    return sizes
