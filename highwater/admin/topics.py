"""`highwater broker topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from confluent_kafka import TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    REQUEST_TIMEOUT_S,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    key_values,
    only_action,
    refuse_options,
    result_of,
)
from highwater.admin.cluster_health import INTERNAL_TOPICS
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    confirmed,
    print_json,
    print_table,
    printable,
    reporting,
    require_terminal,
    say,
    say_all,
)


def topics(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    create: Annotated[bool, typer.Option("--create", help="Create the topic.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the names of all topics.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show partitions, replicas, offsets, settings.")] = False,
    alter: Annotated[bool, typer.Option("--alter", help="Add partitions, up to --partitions in all.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the topic and all its records.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete all topics that an expression matches, without asking.")
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="A topic's name. Except with --create also a regular expression for the whole name."
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Number of partitions.", show_default="the broker's")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", min=1, help="Number of replicas of each partition.", show_default="the broker's"
        ),
    ] = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment",
            metavar="ID:ID,...",
            help="The brokers of each partition, the preferred leader first; replaces --partitions and "
            "--replication-factor.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A setting of the new topic; may be repeated."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail when the topic exists already.")
    ] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Do not fail when the topic does not exist.")] = False,
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out the cluster's internal topics.")
    ] = False,
    under_replicated_partitions: Annotated[
        bool,
        typer.Option(
            "--under-replicated-partitions", help="Describe only partitions with replicas that are not in sync."
        ),
    ] = False,
    under_min_isr_partitions: Annotated[
        bool,
        typer.Option(
            "--under-min-isr-partitions",
            help="Describe only partitions with fewer in-sync replicas than min.insync.replicas.",
        ),
    ] = False,
    at_min_isr_partitions: Annotated[
        bool,
        typer.Option(
            "--at-min-isr-partitions", help="Describe only partitions with exactly min.insync.replicas in sync."
        ),
    ] = False,
    unavailable_partitions: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Describe only partitions without a leader.")
    ] = False,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create, list, describe, alter or delete topics. Exit code: 0 done, 1 the broker refused it, 2 usage error."""
    with reporting():
        action = only_action(
            {"--create": create, "--list": list_, "--describe": describe, "--alter": alter, "--delete": delete}
        )
        if action in ("--create", "--alter", "--delete") and topic is None:
            raise UsageError(f"{action} needs --topic NAME")
        if action == "--alter" and partitions is None:
            raise UsageError("--alter needs --partitions N; settings are changed by: highwater broker configs --alter")
        refuse_options(
            action,
            {
                "--partitions": partitions is not None and action not in ("--create", "--alter"),
                "--replication-factor": replication_factor is not None and action != "--create",
                "--replica-assignment": replica_assignment is not None and action != "--create",
                "--config": bool(config) and action != "--create",
                "--if-not-exists": if_not_exists and action != "--create",
                "--force": force and action != "--delete",
                "--if-exists": if_exists and action not in ("--describe", "--alter", "--delete"),
                "--under-replicated-partitions": under_replicated_partitions and action != "--describe",
                "--under-min-isr-partitions": under_min_isr_partitions and action != "--describe",
                "--at-min-isr-partitions": at_min_isr_partitions and action != "--describe",
                "--unavailable-partitions": unavailable_partitions and action != "--describe",
            },
        )
        assignment = None if replica_assignment is None else _parse_assignment(replica_assignment)
        if assignment is not None and (partitions is not None or replication_factor is not None):
            raise UsageError("--replica-assignment does not go with --partitions or --replication-factor: it says both")
        settings = key_values(config or (), "--config")
        cluster = Cluster(bootstrap_server, command_config)
        if action == "--create":
            assert topic is not None
            if assignment is None:
                new_topic = NewTopic(topic, partitions or -1, replication_factor or -1, config=settings)
            else:
                new_topic = NewTopic(topic, len(assignment), replica_assignment=assignment, config=settings)
            _create(cluster, new_topic, if_not_exists, as_json)
            return
        names = _matching(cluster, topic, exclude_internal)
        if not names and topic is not None and not if_exists and action != "--list":
            raise cluster.unknown_topic(topic)
        if action == "--list":
            print_json(names) if as_json else say_all(names)
        elif action == "--describe":
            described = _describe(cluster, names)
            wanted = [
                is_wanted
                for is_wanted, is_given in (
                    (_is_under_replicated, under_replicated_partitions),
                    (_is_under_min_isr, under_min_isr_partitions),
                    (_is_at_min_isr, at_min_isr_partitions),
                    (_is_unavailable, unavailable_partitions),
                )
                if is_given
            ]
            for found in described:
                found.select(wanted)
            if wanted:
                described = [found for found in described if found.partitions]
            _print_described(described, as_json)
        elif action == "--alter":
            assert partitions is not None
            _alter(cluster, names, partitions, as_json)
        else:
            if names not in ([], [topic]) and not force:
                require_terminal()
                if not confirmed(f"Delete {', '.join(map(printable, names))}?"):
                    raise CommandError("nothing is deleted")
            _delete(cluster, names, as_json)


def _matching(cluster: Cluster, topic: str | None, exclude_internal: bool) -> list[str]:
    """Return the topic of this name, else the topics whose whole names the expression matches; None means all."""
    names = [name for name in cluster.topic_names if not (exclude_internal and name in INTERNAL_TOPICS)]
    if topic is None or topic in names:
        return names if topic is None else [topic]
    try:
        # In Kafka's tools a comma means "or" here.
        expression = re.compile(topic.replace(",", "|"))
    except re.error as error:
        raise UsageError(f"--topic {topic}: neither a name nor a regular expression ({error})") from None
    return [name for name in names if expression.fullmatch(name)]


