"""Runs native clients, reads the figures that they print, and believes only what adds up.

A load counts when all that was sent was acknowledged, and all that was to be read came; anything else is a TrialError.
Each call blocks until its client has ended. `checkpoint` is called meanwhile and may raise to give up: the client is
then killed.
"""

from __future__ import annotations

import json
import re
import resource
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from highwater.bench.native.librdkafka import rdkafka_performance
from highwater.bench.native.programs import program
from highwater.common.errors import TrialError
from highwater.kafka.records.record import Record, encode_batch

# Longer than any load that a workload can ask for at the rate of a slow disk.
_TIMEOUT_S: Final = 1800.0
_POLL_S: Final = 0.02
_FETCH_BYTES: Final = 1 << 20
_TIMESTAMP_MS: Final = 1_700_000_000_000
_PRODUCED: Final = re.compile(
    r"\b(?P<produced>\d+) messages produced \((?P<bytes>\d+) bytes\), (?P<delivered>\d+) delivered "
    r"\(offset -?\d+, (?P<failed>\d+) failed\) in (?P<ms>\d+)ms"
)
_CONSUMED: Final = re.compile(r"\b(?P<consumed>\d+) messages \((?P<bytes>\d+) bytes\) consumed in (?P<ms>\d+)ms")

Checkpoint = Callable[[], None]


def _go_on() -> None:
    """Never give up."""


@dataclass(frozen=True, slots=True)
class NativeWork:
    """What a client did, by its own clock; cpu_s is what the client itself cost.

    latencies: a file of int64 nanoseconds, one for each request, from when it was due; None where a client times none.
    """

    records: int
    size_bytes: int
    seconds: float
    cpu_s: float
    latencies: Path | None = None

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes / self.seconds

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds


def produce(
    address: str,
    topic: str,
    partitions: int,
    records: int,
    record_bytes: int,
    properties: Mapping[str, str],
    checkpoint: Checkpoint = _go_on,
) -> NativeWork:
    """One rdkafka_performance; each record goes to a partition drawn by the client."""
    acks = properties.get("acks", properties.get("request.required.acks", "all"))
    options = ["-P", "-s", str(record_bytes), "-a", "-1" if acks == "all" else acks, "-c", str(records)]
    if partitions == 1:
        options += ["-p", "0"]
    ran = _rdkafka_performance(address, topic, options, properties, checkpoint)
    match = _last(_PRODUCED, ran.printed)
    if int(match["delivered"]) != records or int(match["failed"]) != 0:
        raise TrialError(f"the producer was to deliver {records} records: {match[0]}")
    return NativeWork(records, records * record_bytes, max(int(match["ms"]), 1) / 1000, ran.cpu_s)


def consume(
    address: str,
    topic: str,
    partitions: int,
    records: int,
    record_bytes: int,
    properties: Mapping[str, str],
    checkpoint: Checkpoint = _go_on,
) -> NativeWork:
    """One rdkafka_performance, from the beginning of every partition."""
    options = ["-C", "-o", "beginning", "-c", str(records)]
    for partition in range(partitions):
        options += ["-p", str(partition)]
    ran = _rdkafka_performance(address, topic, options, properties, checkpoint)
    match = _last(_CONSUMED, ran.printed)
    consumed = int(match["consumed"])
    if consumed < records or int(match["bytes"]) != consumed * record_bytes:
        raise TrialError(f"the consumer was to read {records} records of {record_bytes} bytes: {match[0]}")
    return NativeWork(consumed, consumed * record_bytes, max(int(match["ms"]), 1) / 1000, ran.cpu_s)


def fetch(port: int, topic: str, records: int, record_bytes: int, checkpoint: Checkpoint = _go_on) -> NativeWork:
    """Partition 0 from its beginning, by a client that looks at no record; sizes are those of values, as elsewhere."""
    ran = _run([str(part) for part in (program("wire_fetch"), port, topic, 0, records, _FETCH_BYTES)], checkpoint)
    answers = json.loads(ran.printed)
    if answers["records"] != records:
        raise TrialError(f"{records} records were to be fetched and {answers['records']} came")
    return NativeWork(records, records * record_bytes, answers["seconds"], ran.cpu_s)


@dataclass(frozen=True, slots=True)
class Connections:
    """How prepared requests are sent: over how many connections, how many in flight on each."""

    count: int
    in_flight: int


