"""What a case is, and what cases share: tools that must succeed, topics made, filled and read by Kafka's commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from tests.broker.handlers.harness import decode_answer, request_frame
from tests.broker.running import RunningBroker
from tests.compat.apache_kafka.connection import Connection
from tests.compat.apache_kafka.server import KafkaServer
from tests.compat.apache_kafka.tools import TIMEOUT_S, kafka_tool

Server: TypeAlias = RunningBroker | KafkaServer
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CASES: Final[dict[str, Callable[[RunningBroker], None]]] = {}


def case(check: Callable[[RunningBroker], None]) -> Callable[[RunningBroker], None]:
    CASES[check.__name__.replace("_", "-")] = check
    return check


def succeed(
    main_class: str, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S, jars: Path | None = None
) -> str:
    result = kafka_tool(main_class, *arguments, stdin=stdin, timeout_s=timeout_s, jars=jars)
    printed = result.stdout + result.stderr
    assert result.returncode == 0, f"{main_class} {' '.join(arguments)}: exit {result.returncode}: {printed[-800:]}"
    # Some tools print the exception and exit with 0 all the same.
    assert "Exception" not in printed, f"{main_class} {' '.join(arguments)}: {printed[-800:]}"
    return result.stdout


def create_topic(broker: Server, topic: str, partitions: int = 1, **config: object) -> None:
    configs = [word for name, value in config.items() for word in ("--config", f"{name.replace('_', '.')}={value}")]
    succeed(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.address,
        "--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "1", *configs,
    )  # fmt: skip


def produce(broker: Server, topic: str, lines: list[str], *properties: str) -> None:
    options = [argument for text in properties for argument in ("--producer-property", text)]
    succeed(
        "kafka.tools.ConsoleProducer", "--bootstrap-server", broker.address,
        "--topic", topic, *options, stdin="\n".join(lines) + "\n",
    )  # fmt: skip


def consume(broker: Server, topic: str, count: int, offset: str = "earliest") -> list[str]:
    return succeed(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", broker.address,
        "--topic", topic, "--partition", "0", "--offset", offset,
        "--max-messages", str(count), "--timeout-ms", "20000",
    ).splitlines()  # fmt: skip


def produced_and_consumed(broker: Server, topic: str, lines: list[str], *properties: str) -> None:
    produce(broker, topic, lines, *properties)
    assert consume(broker, topic, len(lines)) == lines, f"{topic}: not what was produced"


def raw_produce(
    server: Server, topic: str, batch: bytes | bytearray, transactional_id: str | None = None
) -> tuple[int, int]:
    """(error code, base offset) of one batch, sent as it is to partition 0."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    connection = Connection(server.port)
    frame = request_frame("produce", 9, transactional_id=transactional_id, acks=-1, timeout=30_000, topic_data=data)
    answer = connection.exchange(frame)
    connection.close()
    (produced,) = decode_answer("produce", 9, [answer]).responses[0].partition_responses
    return int(produced.error_code), int(produced.base_offset)
