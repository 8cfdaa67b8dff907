"""`highwater broker transactions`: shows open transactions and aborts hanging ones.

It uses the requests of KIP-664, which brokers serve since Kafka 3.0.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from kio.schema.errors import ErrorCode

from highwater.admin.client import DEFAULT_BOOTSTRAP, BootstrapOption, Cluster, CommandConfigOption, Partition
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
    time_text,
)
from highwater.admin.wire import Node, coordinator_of, nodes_of

_NONE: Final = -1
_PARTITIONS_AT_ONCE: Final = 500
_MINUTE_MS: Final = 60_000

TopicOption = Annotated[str, typer.Option("--topic", help="The topic's name.")]
PartitionOption = Annotated[int, typer.Option("--partition", min=0, help="The partition's number.")]
BrokerOption = Annotated[int | None, typer.Option("--broker-id", help="Ask this broker, not the partition's leader.")]

transactions = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Show transactions and abort hanging ones.",
)


class _Where(NamedTuple):
    bootstrap_servers: str
    command_config: Path | None

    def cluster(self) -> Cluster:
        return Cluster(self.bootstrap_servers, self.command_config)


class Listing(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class ActiveProducer(NamedTuple):
    """A producer in the state of a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    current_transaction_start_offset: int | None


class OpenTransaction(NamedTuple):
    topic: str
    partition: int
    producer: ActiveProducer


@transactions.callback()
def _group(
    context: typer.Context,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigOption = None,
) -> None:
    context.obj = _Where(bootstrap_server, command_config)


