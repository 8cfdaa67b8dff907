"""`highwater broker log-dirs`: how much disk each partition takes, on which broker and in which directory.

confluent-kafka has no such request, so it is spoken here: DescribeLogDirs version 1, which brokers from Kafka 1.0 on
serve (KIP-113), over a plain connection.
"""

from __future__ import annotations

import io
import socket
import struct
from typing import Annotated, Any, Final, NamedTuple

import typer
from kio.schema.describe_log_dirs.v1.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from broker.commands.client import CONNECT_TIMEOUT_S, DEFAULT_BOOTSTRAP, BootstrapOption, Cluster
from broker.commands.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    print_json,
    print_table,
    reporting,
    say,
    size_text,
)

_API_KEY: Final = 35
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hhih")
_RESPONSE_HEADER: Final = struct.Struct(">i")
_MAX_ANSWER_BYTES: Final = 64 << 20


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
    as_json: JsonOption = False,
) -> None:
    """Show the size of every partition, by broker and log directory. Plain connections only.

    Exit code: 0, 1 the broker said no, 2 wrong usage or no broker.
    """
    with reporting():
        cluster = Cluster(bootstrap_server)
        for name in topic or ():
            cluster.require_topic(name)
        sizes: list[PartitionSize] = []
        for broker in sorted(cluster.metadata.brokers.values(), key=lambda node: int(node.id)):
            sizes += _ask(int(broker.id), str(broker.host), int(broker.port))
        sizes = sorted(size for size in sizes if not topic or size.topic in topic)
        if as_json:
            print_json([size._asdict() for size in sizes])
            return
        print_table(
            ("Broker", "Directory", "Topic", "Partition", "Size"),
            [(s.broker, s.log_dir, s.topic, s.partition, size_text(s.size_bytes)) for s in sizes],
        )
        say(f"{len(sizes)} partitions, {size_text(sum(size.size_bytes for size in sizes))}")


def _ask(broker: int, host: str, port: int) -> list[PartitionSize]:
    try:
        answer = _exchange(host, port)
    except (OSError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"broker {broker} at {host}:{port} does not tell its log directories: {reason}") from None
    sizes = []
    for result in answer.results:
        if result.error_code != ErrorCode.none:
            raise CommandError(f"broker {broker}: log directory {result.log_dir}: {result.error_code.name}")
        sizes += [
            PartitionSize(broker, result.log_dir, found.name, partition.partition_index, partition.partition_size)
            for found in result.topics
            for partition in found.partitions
        ]
    return sizes


def _exchange(host: str, port: int) -> Any:
    body = io.BytesIO()
    entity_writer(DescribeLogDirsRequest)(body, DescribeLogDirsRequest(topics=None))
    request = _HEADER.pack(_API_KEY, _VERSION, 1, -1) + body.getvalue()
    with socket.create_connection((host, port), CONNECT_TIMEOUT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        if not _RESPONSE_HEADER.size <= size <= _MAX_ANSWER_BYTES:
            raise EOFError(f"an answer of {size} bytes")
        answer = _receive(connection, size)
    decoded, _ = entity_reader(DescribeLogDirsResponse)(answer, _RESPONSE_HEADER.size)
    return decoded


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError("it closed the connection")
        data += piece
    return bytes(data)
