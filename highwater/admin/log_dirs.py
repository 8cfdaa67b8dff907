"""`highwater broker log-dirs`: shows the disk space of each partition, by broker and log directory.

It uses DescribeLogDirs version 1 (KIP-113), which brokers serve since Kafka 1.0.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer
from kio.schema.errors import ErrorCode

from highwater.admin.client import DEFAULT_BOOTSTRAP, BootstrapOption, Cluster, CommandConfigOption
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    print_json,
    print_table,
    reporting,
    say,
)
from highwater.admin.wire import Node, nodes_of
from highwater.common.units import count_text, size_text


class PartitionSize(NamedTuple):
    broker: int
    log_dir: str
    topic: str
    partition: int
    size_bytes: int


def log_dirs(
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", show_default="all", help="Show this topic only; may be repeated.")
    ] = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the size of every partition, by broker and log directory.

    Exit code: 0 done, 1 the broker refused it, 2 usage error or no broker.
    """
    with reporting():
        cluster = Cluster(bootstrap_server, command_config)
        for name in topic or ():
            cluster.require_topic(name)
        sizes: list[PartitionSize] = []
        for node in nodes_of(cluster):
            sizes += _ask(node)
        sizes = sorted(size for size in sizes if not topic or size.topic in topic)
        if as_json:
            print_json([size._asdict() for size in sizes])
            return
        print_table(
            ("Broker", "Directory", "Topic", "Partition", "Size"),
            [(s.broker, s.log_dir, s.topic, s.partition, size_text(s.size_bytes)) for s in sizes],
        )
        say(f"{count_text(len(sizes))} partitions, {size_text(sum(size.size_bytes for size in sizes))}")


def _ask(node: Node) -> list[PartitionSize]:
    sizes = []
    for result in node.ask("describe_log_dirs", 1, topics=None).results:
        if result.error_code is not ErrorCode.none:
            raise CommandError(f"broker {node.node_id}: log directory {result.log_dir}: {result.error_code.name}")
        sizes += [
            PartitionSize(node.node_id, result.log_dir, found.name, partition.partition_index, partition.partition_size)
            for found in result.topics
            for partition in found.partitions
        ]
    return sizes