@transactions.command("list")
def list_transactions(
    context: typer.Context,
    duration_filter: Annotated[
        int | None,
        typer.Option(
            "--duration-filter",
            metavar="MS",
            help="List only transactions that run for longer than this; needs Kafka 3.8 or newer.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List all transactional ids, whether they have a transaction open or not."""
    with reporting():
        version, durations = (0, {}) if duration_filter is None else (1, {"duration_filter": duration_filter})
        listings = sorted(_list(context.obj.cluster(), version, **durations))
        if as_json:
            print_json([listing._asdict() for listing in listings])
        else:
            print_table(("Transactional id", "Coordinator", "Producer id", "State"), listings)


@transactions.command()
def describe(
    context: typer.Context,
    transactional_id: Annotated[str, typer.Option("--transactional-id", help="The transactional id.")],
    as_json: JsonOption = False,
) -> None:
    """Show the transaction of a transactional id, and its partitions."""
    with reporting():
        cluster = context.obj.cluster()
        coordinator = coordinator_of(cluster, transactional_id)
        found = _describe(coordinator, transactional_id)
        if found is None:
            raise CommandError(f"{transactional_id}: there is no such transactional id")
        start_ms = None if found.transaction_start_time == _NONE else found.transaction_start_time
        described = {
            "coordinator": coordinator.node_id,
            "transactional_id": transactional_id,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "state": found.transaction_state,
            "timeout_ms": round(found.transaction_timeout.total_seconds() * 1000),
            "start_time_ms": start_ms,
            "duration_ms": None if start_ms is None else _now_ms() - start_ms,
            "partitions": [f"{topic}-{partition}" for topic, partition in _partitions_of(found)],
        }
        if as_json:
            print_json(described)
            return
        for title, value in (
            ("Transactional id", transactional_id),
            ("Coordinator", coordinator.node_id),
            ("State", found.transaction_state),
            ("Producer", f"id {found.producer_id}, epoch {found.producer_epoch}"),
            ("Time-out", f"{described['timeout_ms']} ms"),
            ("Began", "-" if start_ms is None else f"{time_text(start_ms)}, {described['duration_ms']} ms ago"),
            ("Partitions", ", ".join(described["partitions"]) or "-"),
        ):
            say(f"{title + ':':<18}{value}")


@transactions.command("describe-producers")
def describe_producers(
    context: typer.Context,
    topic: TopicOption,
    partition: PartitionOption,
    broker_id: BrokerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the active producers of a partition, and their open transactions."""
    with reporting():
        cluster = context.obj.cluster()
        node = _leaders(cluster, [(topic, partition)])[0][0] if broker_id is None else _node(cluster, broker_id)
        producers = _active_producers(node, [(topic, partition)])[topic, partition]
        if as_json:
            print_json([producer._asdict() for producer in producers])
            return
        print_table(
            ("Producer id", "Epoch", "Coordinator epoch", "Last sequence", "Last written", "Transaction from offset"),
            [(*producer[:4], time_text(producer.last_timestamp), producer[5]) for producer in producers],
        )


@transactions.command()
def abort(
    context: typer.Context,
    topic: TopicOption,
    partition: PartitionOption,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", help="First offset of the transaction, from find-hanging.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", help="Producer id of the transaction, instead of --start-offset.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", help="Producer epoch; needed with --producer-id.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", help="Coordinator epoch; needed with --producer-id.")
    ] = None,
) -> None:
    """Abort a transaction in one partition, when its coordinator does not know it."""
    with reporting():
        if (start_offset is None) == (producer_id is None):
            raise UsageError("say which transaction: --start-offset, or --producer-id with both epochs")
        cluster = context.obj.cluster()
        ((leader, _),) = _leaders(cluster, [(topic, partition)])
        if start_offset is not None:
            producer = _producer_at(leader, topic, partition, start_offset)
            producer_id, producer_epoch = producer.producer_id, producer.producer_epoch
            coordinator_epoch = producer.coordinator_epoch
        if producer_epoch is None or coordinator_epoch is None:
            raise UsageError("--producer-id needs --producer-epoch and --coordinator-epoch")
        marker = {
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
            # A producer that never ended a transaction here has no coordinator epoch; 0 fences nobody.
            "coordinator_epoch": max(coordinator_epoch, 0),
        }
        answer = leader.ask("write_txn_markers", 1, markers=[marker])
        error = answer.markers[0].topics[0].partitions[0].error_code
        if error is not ErrorCode.none:
            raise CommandError(f"{topic}-{partition}: the transaction was not aborted ({error.name})")
        say(f"{topic}-{partition}: aborted the transaction of producer id {producer_id}")


@transactions.command("find-hanging")
def find_hanging(
    context: typer.Context,
    broker_id: Annotated[int | None, typer.Option("--broker-id", help="Search the partitions of this broker.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Search this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, help="Search this partition; with --topic.")
    ] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            help="Only transactions open for longer than this count as hanging.",
        ),
    ] = 15,
    as_json: JsonOption = False,
) -> None:
    """Find transactions that are open in a partition but unknown to every coordinator, so that nothing ends them."""
    with reporting():
        if topic is None and broker_id is None:
            raise UsageError("give --topic or --broker-id")
        if partition is not None and topic is None:
            raise UsageError("--partition needs --topic")
        cluster = context.obj.cluster()
        searched = _searched(cluster, topic, partition, broker_id)
        asked = _leaders(cluster, searched) if broker_id is None else [(_node(cluster, broker_id), searched)]
        oldest_ms = _now_ms() - max_transaction_timeout * _MINUTE_MS
        late = [
            transaction
            for node, partitions in asked
            for transaction in _open_transactions(node, partitions)
            if transaction.producer.last_timestamp < oldest_ms
        ]
        hanging = _unknown_to_coordinators(cluster, late)
        if as_json:
            print_json(
                [{"topic": found.topic, "partition": found.partition} | found.producer._asdict() for found in hanging]
            )
            return
        print_table(
            ("Topic", "Partition", "Producer id", "Epoch", "Coordinator epoch", "From offset", "Last written"),
            [
                (
                    found.topic,
                    found.partition,
                    found.producer.producer_id,
                    found.producer.producer_epoch,
                    found.producer.coordinator_epoch,
                    found.producer.current_transaction_start_offset,
                    time_text(found.producer.last_timestamp),
                )
                for found in hanging
            ],
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


# Asking coordinators


def _list(cluster: Cluster, version: int, **filters: Any) -> Iterator[Listing]:
    defaults: dict[str, Any] = {"state_filters": (), "producer_id_filters": ()}
    for node in nodes_of(cluster):
        answer = node.ask("list_transactions", version, **(defaults | filters))
        if answer.error_code is not ErrorCode.none:
            raise CommandError(f"broker {node.node_id} does not list its transactions: {answer.error_code.name}")
        for found in answer.transaction_states:
            yield Listing(found.transactional_id, node.node_id, found.producer_id, found.transaction_state)


def _describe(coordinator: Node, transactional_id: str) -> Any:
    """Return the description, or None for an unknown transactional id."""
    (found,) = coordinator.ask("describe_transactions", 0, transactional_ids=(transactional_id,)).transaction_states
    if found.error_code is ErrorCode.transactional_id_not_found:
        return None
    if found.error_code is not ErrorCode.none:
        raise CommandError(f"{transactional_id}: {found.error_code.name}")
    return found


def _partitions_of(description: Any) -> list[Partition]:
    return [(found.topic, index) for found in description.topics for index in found.partitions]


def _unknown_to_coordinators(cluster: Cluster, transactions: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Return the transactions whose partition is in no coordinator's transaction: nobody will write their markers."""
    producer_ids = tuple({found.producer.producer_id for found in transactions})
    if not producer_ids:
        return []
    known: set[tuple[int, Partition]] = set()
    nodes = {node.node_id: node for node in nodes_of(cluster)}
    for listing in _list(cluster, 0, producer_id_filters=producer_ids):
        description = _describe(nodes[listing.coordinator], listing.transactional_id)
        if description is not None:
            known |= {(description.producer_id, partition) for partition in _partitions_of(description)}
    return [
        found for found in transactions if (found.producer.producer_id, (found.topic, found.partition)) not in known
    ]


# Asking partitions


def _node(cluster: Cluster, broker_id: int) -> Node:
    for node in nodes_of(cluster):
        if node.node_id == broker_id:
            return node
    raise UsageError(f"--broker-id {broker_id}: there is no such broker")


def _searched(cluster: Cluster, topic: str | None, partition: int | None, broker_id: int | None) -> list[Partition]:
    if topic is not None and partition is not None:
        _check(cluster, topic, partition)
        return [(topic, partition)]
    if topic is not None:
        cluster.require_topic(topic)
    topics = cluster.metadata.topics
    return [
        (name, index)
        for name in ([topic] if topic is not None else sorted(topics))
        for index, found in sorted(topics[name].partitions.items())
        if broker_id is None or broker_id in found.replicas
    ]


def _check(cluster: Cluster, topic: str, partition: int) -> None:
    if partition not in cluster.partitions_of(topic):
        raise CommandError(f"{topic} has no partition {partition}")


def _leaders(cluster: Cluster, partitions: Iterable[Partition]) -> list[tuple[Node, list[Partition]]]:
    """Return the leaders of the partitions, each with the partitions that it leads."""
    led = []
    for topic, index in partitions:
        _check(cluster, topic, index)
        leader = cluster.metadata.topics[topic].partitions[index].leader
        if leader < 0:
            raise CommandError(f"{topic}-{index} has no leader")
        led.append((_node(cluster, leader), (topic, index)))
    return [(node, [partition for _, partition in group]) for node, group in groupby(sorted(led), key=itemgetter(0))]


def _active_producers(node: Node, partitions: Sequence[Partition]) -> dict[Partition, list[ActiveProducer]]:
    found: dict[Partition, list[ActiveProducer]] = {}
    for first in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        some = sorted(partitions[first : first + _PARTITIONS_AT_ONCE])
        topics = tuple(
            {"name": topic, "partition_indexes": tuple(index for _, index in group)}
            for topic, group in groupby(some, key=itemgetter(0))
        )
        for topic in node.ask("describe_producers", 0, topics=topics).topics:
            for partition in topic.partitions:
                if partition.error_code is not ErrorCode.none:
                    raise CommandError(f"{topic.name}-{partition.partition_index}: {partition.error_code.name}")
                found[topic.name, partition.partition_index] = [
                    ActiveProducer(
                        producer.producer_id,
                        producer.producer_epoch,
                        producer.coordinator_epoch,
                        producer.last_sequence,
                        producer.last_timestamp,
                        None if producer.current_txn_start_offset == _NONE else producer.current_txn_start_offset,
                    )
                    for producer in partition.active_producers
                ]
    return found


def _open_transactions(node: Node, partitions: Sequence[Partition]) -> Iterator[OpenTransaction]:
    for (topic, index), producers in sorted(_active_producers(node, partitions).items()):
        for producer in producers:
            if producer.current_transaction_start_offset is not None:
                yield OpenTransaction(topic, index, producer)


def _producer_at(leader: Node, topic: str, partition: int, start_offset: int) -> ActiveProducer:
    for found in _open_transactions(leader, [(topic, partition)]):
        if found.producer.current_transaction_start_offset == start_offset:
            return found.producer
    raise CommandError(f"{topic}-{partition}: no open transaction begins at offset {start_offset}")