class PreparedRequests:
    """One Produce request (version 7), encoded once and sent many times by `wire_load`, with the time of the clock."""

    def __init__(self, directory: Path, topic: str, *, acks: int, records: int, record_bytes: int) -> None:
        client_id, name = _string("highwater-bench"), _string(topic)
        batch = record_batch(records, record_bytes)
        head = struct.pack(">hhi", 0, 7, 0) + client_id + struct.pack(">hhi", -1, acks, 30_000)
        head += struct.pack(">i", 1) + name + struct.pack(">i", 1)
        frame = head + struct.pack(">ii", 0, len(batch)) + batch
        self.records = records
        self.record_bytes = record_bytes
        self._latencies = directory / f"{topic}.latencies"
        self._template = directory / f"{topic}.request"
        self._template.write_bytes(struct.pack(">i", len(frame)) + frame)
        # Behind size, key and version the correlation id; in the answer size, correlation id, one topic, one partition.
        self._places = ["8", str(4 + len(head)), str(4 + len(frame) - len(batch)), str(4 + 4 + 4 + len(name) + 4 + 4)]

    def send(
        self,
        ports: Sequence[int],
        records: int,
        connections: Connections,
        *,
        partitions: int = 1,
        records_per_s: float = 0.0,
        checkpoint: Checkpoint = _go_on,
    ) -> NativeWork:
        """Send `records` or more, in whole requests; as fast as they are answered unless a rate is given.

        Partition p is led at port p modulo their number, and so is the number of connections a multiple of it.
        Raises TrialError when an answer is missing, out of turn or an error. The latencies are those of the last call.
        """
        requests = -(-records // self.records)
        numbers = (partitions, connections.count, connections.in_flight, requests, records_per_s / self.records)
        command = [
            str(program("wire_load")),
            ",".join(map(str, ports)),
            str(self._template),
            *self._places,
            *map(str, numbers),
            str(self._latencies),
        ]
        ran = _run(command, checkpoint)
        answers = json.loads(ran.printed)
        if answers["requests"] != requests:
            raise TrialError(f"{requests} requests were sent and {answers['requests']} answered")
        sent = requests * self.records
        return NativeWork(sent, sent * self.record_bytes, answers["seconds"], ran.cpu_s, self._latencies)


def record_batch(records: int, record_bytes: int) -> bytes:
    """A record batch (v2, uncompressed) of equal records without keys, of a producer without an id."""
    return bytes(encode_batch([Record(bytes(record_bytes), timestamp_ms=_TIMESTAMP_MS)] * records))


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode("ascii")


def _rdkafka_performance(
    address: str, topic: str, options: Sequence[str], properties: Mapping[str, str], checkpoint: Checkpoint
) -> _Ran:
    command = [str(rdkafka_performance()), "-b", address, "-t", topic, "-q", *options]
    for name, value in properties.items():
        if name not in ("acks", "request.required.acks"):  # an option of its own
            command += ["-X", f"{name}={value}"]
    return _run(command, checkpoint)


def _last(pattern: re.Pattern[str], printed: str) -> re.Match[str]:
    matches = list(pattern.finditer(printed))
    if not matches:
        lines = printed.strip().splitlines()
        raise TrialError(f"rdkafka_performance gave no figures: {lines[-1] if lines else 'it printed nothing'}")
    return matches[-1]


@dataclass(frozen=True, slots=True)
class _Ran:
    printed: str
    cpu_s: float


def _run(command: Sequence[str], checkpoint: Checkpoint) -> _Ran:
    """What a client printed and cost. Raises TrialError with its last line when it fails."""
    name = Path(command[0]).name
    # Of all children that have ended: nothing else of this process ends one while a client runs.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=complaints)
        try:
            deadline_s = time.monotonic() + _TIMEOUT_S
            while process.poll() is None:
                checkpoint()
                if time.monotonic() > deadline_s:
                    raise TrialError(f"{name} did not end within {_TIMEOUT_S:.0f} s")
                time.sleep(_POLL_S)
        finally:
            process.kill()
            process.wait()
        printed, complained = _text(out), _text(complaints)
    if process.returncode != 0:
        lines = (complained + printed).strip().splitlines()
        raise TrialError(f"{name} failed: {lines[-1] if lines else f'exit code {process.returncode}'}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _Ran(printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="replace")
