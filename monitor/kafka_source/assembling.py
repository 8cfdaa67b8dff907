"""Snapshots made of what brokers answered: topics, brokers, groups. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.requests.list_offsets import ListedOffsets
from highwater.kafka.requests.metadata import BrokerRow, ClusterRow, TopicRow
from highwater.kafka.requests.offset_fetch import GroupCommits
from highwater.monitor.kafka_source.groups import DescribedGroup, ListedGroup
from highwater.monitor.kafka_source.log_dirs import LogDirs
from highwater.monitor.kafka_source.parts import refusal
from highwater.monitor.model import Broker, Commit, ConfigValue, Group, GroupState, Partition, Topic

_STATES: Final = {state.value: state for state in GroupState}
_NO_REPLICAS: Final[Mapping[int, int]] = {}


@dataclass(slots=True)
class LeaderOffsets:
    """What the leaders of one broker said of their ends."""

    at_ms: int
    """Monotonic time of the answer with the end offsets."""
    ends: ListedOffsets
    starts: ListedOffsets = field(default_factory=dict)
    stable: ListedOffsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replicas:
    """Sizes and lag of all replicas, by partition and broker."""

    sizes: Mapping[TopicPartition, Mapping[int, int]]
    lags: Mapping[TopicPartition, Mapping[int, int]]


def replicas_of(log_dirs: Mapping[int, LogDirs]) -> Replicas:
    sizes: dict[TopicPartition, dict[int, int]] = {}
    lags: dict[TopicPartition, dict[int, int]] = {}
    for node_id, answer in sorted(log_dirs.items()):
        for key, (size_bytes, offset_lag) in answer.replicas.items():
            sizes.setdefault(key, {})[node_id] = size_bytes
            lags.setdefault(key, {})[node_id] = offset_lag
    # Most replicas are behind by nothing: one mapping for all partitions on the same brokers.
    shared: dict[tuple[tuple[int, int], ...], Mapping[int, int]] = {}
    return Replicas(sizes, {key: shared.setdefault(tuple(of_key.items()), of_key) for key, of_key in lags.items()})


def led_partitions(cluster: ClusterRow) -> dict[int, dict[str, list[int]]]:
    """Partitions by leader and topic."""
    led: dict[int, dict[str, list[int]]] = {}
    for topic in cluster.topics:
        for row in topic.partitions:
            if row.leader >= 0:
                led.setdefault(row.leader, {}).setdefault(topic.name, []).append(row.partition)
    return led


def topics_of(
    cluster: ClusterRow,
    offsets: Mapping[int, LeaderOffsets],
    replicas: Replicas,
    configs: Mapping[str, Mapping[str, ConfigValue]],
) -> dict[str, Topic]:
    """Topics by name. `offsets` are by leader, `configs` by topic."""
    return {
        topic.name: Topic(
            topic.name,
            topic.topic_id,
            topic.is_internal,
            _partitions(topic, offsets, replicas),
            configs.get(topic.name),
            refusal(topic.error_code) if topic.error_code else "",
        )
        for topic in sorted(cluster.topics)
    }


def _partitions(topic: TopicRow, offsets: Mapping[int, LeaderOffsets], replicas: Replicas) -> tuple[Partition, ...]:
    name = topic.name
    made = []
    for number, leader, leader_epoch, assigned, in_sync, offline in topic.partitions:
        answer = offsets.get(leader)
        end = start = stable = at_ms = None
        if answer is not None:
            end = _offset(answer.ends, name, number)
            start = _offset(answer.starts, name, number)
            stable = _offset(answer.stable, name, number)
            at_ms = None if end is None else answer.at_ms
        key = (name, number)
        made.append(
            Partition(
                name,
                number,
                leader,
                leader_epoch,
                assigned,
                in_sync,
                offline,
                start,
                end,
                stable,
                at_ms,
                replicas.sizes.get(key, _NO_REPLICAS),
                replicas.lags.get(key, _NO_REPLICAS),
            )
        )
    return tuple(made)


def _offset(listed: ListedOffsets, topic: str, partition: int) -> int | None:
    partitions = listed.get(topic)
    found = None if partitions is None else partitions.get(partition)
    return None if found is None or found.error_code or found.offset < 0 else found.offset


def refusals_of(offsets: Mapping[int, LeaderOffsets]) -> list[str]:
    """Each reason for which end offsets lack, once."""
    codes = {
        found.error_code
        for answer in offsets.values()
        for partitions in answer.ends.values()
        for found in partitions.values()
        if found.error_code
    }
    return [refusal(code) for code in sorted(codes)]


def brokers_of(
    known: Mapping[int, BrokerRow],
    alive: frozenset[int],
    failed: Mapping[int, str],
    log_dirs: Mapping[int, LogDirs],
    configs: Mapping[str, Mapping[str, ConfigValue]],
) -> dict[int, Broker]:
    """Every broker that was ever seen. `configs` are by node id, as text."""
    return {
        node_id: Broker(
            node_id,
            row.host,
            row.port,
            row.rack,
            node_id in alive,
            failed.get(node_id, ""),
            log_dirs[node_id].directories if node_id in log_dirs else (),
            configs.get(str(node_id)),
        )
        for node_id, row in sorted(known.items())
    }


@dataclass(slots=True)
class CoordinatorAnswer:
    """What one coordinator said of its groups."""

    listed: dict[str, ListedGroup]
    described: dict[str, DescribedGroup]
    commits: dict[str, GroupCommits]
    at_ms: int
    """Monotonic time of the answer with the commits."""
    error: str = ""
    """Why members or commits lack for all of its groups."""


def groups_of(answers: Mapping[int, CoordinatorAnswer], before: Mapping[str, Group]) -> dict[str, Group]:
    """Groups by name. One whose coordinator did not answer stays as UNKNOWN, from `before`; others leave."""
    found: dict[str, Group] = {}
    for node_id, answer in sorted(answers.items()):
        for listed in answer.listed.values():
            group = _group(node_id, listed, answer)
            other = found.get(listed.name)
            if other is None or other.error or other.state is GroupState.DEAD:
                found[listed.name] = group
    for name, group in before.items():
        if name not in found and group.coordinator not in answers:
            error = "its coordinator did not answer"
            found[name] = Group(name, GroupState.UNKNOWN, group.coordinator, group.kind, group.protocol, error=error)
    return dict(sorted(found.items()))


def _group(node_id: int, listed: ListedGroup, answer: CoordinatorAnswer) -> Group:
    described = answer.described.get(listed.name)
    commits = answer.commits.get(listed.name)
    errors = [answer.error]
    if described is not None and described.error_code:
        errors.append(refusal(described.error_code))
    if commits is not None and commits.error_code:
        errors.append(refusal(commits.error_code))
    state = _STATES.get(described.state if described is not None and not described.error_code else listed.state)
    return Group(
        listed.name,
        state or GroupState.UNKNOWN,
        node_id,
        listed.kind,
        described.assignor if described is not None else "",
        described.members if described is not None else (),
        {}
        if commits is None
        else {key: Commit(offset, answer.at_ms, metadata) for key, (offset, metadata) in commits.offsets.items()},
        "; ".join(dict.fromkeys(filter(None, errors))),
    )
