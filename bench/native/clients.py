"""Runs native clients, reads the figures that they print, and believes only what adds up.

A load counts when all that was sent was acknowledged, and all that was to be read came; anything else is a TrialError.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import crc32c

from highwater.bench.errors import TrialError
from highwater.bench.native.librdkafka import rdkafka_performance
from highwater.bench.native.programs import program

_TIMEOUT_S: Final = 300.0
_PRODUCED: Final = re.compile(
    r"(?P<produced>\d+) messages produced \((?P<bytes>\d+) bytes\), (?P<delivered>\d+) delivered "
    r"\(offset -?\d+, (?P<failed>\d+) failed\) in (?P<ms>\d+)ms"
)
_CONSUMED: Final = re.compile(r"(?P<consumed>\d+) messages \((?P<bytes>\d+) bytes\) consumed in (?P<ms>\d+)ms")


@dataclass(frozen=True, slots=True)
class Load:
    """What a client did, by its own clock. Latencies are known of prepared requests, each from when it was due."""

    records: int
    record_bytes: int
    seconds: float
    p50_ns: int | None = None
    p99_ns: int | None = None

    @property
    def size_bytes(self) -> int:
        return self.records * self.record_bytes

    @property
    def mb_per_s(self) -> float:
        return self.size_bytes / 1e6 / self.seconds

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


@dataclass(frozen=True, slots=True)
class Production:
    """How a librdkafka producer produces."""

    record_bytes: int
    properties: Mapping[str, str]
    acks: int = 1


def batches_of(size_bytes: int, record_bytes: int) -> Production:
    """Full batches of `size_bytes`, as a producer in a hurry sends them."""
    properties = {"batch.size": str(size_bytes), "batch.num.messages": "100000", "linger.ms": "5"}
    return Production(record_bytes, properties)


def one_record_per_request(record_bytes: int) -> Production:
    return Production(record_bytes, {"batch.num.messages": "1", "linger.ms": "0"})


def produce(address: str, topic: str, partitions: int, production: Production, records: int) -> Load:
    """Each record goes to a partition drawn by the client. Raises TrialError unless every record was acknowledged."""
    options = ["-P", "-s", str(production.record_bytes), "-a", str(production.acks), "-c", str(records)]
    if partitions == 1:
        options += ["-p", "0"]
    printed = _rdkafka_performance(address, topic, options, production.properties)
    match = _last(_PRODUCED, printed)
    if int(match["delivered"]) != records or int(match["failed"]) != 0:
        raise TrialError(f"the producer was to deliver {records} records: {match[0]}")
    return Load(records, production.record_bytes, max(int(match["ms"]), 1) / 1000)


def consume(address: str, topic: str, partitions: int, record_bytes: int, records: int) -> Load:
    """From the beginning of every partition. Raises TrialError unless every record came."""
    options = ["-C", "-o", "beginning", "-c", str(records)]
    for partition in range(partitions):
        options += ["-p", str(partition)]
    match = _last(_CONSUMED, _rdkafka_performance(address, topic, options, {}))
    if int(match["consumed"]) < records or int(match["bytes"]) != int(match["consumed"]) * record_bytes:
        raise TrialError(f"the consumer was to read {records} records of {record_bytes} bytes: {match[0]}")
    return Load(int(match["consumed"]), record_bytes, max(int(match["ms"]), 1) / 1000)


def _rdkafka_performance(address: str, topic: str, options: Sequence[str], properties: Mapping[str, str]) -> str:
    command = [str(rdkafka_performance()), "-b", address, "-t", topic, "-q", *options]
    for name, value in properties.items():
        command += ["-X", f"{name}={value}"]
    return _run(command)


def _last(pattern: re.Pattern[str], printed: str) -> re.Match[str]:
    matches = list(pattern.finditer(printed))
    if not matches:
        lines = printed.strip().splitlines()
        raise TrialError(f"rdkafka_performance gave no figures: {lines[-1] if lines else 'it printed nothing'}")
    return matches[-1]


def fetch(port: int, topic: str, records: int) -> float:
    """MB/s of record batches at which the broker hands out partition 0, to a client that looks at no record."""
    command = [program("wire_fetch"), port, topic, 0, records, 1 << 20]
    answers = json.loads(_run([str(part) for part in command]))
    if answers["records"] != records:
        raise TrialError(f"{records} records were to be fetched and {answers['records']} came")
    return float(answers["bytes"] / 1e6 / answers["seconds"])


class PreparedRequests:
    """One Produce request (version 7), encoded once and sent many times by `wire_load`."""

    def __init__(self, directory: Path, topic: str, *, acks: int, records: int, record_bytes: int) -> None:
        client_id, name = _string("highwater-bench"), _string(topic)
        batch = record_batch(records, record_bytes)
        head = struct.pack(">hhi", 0, 7, 0) + client_id + struct.pack(">hhi", -1, acks, 30_000)
        head += struct.pack(">i", 1) + name + struct.pack(">i", 1)
        frame = head + struct.pack(">ii", 0, len(batch)) + batch
        self.records = records
        self.record_bytes = record_bytes
        self._template = directory / f"{topic}.request"
        self._template.write_bytes(struct.pack(">i", len(frame)) + frame)
        # Behind size, key and version the correlation id; in the answer size, correlation id, one topic, one partition.
        self._places = ["8", str(4 + len(head)), str(4 + 4 + 4 + len(name) + 4 + 4)]

    def send(
        self,
        ports: Sequence[int],
        records: int,
        *,
        connections: int,
        in_flight: int,
        partitions: int = 1,
        records_per_s: float = 0.0,
    ) -> Load:
        """At least `records`, in whole requests; as fast as they are answered unless a rate is given.

        Partition p is led at port p modulo their number, and so is the number of connections a multiple of it.
        Raises TrialError when an answer is missing, out of turn or an error.
        """
        requests = -(-records // self.records)
        numbers = (partitions, connections, in_flight, requests, records_per_s / self.records)
        command = [
            str(program("wire_load")),
            ",".join(map(str, ports)),
            str(self._template),
            *self._places,
            *map(str, numbers),
        ]
        answers = json.loads(_run(command))
        if answers["requests"] != requests:
            raise TrialError(f"{requests} requests were sent and {answers['requests']} answered")
        return Load(
            requests * self.records, self.record_bytes, answers["seconds"], answers["p50_ns"], answers["p99_ns"]
        )


def record_batch(records: int, record_bytes: int) -> bytes:
    """A record batch (v2, uncompressed) of equal records without keys, of a producer without an id."""
    body = b"".join(_record(delta, bytes(record_bytes)) for delta in range(records))
    timestamp_ms = 1_700_000_000_000
    checked = struct.pack(">hiqqqhii", 0, records - 1, timestamp_ms, timestamp_ms, -1, -1, -1, records) + body
    # Base offset and length; leader epoch, magic, CRC-32C of all that follows it.
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c.crc32c(checked)) + checked


def _record(offset_delta: int, value: bytes) -> bytes:
    fields = b"\0" + _varint(0) + _varint(offset_delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(fields)) + fields


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while zigzag >= 0x80:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode("ascii")


def _run(command: Sequence[str]) -> str:
    """What a load generator printed. Raises TrialError with its last line when it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise TrialError(f"{Path(command[0]).name} did not end within {_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines()
        raise TrialError(f"{Path(command[0]).name} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stdout
