"""Derives from two snapshots what happened in a cluster: to leaders, ISRs, topics, configs and groups."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from highwater.common.bench_topics import trial_of, trials_in
from highwater.common.host_answer import Tuning
from highwater.common.units import count_text, plural
from highwater.monitor.model import NO_LEADER, Broker, ConfigValue, Group, GroupState, Partition, Snapshot, Topic

_MOST_SINGLE: Final = 20
"""Changes of one kind that a tick reports one by one; a broker that leaves changes thousands of partitions."""
_MOST_NAMED: Final = 100
_NAMED: Final = re.compile(r"\(([^()]*?)(?: and ([0-9,]+) more)?\)$")
HIDDEN: Final = "(hidden)"


class EventKind(Enum):
    OTHER_CLUSTER = "other_cluster"
    """Another cluster answers at the addresses of this one, or this one again. `before`, `after`: their ids."""
    LEADER_CHANGE = "leader_change"
    PARTITION_OFFLINE = "partition_offline"
    ISR_SHRINK = "isr_shrink"
    ISR_EXPAND = "isr_expand"
    REASSIGNMENT = "reassignment"
    CONTROLLER_CHANGE = "controller_change"
    BROKER_GONE = "broker_gone"
    BROKER_BACK = "broker_back"
    BROKER_NEW = "broker_new"
    TOPIC_CREATED = "topic_created"
    TOPIC_DELETED = "topic_deleted"
    TOPIC_RECREATED = "topic_recreated"
    PARTITIONS_ADDED = "partitions_added"
    CONFIG_CHANGE = "config_change"
    GROUP_NEW = "group_new"
    GROUP_GONE = "group_gone"
    GROUP_REBALANCE = "group_rebalance"
    ZNODE_CHANGE = "znode_change"
    """A watch of ZooKeeper saw it. `before` and `after` are the data of the znode."""
    ACTION = "action"
    """Somebody changed the cluster on a page of the monitor; the text begins with the user's name."""
    TUNING_CHANGE = "tuning_change"
    """A host has other settings than before."""
    KERNEL_CHANGE = "kernel_change"
    HOST_RESTART = "host_restart"
    BENCH_TRIAL_BEGAN = "bench_trial_began"
    BENCH_TRIAL_ENDED = "bench_trial_ended"
    CLOCK_STEP = "clock_step"
    """The clock of the monitor's host went back."""


@dataclass(frozen=True, slots=True)
class Event:
    at_ms: int
    """Unix time of the snapshot that shows it: it happened between this one and the one before."""
    kind: EventKind
    entity: str
    """What it is about: cluster, broker, topic, partition, group or host."""
    name: str
    """The entity's name, such as a node id, `orders` or `orders-3`."""
    text: str
    """One sentence for people."""
    before: str = ""
    after: str = ""


def events_between(before: Snapshot, after: Snapshot) -> list[Event]:
    """Return what changed from `before` to `after`, the cluster first, then brokers, topics and groups.

    What one of the two does not know, such as the configuration of a broker that did not answer, is no change.
    """
    if not after.brokers:  # nobody answered: nothing is known, so nothing is deleted
        return [*_znodes(after), *_hosts(before, after)]
    return [
        *_other_cluster(before, after),
        *_znodes(after),
        *_bench_trials(before, after),
        *_controller(before, after),
        *_brokers(before, after),
        *_hosts(before, after),
        *_topics(before, after),
        *_groups(before, after),
    ]


