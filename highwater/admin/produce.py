"""`highwater broker produce`: writes the lines of standard input to a topic as records."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import IO, Annotated, Any, Final, NamedTuple

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from highwater.admin.client import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Cluster,
    CommandConfigOption,
    key_values,
    refusal,
)
from highwater.admin.terminal import CommandError, UsageError, reporting
from highwater.common.exit_codes import EXIT_INTERRUPTED
from highwater.common.nearest import did_you_mean

DELIVERY_TIMEOUT_S: Final = 30
_FLUSH_STEP_S: Final = 0.5


def produce(
    topic: Annotated[str, typer.Option("--topic", help="The topic to write to; it must exist.")],
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    partition: Annotated[
        int | None,
        typer.Option("--partition", min=0, show_default="by key, or spread", help="Write to this partition."),
    ] = None,
    parse_key: Annotated[
        bool, typer.Option("--parse-key", "--parse.key", help="Read each line as KEY SEPARATOR VALUE.")
    ] = False,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator",
            "--key.separator",
            help="Separator between key and value.",
            show_default="a tab; \\t is one too",
        ),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            "--reader-property",
            metavar="NAME=VALUE",
            help="Setting for reading lines, as in Kafka's tool; may be repeated: parse.key, key.separator, "
            "parse.headers, headers.delimiter, headers.separator, headers.key.separator, null.marker, ignore.error.",
        ),
    ] = None,
    acks: Annotated[str, typer.Option("--acks", "--request-required-acks", help="0, 1 or all.")] = "all",
    compression_type: Annotated[
        str, typer.Option("--compression-type", "--compression-codec", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    producer_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--producer-property",
            metavar="NAME=VALUE",
            help="A property of the producer, named as in librdkafka; may be repeated.",
        ),
    ] = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Write each line of standard input to a topic as one record, in order.

    Exit code: 0 every record was acknowledged, 1 some were not, 2 usage error or no broker, 130 interrupted (the lines
    read until then are written).
    """
    with reporting():
        reader = LineReader.from_properties(_line_properties(properties, parse_key, key_separator))
        if acks not in ("0", "1", "all", "-1"):
            raise UsageError(f"--acks {acks}: it is 0, 1 or all")
        cluster = Cluster(
            bootstrap_server,
            command_config,
            # Retries must not change the order or write twice, unless a --producer-property allows it.
            {"enable.idempotence": "true" if acks in ("all", "-1") else "false"}
            | {"delivery.timeout.ms": str(DELIVERY_TIMEOUT_S * 1000), "linger.ms": "5"}
            | key_values(producer_properties or (), "--producer-property")
            | {"acks": acks, "compression.type": compression_type},
        )
        partitions = cluster.partitions_of(topic)
        if partition is not None and partition not in partitions:
            raise CommandError(f"topic {topic} has no partition {partition}; it has {len(partitions)}, from 0 on")
        try:
            producer = Producer(cluster.client_config)
        except KafkaException as error:
            raise UsageError(f"the producer's configuration: {error.args[0].str()}") from None
        if _write(producer, reader.records(sys.stdin.buffer), topic, partition):
            raise typer.Exit(EXIT_INTERRUPTED)


def _write(producer: Producer, records: Iterator[InputRecord], topic: str, partition: int | None) -> bool:
    """Write all records. Returns whether it was interrupted. Raises CommandError when one was not acknowledged."""
    sent_count = 0
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    destination: dict[str, Any] = {} if partition is None else {"partition": partition}
    is_interrupted = False
    try:
        for record in records:
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        headers=record.headers or None,
                        on_delivery=delivered,
                        **destination,
                    )
                    break
                except BufferError:
                    producer.poll(_FLUSH_STEP_S)
                except KafkaException as error:
                    raise refusal(f"line {sent_count + 1}", error) from None
            sent_count += 1
            producer.poll(0)
            if failures and failures[0].fatal():
                break
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        while producer.flush(_FLUSH_STEP_S):
            pass  # Every record is delivered or fails within its time-out, so this ends.
    if failures:
        reason = failures[0]
        raise CommandError(
            f"{len(failures)} of {sent_count} records were not written: {reason.str().rstrip('.')} ({reason.name()})"
        )
    return is_interrupted


class InputRecord(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class LineReader(NamedTuple):
    """How a line becomes a record; names, defaults and order (headers, key, value) as in Kafka's LineMessageReader."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LineReader:
        known = {name.replace("_", "."): name for name in cls._fields}
        values: dict[str, Any] = {}
        for name, text in properties.items():
            field = known.get(name)
            if field is None:
                raise UsageError(f"--property {name}: there is no such property{did_you_mean(name, known)}")
            if isinstance(cls._field_defaults[field], bool):
                if text.lower() not in ("true", "false"):
                    raise UsageError(f"--property {name}={text}: it is true or false")
                values[field] = text.lower() == "true"
            elif not text:
                raise UsageError(f"--property {name}: it is empty")
            else:
                values[field] = text.replace("\\t", "\t").encode()
        return cls(**values)

    def records(self, lines: IO[bytes]) -> Iterator[InputRecord]:
        prompt = lines.isatty()
        number = 0
        while True:
            if prompt:
                sys.stderr.write(">")
                sys.stderr.flush()
            line = lines.readline()
            if not line:
                return
            number += 1
            yield self.parse(line.removesuffix(b"\n").removesuffix(b"\r"), number)

    def parse(self, line: bytes, number: int) -> InputRecord:
        headers: list[tuple[str, str | bytes | None]] = []
        key = None
        rest = line
        if self.parse_headers:
            text, rest = self._split(rest, self.headers_delimiter, "headers", number)
            for header in text.split(self.headers_separator) if text and not self._is_null(text) else ():
                name, value = self._split(header, self.headers_key_separator, "header value", number)
                headers.append((name.decode(errors="replace"), None if self._is_null(value) else value))
        if self.parse_key:
            key, rest = self._split(rest, self.key_separator, "key", number)
        return InputRecord(
            None if self._is_null(rest) else rest, None if key is None or self._is_null(key) else key, headers
        )

    def _split(self, text: bytes, separator: bytes, what: str, number: int) -> tuple[bytes, bytes]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return b"", text
        raise CommandError(f"line {number}: no {what}: there is no {separator.decode(errors='replace')!r} in it")

    def _is_null(self, text: bytes) -> bool:
        return self.null_marker is not None and text == self.null_marker


def _line_properties(properties: list[str] | None, parse_key: bool, key_separator: str | None) -> dict[str, str]:
    merged = key_values(properties or (), "--property")
    if parse_key or key_separator is not None:
        merged["parse.key"] = "true"
    if key_separator is not None:
        merged["key.separator"] = key_separator
    return merged
