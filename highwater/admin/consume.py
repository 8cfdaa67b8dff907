"""`highwater broker consume`: prints the records of a topic on standard output."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    Partition,
    key_values,
    refusal,
)
from highwater.admin.terminal import (
    CommandError,
    JsonOption,
    UsageError,
    json_bytes,
    print_json_line,
    reporting,
)
from highwater.common.nearest import did_you_mean

_BATCH: Final = 500
_POLL_S: Final = 0.1


def consume(
    topic: Annotated[str, typer.Option("--topic", help="The topic to read.")],
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the earliest record instead of the next new one.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, show_default="all", help="Read this partition only.")
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option("--offset", metavar="N|earliest|latest", help="Offset to start at; needs --partition."),
    ] = None,
    group: Annotated[str | None, typer.Option("--group", help="Join this consumer group and commit offsets.")] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", min=0, help="Stop after this many records.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option("--timeout-ms", min=0, help="Stop when no record arrived for this time.")
    ] = None,
    print_key: Annotated[bool, typer.Option("--print-key", help="Print the key of each record.")] = False,
    print_offset: Annotated[bool, typer.Option("--print-offset", help="Print the offset of each record.")] = False,
    print_partition: Annotated[
        bool, typer.Option("--print-partition", help="Print the partition of each record.")
    ] = False,
    print_timestamp: Annotated[
        bool, typer.Option("--print-timestamp", help="Print the timestamp of each record.")
    ] = False,
    print_headers: Annotated[bool, typer.Option("--print-headers", help="Print the headers of each record.")] = False,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", show_default="a tab", help="Separator between the parts of a line.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--formatter-property",
            metavar="NAME=VALUE",
            help="Setting for printing, as in Kafka's tool; may be repeated: print.key, print.value, "
            "print.timestamp, print.offset, print.partition, print.headers, key.separator, line.separator, "
            "headers.separator, null.literal.",
        ),
    ] = None,
    isolation_level: Annotated[
        str, typer.Option("--isolation-level", help="read_committed skips aborted and open transactions.")
    ] = "read_uncommitted",
    consumer_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--consumer-property",
            metavar="NAME=VALUE",
            help="A property of the consumer, named as in librdkafka; may be repeated.",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the records of a topic, one per line, until interrupted or until a limit is reached.

    With --json each line is an object with topic, partition, offset, timestamp, key, value and headers. Exit code: 0
    done (also when the reader of the output closed it), 1 the broker refused it, 2 usage error or no broker, 130
    interrupted.
    """
    with reporting():
        if offset is not None and partition is None:
            raise UsageError("--offset needs --partition: offsets are counted by partition")
        if offset is not None and offset not in ("earliest", "latest") and not offset.isdecimal():
            raise UsageError(f"--offset {offset}: it is a number from 0 on, earliest or latest")
        if offset is not None and from_beginning:
            raise UsageError("--from-beginning and --offset cannot go together")
        if group is not None and partition is not None:
            raise UsageError("--group and --partition cannot go together: a group shares out the partitions itself")
        if isolation_level not in ("read_committed", "read_uncommitted"):
            raise UsageError(f"--isolation-level {isolation_level}: it is read_committed or read_uncommitted")
        flags = {
            "print.key": print_key,
            "print.offset": print_offset,
            "print.partition": print_partition,
            "print.timestamp": print_timestamp,
            "print.headers": print_headers,
        }
        chosen = key_values(properties or (), "--property") | {name: "true" for name, is_set in flags.items() if is_set}
        if key_separator is not None:
            chosen["key.separator"] = key_separator
        line_format = LineFormat.from_properties(chosen)
        cluster = Cluster(
            bootstrap_server,
            command_config,
            {
                "auto.offset.reset": "earliest" if from_beginning else "latest",
                # librdkafka requires a group id, even of a consumer that joins no group.
                "group.id": group or f"highwater-console-{uuid.uuid4().hex[:8]}",
                "enable.auto.commit": "false" if group is None else "true",
                # Commit what was printed, not what was fetched ahead of a reader who closed the output.
                "enable.auto.offset.store": "false",
                "isolation.level": isolation_level,
                # The output is a pipe or a terminal: fetch little ahead, and do not pause for a second when full.
                "queued.max.messages.kbytes": "16384",
                "fetch.queue.backoff.ms": "10",
            }
            | key_values(consumer_properties or (), "--consumer-property"),
        )
        partitions = cluster.partitions_of(topic)
        if partition is not None and partition not in partitions:
            raise CommandError(f"topic {topic} has no partition {partition}; it has {len(partitions)}, from 0 on")
        try:
            consumer = Consumer(cluster.client_config)
        except KafkaException as error:
            raise UsageError(f"the consumer's configuration: {error.args[0].str()}") from None
        try:
            if group is not None:
                consumer.subscribe([topic])
            else:
                wanted = partitions if partition is None else [partition]
                start = offset or ("earliest" if from_beginning else "latest")
                consumer.assign(_starts(cluster, [(topic, index) for index in wanted], start))
            write = (lambda message: print_json_line(_as_json(message))) if as_json else line_format.write
            _read(consumer, write, max_messages, timeout_ms)
        finally:
            consumer.close()


