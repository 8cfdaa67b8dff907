"""Logs for tests of captures: batches as bytes, folders of partitions, statistics of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from highwater.bench.workload.trace_directory import Trace, read_trace, write_trace
from highwater.kafka.records.record import Record, encode_batch
from highwater.pipeline.kafka.batches import Partition
from highwater.spark_loadgen.compression import Compression, compressions
from highwater.studies.capture.keys import KeyCounts
from highwater.studies.capture.observing import Window, observe
from highwater.studies.capture.statistics import Level, Statistics
from highwater.studies.capture.summing import parts_of

EVERYTHING: Final = Window()
START_MS: Final = 1_790_000_000_000
SALT: Final = bytes(32)
COMPRESSIONS: Final[Mapping[str, Compression]] = compressions()


def record(
    at_ms: int, key: bytes | None = b"key", value: bytes | None = b"v" * 100, *headers: tuple[str, bytes]
) -> Record:
    """At `at_ms` after START_MS."""
    return Record(value, key, START_MS + at_ms, headers)


def batch(offset: int, records: Sequence[Record], **more: Any) -> bytes:
    return bytes(encode_batch(records, base_offset=offset, **more))


def new_statistics(level: Level = 1) -> Statistics:
    return Statistics(level, KeyCounts(SALT))


def observed(
    *batches: bytes, level: Level = 1, partition: int = 0, expected: int | None = 0, window: Window = EVERYTHING
) -> Statistics:
    statistics = new_statistics(level)
    observe(statistics, memoryview(b"".join(batches)), Partition("orders", partition), window, expected, COMPRESSIONS)
    return statistics


def trace_of(directory: Path, statistics: Statistics) -> Trace:
    write_trace(directory, *parts_of(statistics, "topic"))
    return read_trace(directory)


def partition_folder(log_directory: Path, name: str, *segments: bytes) -> Path:
    folder = log_directory / name
    folder.mkdir(parents=True)
    for number, segment in enumerate(segments):
        (folder / f"{number * 1000:020}.log").write_bytes(segment)
    return folder
