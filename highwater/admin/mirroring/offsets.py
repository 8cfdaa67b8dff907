"""Copies committed offsets of consumer groups, translated to the offsets of the target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from highwater.admin.client import REQUEST_TIMEOUT_S, Cluster, Partition, result_of
from highwater.admin.mirroring.progress import Progress
from highwater.admin.terminal import CommandError

_MAY_BE_SET: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


def take_along(
    source: Cluster,
    target: Cluster,
    wanted: Sequence[re.Pattern[str]],
    progress: Mapping[Partition, Progress],
    prefix: str,
) -> dict[str, int]:
    """Set the offsets of the groups in the target, only forward. Returns how many partitions of each group were set.

    A group that has members in the target is left alone: it commits there by itself.
    """
    listed: Any = source.admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S)
    names = sorted(
        group.group_id
        for group in result_of("consumer groups of the source", listed).valid
        if any(pattern.fullmatch(group.group_id) for pattern in wanted)
    )
    done = {}
    for name in names:
        translated = _translated(_committed(source, name), progress, prefix)
        if not translated or not _has_no_members(target, name):
            continue
        present = _committed(target, name)
        ahead = {place: offset for place, offset in translated.items() if offset > present.get(place, -1)}
        if ahead:
            _commit(target, name, ahead)
            done[name] = len(ahead)
    return done


def _committed(cluster: Cluster, group: str) -> dict[Partition, int]:
    futures: Any = cluster.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=REQUEST_TIMEOUT_S
    )
    committed = result_of(f"offsets of group {group}", futures[group]).topic_partitions
    return {(each.topic, each.partition): each.offset for each in committed if each.offset >= 0}


def _translated(
    committed: Mapping[Partition, int], progress: Mapping[Partition, Progress], prefix: str
) -> dict[Partition, int]:
    found = {}
    for (topic, partition), offset in committed.items():
        known = progress.get((topic, partition))
        translated = None if known is None else known.translate(offset)
        if translated is not None:
            found[prefix + topic, partition] = translated
    return found


def _has_no_members(target: Cluster, group: str) -> bool:
    futures: Any = target.admin.describe_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
    try:
        described = futures[group].result(timeout=2 * REQUEST_TIMEOUT_S)
    except KafkaException as error:
        raise CommandError(f"group {group} of the target: {error.args[0].str()}") from None
    return described.state in _MAY_BE_SET


def _commit(target: Cluster, group: str, offsets: Mapping[Partition, int]) -> None:
    wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    futures: Any = target.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=REQUEST_TIMEOUT_S
    )
    result_of(f"offsets of group {group} in the target", futures[group])