def _starts(cluster: Cluster, partitions: list[Partition], offset: str) -> list[TopicPartition]:
    """Return the start offset of each as a number: librdkafka would look up "the end" again half a second later."""
    ranges = cluster.log_ranges(partitions)
    starts = []
    for topic, index in partitions:
        if (topic, index) not in ranges:
            raise CommandError(f"{topic}-{index}: its leader does not return its offsets")
        low, high = ranges[topic, index]
        start = {"earliest": low, "latest": high}.get(offset)
        if start is None:
            start = int(offset)
        if not low <= start <= high:
            raise CommandError(f"offset {offset} is not in {topic}-{index}: it has {low} up to {high}")
        starts.append(TopicPartition(topic, index, start))
    return starts


def _read(
    consumer: Consumer, write: Callable[[Message], None], max_messages: int | None, timeout_ms: int | None
) -> None:
    left = sys.maxsize if max_messages is None else max_messages
    last_ns = time.monotonic_ns()
    while left > 0:
        messages = consumer.consume(min(_BATCH, left), _POLL_S)
        written: dict[Partition, Message] = {}
        for message in messages:
            if (error := message.error()) is not None:
                if error.code() in _PASSING:
                    continue
                raise refusal("", KafkaException(error))
            write(message)
            written[message.topic() or "", message.partition() or 0] = message
            left -= 1
            last_ns = time.monotonic_ns()
        sys.stdout.flush()
        _store(consumer, written.values())
        if not messages and timeout_ms is not None and time.monotonic_ns() - last_ns > timeout_ms * 1_000_000:
            return


def _store(consumer: Consumer, messages: Iterable[Message]) -> None:
    for message in messages:
        try:
            consumer.store_offsets(message=message)
        except KafkaException as error:
            # Another member has the partition now and starts at the offset that this one committed.
            if error.args[0].code() != KafkaError._STATE:
                raise refusal("", error) from None


_PASSING: Final = (KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
"""Errors that do not end the command: the consumer retries by itself, also while a broker is down."""


class LineFormat(NamedTuple):
    """How a record is printed; names, defaults and order are those of Kafka's DefaultMessageFormatter."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LineFormat:
        known = {name.replace("_", "."): name for name in cls._fields}
        values: dict[str, Any] = {}
        for name, text in properties.items():
            field = known.get(name)
            if field is None:
                raise UsageError(f"--property {name}: there is no such property{did_you_mean(name, known)}")
            if not isinstance(cls._field_defaults[field], bool):
                values[field] = text.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").encode()
            elif text.lower() in ("true", "false"):
                values[field] = text.lower() == "true"
            else:
                raise UsageError(f"--property {name}={text}: it is true or false")
        return cls(**values)

    def write(self, message: Message) -> None:
        sys.stdout.buffer.write(self.line(message))

    def line(self, message: Message) -> bytes:
        parts: list[bytes] = []
        if self.print_timestamp:
            kind, timestamp_ms = message.timestamp()
            parts.append(
                b"NO_TIMESTAMP"
                if kind == TIMESTAMP_NOT_AVAILABLE
                else f"{_timestamp_type(kind)}:{timestamp_ms}".encode()
            )
        if self.print_partition:
            parts.append(b"Partition:%d" % (message.partition() or 0))
        if self.print_offset:
            parts.append(b"Offset:%d" % (message.offset() or 0))
        if self.print_headers:
            headers = [name.encode() + b":" + self._or_null(value) for name, value in _headers(message)]
            parts.append(self.headers_separator.join(headers) if headers else b"NO_HEADERS")
        if self.print_key:
            parts.append(self._or_null(_bytes(message.key())))
        if self.print_value:
            parts.append(self._or_null(_bytes(message.value())))
        return self.key_separator.join(parts) + self.line_separator

    def _or_null(self, data: bytes | None) -> bytes:
        return self.null_literal if data is None else data


def _as_json(message: Message) -> dict[str, Any]:
    kind, timestamp_ms = message.timestamp()
    has_time = kind != TIMESTAMP_NOT_AVAILABLE
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": timestamp_ms if has_time else None,
        "timestamp_type": _timestamp_type(kind) if has_time else None,
        **json_bytes("key", _bytes(message.key())),
        **json_bytes("value", _bytes(message.value())),
        "headers": [{"key": name} | json_bytes("value", value) for name, value in _headers(message)],
    }


def _timestamp_type(kind: int) -> str:
    return "LogAppendTime" if kind == TIMESTAMP_LOG_APPEND_TIME else "CreateTime"


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    headers: Any = message.headers()
    return headers or []


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
