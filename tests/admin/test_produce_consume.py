"""The console producer and consumer in pipes: bytes in, the same bytes out."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from highwater.admin.produce import InputRecord, LineReader
from highwater.admin.terminal import CommandError, UsageError
from tests.admin.calling import COMMAND, Result, call
from tests.broker.running import RunningBroker

ROOT = Path(__file__).parents[3]


def create(broker: RunningBroker, topic: str, partitions: int = 1) -> None:
    created = call("topics", "-b", broker.address, "--create", "--topic", topic, "--partitions", str(partitions))
    assert created.exit_code == 0, created


def produce(broker: RunningBroker, topic: str, stdin: str | bytes, *arguments: str) -> Result:
    return call("produce", "-b", broker.address, "--topic", topic, *arguments, stdin=stdin)


def consume(broker: RunningBroker, topic: str, *arguments: str) -> Result:
    return call("consume", "-b", broker.address, "--topic", topic, *arguments)


@pytest.mark.clients
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_bytes_come_back_as_they_went_in(broker: RunningBroker, codec: str) -> None:
    create(broker, f"raw-{codec}")
    lines = b"".join(bytes(byte for byte in os.urandom(40) if byte not in b"\r\n") + b"\n" for _ in range(2000))
    assert produce(broker, f"raw-{codec}", lines, "--compression-type", codec) == Result(0, "", "")
    result = consume(broker, f"raw-{codec}", "--from-beginning", "--max-messages", "2000")
    assert (result.exit_code, result.errors) == (0, "")
    assert result.output.encode(errors="surrogateescape") == lines


@pytest.mark.clients
def test_keys_headers_and_places_are_printed_as_kafka_prints_them(broker: RunningBroker) -> None:
    create(broker, "parts", 2)
    lines = "h1:v1,h2:v2\tkey\tvalue\nNIL\tkey\tNIL\n"
    assert produce(
        broker, "parts", lines, "--parse-key", "--partition", "1",
        "--property", "parse.headers=true", "--property", "null.marker=NIL",
    ) == Result(0, "", "")  # fmt: skip
    printed = consume(
        broker, "parts", "--partition", "1", "--offset", "earliest", "--max-messages", "2", "--key-separator", "|",
        "--print-partition", "--print-offset", "--print-headers", "--property", "print.key=true",
    )  # fmt: skip
    assert printed.output.splitlines() == [
        "Partition:1|Offset:0|h1:v1,h2:v2|key|value",
        "Partition:1|Offset:1|NO_HEADERS|key|null",
    ]
    first, second = consume(broker, "parts", "--from-beginning", "--max-messages", "2", "--json").json_lines
    assert first["timestamp_type"] == "CreateTime"
    assert first["timestamp_ms"] > 1_700_000_000_000
    del first["timestamp_ms"], first["timestamp_type"]
    assert first == {
        "topic": "parts",
        "partition": 1,
        "offset": 0,
        "key": "key",
        "value": "value",
        "headers": [{"key": "h1", "value": "v1"}, {"key": "h2", "value": "v2"}],
    }
    assert second["value"] is None


@pytest.mark.clients
def test_reading_begins_and_ends_where_asked(broker: RunningBroker) -> None:
    create(broker, "numbers")
    assert produce(broker, "numbers", "".join(f"{number}\n" for number in range(100))).exit_code == 0
    from_95 = consume(broker, "numbers", "--partition", "0", "--offset", "95", "--timeout-ms", "1000")
    assert from_95 == Result(0, "95\n96\n97\n98\n99\n", "")
    assert consume(broker, "numbers", "--timeout-ms", "100") == Result(0, "", "")
    assert consume(broker, "numbers", "--from-beginning", "--max-messages", "0") == Result(0, "", "")


@pytest.mark.clients
def test_mistakes_are_one_line_each(broker: RunningBroker) -> None:
    create(broker, "mistaken")
    for result, exit_code, word in (
        (produce(broker, "mistakn", "x\n"), 1, "did you mean mistaken?"),
        (consume(broker, "mistakn"), 1, "did you mean mistaken?"),
        (produce(broker, "mistaken", "x\n", "--partition", "1"), 1, "no partition 1"),
        (consume(broker, "mistaken", "--partition", "1"), 1, "no partition 1"),
        (consume(broker, "mistaken", "--partition", "0", "--offset", "1"), 1, "it has 0 up to 0"),
        (consume(broker, "mistaken", "--partition", "0", "--offset", "-1"), 2, "earliest or latest"),
        (consume(broker, "mistaken", "--offset", "0"), 2, "--partition"),
        (produce(broker, "mistaken", "novalue\n", "--parse-key"), 1, "line 1"),
        (produce(broker, "mistaken", "x\n", "--acks", "2"), 2, "--acks 2"),
        (produce(broker, "mistaken", "x\n", "--compression-type", "lzma"), 2, "lzma"),
        (consume(broker, "mistaken", "--property", "print.kye=true"), 2, "did you mean print.key?"),
        (produce(broker, "mistaken", "y" * 2_000_000, "--producer-property", "message.max.bytes=3000000"), 1,
         "1 of 1 records were not written"),
    ):  # fmt: skip
        assert (result.exit_code, result.output) == (exit_code, ""), result
        assert result.errors.count("\n") == 1, result.errors
        assert word in result.errors


@pytest.mark.clients
def test_a_reader_who_has_enough_ends_it_quietly(broker: RunningBroker) -> None:
    create(broker, "long")
    assert produce(broker, "long", "".join(f"{number:0100d}\n" for number in range(20_000))).exit_code == 0
    command = [*COMMAND, "consume", "-b", broker.address, "--topic", "long", "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"%0100d\n" % 0
            process.stdout.close()
            assert process.wait(60) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


@pytest.mark.clients
def test_an_interrupt_ends_it_quietly(broker: RunningBroker) -> None:
    create(broker, "interrupted")
    assert produce(broker, "interrupted", "one\n").exit_code == 0
    command = [*COMMAND, "consume", "-b", broker.address, "--topic", "interrupted", "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"one\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr.read() == b""
        finally:
            process.kill()


def parse(line: bytes, **properties: str) -> InputRecord:
    reader = LineReader.from_properties({name.replace("_", "."): text for name, text in properties.items()})
    return reader.parse(line, 1)


def test_lines_are_parsed_as_kafkas_reader_does() -> None:
    assert parse(b"a\tb") == (b"a\tb", None, [])
    assert parse(b"a\tb", parse_key="true") == (b"b", b"a", [])
    assert parse(b"a::b", parse_key="true", key_separator="::") == (b"b", b"a", [])
    assert parse(b"k", parse_key="true", ignore_error="true") == (b"k", b"", [])
    assert parse(b"x:1|k|v", parse_key="true", parse_headers="true", headers_delimiter="|", key_separator="|") == (
        b"v",
        b"k",
        [("x", b"1")],
    )
    assert parse(b"-", null_marker="-") == (None, None, [])
    with pytest.raises(CommandError, match="line 1: no key"):
        parse(b"a", parse_key="true")
    with pytest.raises(UsageError, match="true or false"):
        parse(b"a", parse_key="maybe")
    with pytest.raises(UsageError, match="empty"):
        parse(b"a", key_separator="")