def _other_cluster(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    old, new = before.other_cluster_id, after.other_cluster_id
    if old == new:
        return
    text = f"another cluster ({new}) answers at the addresses of {after.cluster_id}: nothing of it is taken"
    if not new:
        text = f"cluster {after.cluster_id} answers again at its addresses, where cluster {old} did"
    ids = (old or after.cluster_id, new or after.cluster_id)
    yield Event(after.taken_at_ms, EventKind.OTHER_CLUSTER, "cluster", after.cluster, text, *ids)


def _znodes(after: Snapshot) -> Iterator[Event]:
    if after.zookeeper is not None:
        for at_ms, path, text, old, new in after.zookeeper.changes:
            yield Event(at_ms, EventKind.ZNODE_CHANGE, "znode", path, f"ZooKeeper: {text}", old, new)


def _bench_trials(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    """A trial begins with its topics and ends with them, wherever the bench runs."""
    if not before.brokers:
        return
    old, new = trials_in(before.topics), trials_in(after.topics)
    at_ms, cluster = after.taken_at_ms, after.cluster
    for trial in sorted(old - new):
        text = f"a trial of highwater bench ended: its topic {trial} is deleted"
        yield Event(at_ms, EventKind.BENCH_TRIAL_ENDED, "cluster", cluster, text, before=trial)
    for trial in sorted(new - old):
        text = f"a trial of highwater bench began: topic {trial}"
        yield Event(at_ms, EventKind.BENCH_TRIAL_BEGAN, "cluster", cluster, text, after=trial)


def _controller(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    old, new = before.controller, after.controller
    if new is None or old is None:
        return
    is_other_term = (
        before.controller_epoch is not None
        and after.controller_epoch is not None
        and before.controller_epoch != after.controller_epoch
    )
    if old != new or is_other_term:
        epoch = f" (epoch {after.controller_epoch})" if after.controller_epoch is not None else ""
        text = f"broker {new} is the controller{epoch}; it was broker {old}"
        if old == new:
            text = f"broker {new} was elected controller again{epoch}"
        yield Event(after.taken_at_ms, EventKind.CONTROLLER_CHANGE, "cluster", after.cluster, text, str(old), str(new))


def _brokers(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    for node_id, broker in after.brokers.items():
        name = str(node_id)
        old = before.brokers.get(node_id)
        if old is None:
            if before.brokers:
                text = f"broker {name} joined the cluster ({broker.host}:{broker.port})"
                yield Event(after.taken_at_ms, EventKind.BROKER_NEW, "broker", name, text)
            continue
        if old.is_alive and not broker.is_alive:
            yield _gone(after, old)
        elif broker.is_alive and not old.is_alive:
            yield Event(after.taken_at_ms, EventKind.BROKER_BACK, "broker", name, f"broker {name} is back")
        yield from _configs(after, "broker", name, old.config, broker.config)
    for node_id, old in before.brokers.items():
        if node_id not in after.brokers and old.is_alive:
            yield _gone(after, old)


def _gone(after: Snapshot, broker: Broker) -> Event:
    text = f"broker {broker.node_id} is gone"
    return Event(after.taken_at_ms, EventKind.BROKER_GONE, "broker", str(broker.node_id), text)


def _configs(
    after: Snapshot,
    entity: str,
    name: str,
    old: Mapping[str, ConfigValue] | None,
    new: Mapping[str, ConfigValue] | None,
) -> Iterator[Event]:
    if old is None or new is None or old is new:
        return
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was == now or (was and now and was.value == now.value):
            continue
        before_text, after_text = _value_text(was), _value_text(now)
        text = f"{entity} {name}: {key} is {after_text}; it was {before_text}"
        yield Event(after.taken_at_ms, EventKind.CONFIG_CHANGE, entity, name, text, before_text, after_text)


def _value_text(value: ConfigValue | None) -> str:
    if value is None:
        return "(not set)"
    return HIDDEN if value.is_sensitive or value.value is None else value.value


def _hosts(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    for name, host in after.hosts.items():
        old = before.hosts.get(name)
        if old is None or old.answer is None or host.answer is None or old.answer is host.answer:
            continue
        was, now = old.answer, host.answer
        if was.boot_id != now.boot_id:
            yield Event(after.taken_at_ms, EventKind.HOST_RESTART, "host", name, f"host {name} was booted again")
        if was.kernel != now.kernel:
            text = f"host {name} has kernel {now.kernel}; it had {was.kernel}"
            yield Event(after.taken_at_ms, EventKind.KERNEL_CHANGE, "host", name, text, was.kernel, now.kernel)
        if was.tuning is not None and now.tuning is not None and was.tuning != now.tuning:
            yield from _tuning(after.taken_at_ms, name, was.tuning, now.tuning)


def _tuning(at_ms: int, name: str, was: Tuning, now: Tuning) -> Iterator[Event]:
    """What drifted and what is again as applied; otherwise that somebody changed settings, or applied others."""
    old = {(each.parameter, each.target): each for each in was.drift}
    new = {(each.parameter, each.target): each for each in now.drift}
    kind = EventKind.TUNING_CHANGE
    if was.applied_utc != now.applied_utc:
        what = (
            f"{now.profile} applied settings at {now.applied_utc}" if now.profile else "what was applied is taken back"
        )
        yield Event(at_ms, kind, "host", name, f"host {name}: {what}", was.fingerprint, now.fingerprint)
        return
    for key, drift in new.items():
        if old.get(key) != drift:
            yield Event(at_ms, kind, "host", name, f"host {name}: {drift.sentence}", drift.applied, drift.now)
    for key, drift in old.items():
        if key not in new:
            text = f"host {name}: {drift.parameter} is {drift.applied} again, as applied"
            yield Event(at_ms, kind, "host", name, text, drift.now, drift.applied)
    if was.fingerprint != now.fingerprint and was.drift == now.drift:
        text = f"host {name}: a setting changed that was never applied; highwater tune check shows the present ones"
        yield Event(at_ms, kind, "host", name, text, was.fingerprint, now.fingerprint)


# -- Topics and their partitions ---------------------------------------------------------------------------------------


class _Changes:
    """Changes of partitions by kind and way, such as a leadership that went from broker 2 to broker 1."""

    def __init__(self) -> None:
        self._by_way: dict[tuple[EventKind, str, str], list[tuple[Partition, str]]] = defaultdict(list)

    def add(self, kind: EventKind, way: tuple[str, str], partition: Partition, text: str) -> None:
        self._by_way[kind, *way].append((partition, text))

    def events(self, after: Snapshot) -> Iterator[Event]:
        for (kind, old, new), changes in self._by_way.items():
            if len(changes) <= _MOST_SINGLE:
                for partition, text in changes:
                    yield Event(after.taken_at_ms, kind, "partition", partition_name(*partition.key), text, old, new)
                continue
            names = ", ".join(partition_name(*partition.key) for partition, _ in changes[:_MOST_NAMED])
            what = f"{plural(len(changes), 'partition')}: {_SUMMARIES[kind].format(old=old, new=new)}"
            more = f" and {count_text(len(changes) - _MOST_NAMED)} more" if len(changes) > _MOST_NAMED else ""
            yield Event(after.taken_at_ms, kind, "cluster", after.cluster, what, old, f"{new} ({names}{more})")


_SUMMARIES: Final = {
    EventKind.LEADER_CHANGE: "the leader changed from broker {old} to broker {new}",
    EventKind.PARTITION_OFFLINE: "no leader; it was broker {old}",
    EventKind.ISR_SHRINK: "broker {old} left the in-sync replicas",
    EventKind.ISR_EXPAND: "broker {new} joined the in-sync replicas",
    EventKind.REASSIGNMENT: "the replicas changed from {old} to {new}",
}


def partition_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def partitions_of(event: Event) -> tuple[frozenset[str], int]:
    """Return the names of partitions that a stored event of partitions names, and how many more it stands for."""
    if event.entity == "partition":
        return frozenset((event.name,)), 0
    found = _NAMED.search(event.after)
    if found is None:
        return frozenset(), 0
    return frozenset(found[1].split(", ")), int(found[2].replace(",", "")) if found[2] else 0


def _topics(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    at_ms = after.taken_at_ms
    changes = _Changes()
    for name, topic in after.topics.items():
        old = before.topics.get(name)
        if old is topic:
            continue
        if old is None:
            if before.brokers and trial_of(name) is None:
                text = f"topic {name} was created with {plural(len(topic.partitions), 'partition')}"
                yield Event(at_ms, EventKind.TOPIC_CREATED, "topic", name, text, after=topic.topic_id)
            continue
        if is_another_topic(old, topic):
            text = f"topic {name} was deleted and created again under its name: its offsets begin anew"
            yield Event(at_ms, EventKind.TOPIC_RECREATED, "topic", name, text, old.topic_id, topic.topic_id)
            continue
        if len(topic.partitions) > len(old.partitions):
            counts = (str(len(old.partitions)), str(len(topic.partitions)))
            text = f"topic {name} has {counts[1]} partitions; it had {counts[0]}"
            yield Event(at_ms, EventKind.PARTITIONS_ADDED, "topic", name, text, *counts)
        yield from _configs(after, "topic", name, old.config, topic.config)
        for was, now in zip(old.partitions, topic.partitions, strict=False):
            if was is not now:
                _compare(was, now, changes)
    for name, old in before.topics.items():
        if name not in after.topics and trial_of(name) is None:
            text = f"topic {name} was deleted"
            yield Event(at_ms, EventKind.TOPIC_DELETED, "topic", name, text, before=old.topic_id)
    yield from changes.events(after)


def is_another_topic(old: Topic, new: Topic) -> bool:
    """True if the topic of `old` was deleted and made again under its name."""
    return bool(old.topic_id and new.topic_id) and old.topic_id != new.topic_id


def _compare(was: Partition, now: Partition, changes: _Changes) -> None:
    name = partition_name(*now.key)
    if was.leader != now.leader:
        old, new = str(was.leader), str(now.leader)
        if now.leader == NO_LEADER:
            text = f"{name} has no leader; it was broker {old}"
            changes.add(EventKind.PARTITION_OFFLINE, (old, ""), now, text)
        else:
            source = f"it was broker {old}" if was.leader != NO_LEADER else "it had none"
            text = f"{name}: the leader is broker {new}; {source}"
            changes.add(EventKind.LEADER_CHANGE, (old, new), now, text)
    left, joined = _difference(was.in_sync_replicas, now.in_sync_replicas)
    for node_id in left:
        text = f"{name}: broker {node_id} left the in-sync replicas, which are {_ids(now.in_sync_replicas)}"
        changes.add(EventKind.ISR_SHRINK, (str(node_id), ""), now, text)
    for node_id in joined:
        text = f"{name}: broker {node_id} joined the in-sync replicas, which are {_ids(now.in_sync_replicas)}"
        changes.add(EventKind.ISR_EXPAND, ("", str(node_id)), now, text)
    if was.replicas != now.replicas:
        old, new = _ids(was.replicas), _ids(now.replicas)
        changes.add(EventKind.REASSIGNMENT, (old, new), now, f"{name}: the replicas are {new}; they were {old}")


def _difference(old: Iterable[int], new: Iterable[int]) -> tuple[list[int], list[int]]:
    before, after = set(old), set(new)
    return sorted(before - after), sorted(after - before)


def _ids(node_ids: Iterable[int]) -> str:
    return ",".join(map(str, node_ids)) or "none"


# -- Groups ------------------------------------------------------------------------------------------------------------

_REBALANCING: Final = frozenset(
    (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE, GroupState.ASSIGNING, GroupState.RECONCILING)
)


def _groups(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    at_ms = after.taken_at_ms
    for name, group in after.groups.items():
        old = before.groups.get(name)
        if old is group or group.error or group.state is GroupState.UNKNOWN:
            continue
        if old is None:
            if before.groups or before.topics:
                yield Event(at_ms, EventKind.GROUP_NEW, "group", name, f"group {name} appeared")
            continue
        if old.error or old.state is GroupState.UNKNOWN:
            continue
        yield from _rebalance(at_ms, old, group)
    for name, old in before.groups.items():
        if name not in after.groups and _answers(after, old.coordinator):
            yield Event(at_ms, EventKind.GROUP_GONE, "group", name, f"group {name} is gone")


def _answers(after: Snapshot, node_id: int) -> bool:
    """Without an answer of its coordinator, nobody knows whether a group is gone."""
    broker = after.brokers.get(node_id)
    return broker is not None and broker.is_alive and not broker.error


def _rebalance(at_ms: int, old: Group, group: Group) -> Iterator[Event]:
    was, now = {each.member_id for each in old.members}, {each.member_id for each in group.members}
    begins = group.state in _REBALANCING and old.state not in _REBALANCING
    if not begins and was == now:
        return
    parts = []
    if joined := len(now - was):
        parts.append(f"{plural(joined, 'member')} joined")
    if left := len(was - now):
        parts.append(f"{plural(left, 'member')} gone")
    changed = f": {', '.join(parts)}" if parts else ""
    text = f"group {group.name} rebalanced{changed} ({plural(len(now), 'member')} now, {group.state.value})"
    yield Event(at_ms, EventKind.GROUP_REBALANCE, "group", group.name, text, old.state.value, group.state.value)