def _parse_assignment(text: str) -> list[list[int]]:
    assignment = [part.split(":") for part in text.split(",")]
    for brokers in assignment:
        if not all(broker.strip().isdecimal() for broker in brokers) or len(set(brokers)) < len(brokers):
            raise UsageError(f"--replica-assignment {text}: write it as 1:2,2:3, every broker once for a partition")
    return [[int(broker) for broker in brokers] for brokers in assignment]


def _create(cluster: Cluster, new_topic: NewTopic, if_not_exists: bool, as_json: bool) -> None:
    topic = new_topic.topic
    if if_not_exists and topic in cluster.topic_names:
        print_json({"topic": topic, "created": False}) if as_json else say(f"Topic {topic} exists already.")
        return
    futures = cluster.admin.create_topics(
        [new_topic], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
    )
    result_of(f"topic {topic}", futures[topic])
    print_json({"topic": topic, "created": True}) if as_json else say(f"Created topic {topic}.")


def _alter(cluster: Cluster, names: list[str], partitions: int, as_json: bool) -> None:
    if names:
        wanted = [NewPartitions(name, partitions) for name in names]
        futures = cluster.admin.create_partitions(wanted, operation_timeout=REQUEST_TIMEOUT_S)
        for name in names:
            result_of(f"topic {name}", futures[name])
            if not as_json:
                say(f"Topic {name} has {partitions} partitions now.")
    if as_json:
        print_json([{"topic": name, "partitions": partitions} for name in names])


def _delete(cluster: Cluster, names: list[str], as_json: bool) -> None:
    if names:
        futures = cluster.admin.delete_topics(names, operation_timeout=REQUEST_TIMEOUT_S)
        for name in names:
            result_of(f"topic {name}", futures[name])
            if not as_json:
                say(f"Deleted topic {name}.")
    if as_json:
        print_json([{"topic": name, "deleted": True} for name in names])


# Describing


@dataclass(slots=True)
class PartitionState:
    partition: int
    leader: int | None
    replicas: list[int]
    in_sync_replicas: list[int]
    log_start_offset: int | None = None
    """None when the broker does not report it."""
    log_end_offset: int | None = None

    @property
    def record_count(self) -> int | None:
        if self.log_start_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.log_start_offset


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: str
    is_internal: bool
    config: dict[str, str | None]
    """The settings of the topic itself, without defaults."""
    min_in_sync_replicas: int
    partitions: list[PartitionState]

    def select(self, wanted: Sequence[Callable[[TopicState, PartitionState], bool]]) -> None:
        """Keep the partitions for which every predicate is true."""
        self.partitions = [p for p in self.partitions if all(is_wanted(self, p) for is_wanted in wanted)]


def _is_under_replicated(_: TopicState, partition: PartitionState) -> bool:
    return len(partition.in_sync_replicas) < len(partition.replicas)


def _is_under_min_isr(topic: TopicState, partition: PartitionState) -> bool:
    return partition.leader is None or len(partition.in_sync_replicas) < topic.min_in_sync_replicas


def _is_at_min_isr(topic: TopicState, partition: PartitionState) -> bool:
    return partition.leader is not None and len(partition.in_sync_replicas) == topic.min_in_sync_replicas


def _is_unavailable(_: TopicState, partition: PartitionState) -> bool:
    return partition.leader is None


def _describe(cluster: Cluster, names: list[str]) -> list[TopicState]:
    if not names:
        return []
    described = cluster.admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    configs = cluster.admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    states = []
    for name, resource in zip(names, resources, strict=True):
        topic = result_of(f"topic {name}", described[name])
        config = result_of(f"topic {name}", configs[resource])
        states.append(
            TopicState(
                name,
                # librdkafka returns usual base64; Kafka uses the alphabet for URLs and file names.
                str(topic.topic_id).replace("+", "-").replace("/", "_"),
                topic.is_internal,
                {
                    entry.name: entry.value
                    for entry in sorted(config.values(), key=lambda entry: entry.name)
                    if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
                },
                int(config["min.insync.replicas"].value),
                [
                    PartitionState(
                        partition.id,
                        partition.leader.id if partition.leader is not None and partition.leader.id >= 0 else None,
                        [node.id for node in partition.replicas],
                        [node.id for node in partition.isr],
                    )
                    for partition in topic.partitions
                ],
            )
        )
    by_key = {(topic.name, p.partition): p for topic in states for p in topic.partitions if p.leader is not None}
    for key, offsets in cluster.log_ranges(by_key).items():
        by_key[key].log_start_offset, by_key[key].log_end_offset = offsets
    return states


def _print_described(states: list[TopicState], as_json: bool) -> None:
    if as_json:
        print_json([_as_json(topic) for topic in states])
        return
    for number, topic in enumerate(states):
        if number:
            say("")
        replication = len(topic.partitions[0].replicas) if topic.partitions else 0
        say(f"Topic: {topic.name}  Id: {topic.topic_id}  Partitions: {len(topic.partitions)}  Replicas: {replication}")
        for name, value in topic.config.items():
            say(f"  {name}={value}")
        print_table(
            ("Partition", "Leader", "Replicas", "In sync", "Start", "End", "Records"),
            [
                (
                    p.partition,
                    "none" if p.leader is None else p.leader,
                    ",".join(map(str, p.replicas)),
                    ",".join(map(str, p.in_sync_replicas)),
                    p.log_start_offset,
                    p.log_end_offset,
                    p.record_count,
                )
                for p in topic.partitions
            ],
        )


def _as_json(topic: TopicState) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "config": topic.config,
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "replicas": p.replicas,
                "in_sync_replicas": p.in_sync_replicas,
                "log_start_offset": p.log_start_offset,
                "log_end_offset": p.log_end_offset,
            }
            for p in topic.partitions
        ],
    }
