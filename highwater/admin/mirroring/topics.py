"""Selects the topics to mirror, and creates and changes their copies in the target."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from highwater.admin.client import REQUEST_TIMEOUT_S, Cluster, result_of
from highwater.admin.terminal import CommandError, UsageError

PROGRESS_TOPIC_PREFIX: Final = "highwater-mirror-"
_OWN_TO_A_CLUSTER: Final = frozenset(
    (
        # Replication is configured by each cluster itself (MM2's config.properties.exclude).
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        # The target keeps the source's timestamps, even very old ones.
        "message.timestamp.type",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    )
)


class Selection(NamedTuple):
    """The topics to mirror: names or regular expressions for whole names."""

    wanted: Sequence[re.Pattern[str]]
    excluded: Sequence[re.Pattern[str]] = ()

    def has(self, name: str) -> bool:
        if name.startswith(("__", PROGRESS_TOPIC_PREFIX)):
            return False
        return any(each.fullmatch(name) for each in self.wanted) and not any(
            each.fullmatch(name) for each in self.excluded
        )


def patterns(texts: Iterable[str], option: str) -> list[re.Pattern[str]]:
    """Compile regular expressions. Raises UsageError for an invalid one."""
    compiled = []
    for text in texts:
        try:
            compiled.append(re.compile(text))
        except re.error as error:
            raise UsageError(f"{option} {text}: not a regular expression: {error}") from None
    return compiled


class SourceTopic(NamedTuple):
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int
    config: dict[str, str]
    """The topic's own overrides."""


def selected_topics(source: Cluster, selection: Selection) -> dict[str, SourceTopic]:
    """Return the selected topics that exist now, by name."""
    metadata = _metadata(source)
    names = sorted(name for name in metadata if selection.has(name))
    if not names:
        return {}
    described: Any = source.admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S)
    configs = _overrides(source, names)
    found = {}
    for name, future in described.items():
        topic = result_of(f"topic {name}", future)
        replicas = topic.partitions[0].replicas if topic.partitions else []
        found[name] = SourceTopic(name, str(topic.topic_id), len(topic.partitions), len(replicas), configs[name])
    return found


def unmatched_names(source: Cluster, texts: Iterable[str]) -> list[str]:
    """Return an error for each plain name of a topic that does not exist."""
    known = sorted(_metadata(source))
    return [
        str(source.unknown_topic(text))
        for text in texts
        if re.escape(text).replace(r"\-", "-") == text and text not in known
    ]


def _metadata(cluster: Cluster) -> dict[str, Any]:
    return dict(cluster.metadata_now().topics)


def _overrides(cluster: Cluster, names: Sequence[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    return {
        resource.name: {
            entry.name: entry.value
            for entry in result_of(f"settings of topic {resource.name}", future).values()
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and entry.name not in _OWN_TO_A_CLUSTER
        }
        for resource, future in futures.items()
    }


def make_alike(target: Cluster, topic: SourceTopic, name: str, replication_factor: int | None) -> list[str]:
    """Create or change the topic `name` of the target to match the source's. Returns the changes in words."""
    existing = _metadata(target).get(name)
    if existing is None or existing.error is not None:
        _create(target, topic, name, replication_factor or topic.replication_factor)
        return [f"created {name} with {topic.partition_count} partitions"]
    done = []
    count = len(existing.partitions)
    if count > topic.partition_count:
        raise CommandError(
            f"topic {name} has {count} partitions in the target and {topic.partition_count} in the source: records "
            "would not stay in their partitions; name another with --prefix"
        )
    if count < topic.partition_count:
        futures = target.admin.create_partitions([NewPartitions(name, topic.partition_count)])
        result_of(f"partitions of topic {name}", futures[name])
        done.append(f"{name} has {topic.partition_count} partitions now")
    changed = _set_alike(target, topic, name)
    return [*done, *([f"set {', '.join(changed)} of {name}"] if changed else [])]


def _create(target: Cluster, topic: SourceTopic, name: str, replication_factor: int) -> None:
    wanted = NewTopic(
        name, topic.partition_count, replication_factor, config=topic.config | {"message.timestamp.type": "CreateTime"}
    )
    future = target.admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT_S)[name]
    try:
        result_of(f"topic {name}", future)
    except CommandError as error:
        if "INVALID_REPLICATION_FACTOR" in str(error):
            raise CommandError(f"{error}; give --replication-factor N") from None
        raise


def _set_alike(target: Cluster, topic: SourceTopic, name: str) -> list[str]:
    present = _overrides(target, [name])[name]
    operations = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in topic.config.items()
        if present.get(key) != value
    ]
    operations += [
        ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
        for key in present
        if key not in topic.config
    ]
    if not operations:
        return []
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=operations)
    futures: Any = target.admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
    result_of(f"settings of topic {name}", futures[resource])
    return [operation.name for operation in operations]


def make_progress_topic(target: Cluster, name: str, replication_factor: int) -> None:
    """Create the topic, compacted and with one partition: only the latest record of a key counts."""
    if name in _metadata(target):
        return
    wanted = NewTopic(name, 1, replication_factor, config={"cleanup.policy": "compact", "compression.type": "producer"})
    future = target.admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT_S)[name]
    try:
        future.result(timeout=2 * REQUEST_TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise CommandError(f"topic {name}: {error.args[0].str()}") from None
