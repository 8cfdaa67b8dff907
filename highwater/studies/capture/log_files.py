"""Reads the log of a topic from files, Highwater's or Apache Kafka's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from highwater.pipeline.kafka.batches import Partition
from highwater.spark_loadgen.compression import Compression
from highwater.studies.capture.observing import Window, observe
from highwater.studies.capture.pacing import ReadLimit
from highwater.studies.capture.statistics import Statistics

_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_SEGMENT: Final = re.compile(r"\d{20}\.log")
_CHUNK_BYTES: Final = 4 << 20
_LENGTH_AT: Final = 8
_HEADER_BYTES: Final = 12


def partition_folders(sources: Sequence[Path], topic: str | None) -> tuple[str, dict[int, Path]]:
    """The topic, and the folder of each of its partitions, below log directories or as named. Raises UsageError."""
    found: dict[str, dict[int, Path]] = {}
    for source in sources:
        for folder in _folders(source):
            match = _FOLDER.fullmatch(folder.name)
            assert match is not None
            partitions = found.setdefault(match["topic"], {})
            other = partitions.setdefault(int(match["partition"]), folder)
            if other != folder:
                raise UsageError(f"{other} and {folder} are replicas of one partition; name one of them")
    if topic is None:
        if len(found) > 1:
            some = ", ".join(sorted(found)[:5]) + (", …" if len(found) > 5 else "")
            raise UsageError(f"{sources[0]} has {len(found)} topics ({some}); name one with --topic")
        topic = next(iter(found))
    if topic not in found:
        raise UsageError(f"{sources[0]} has no partition of topic {topic}; it has {', '.join(sorted(found)[:5])}")
    return topic, dict(sorted(found[topic].items()))


def _folders(source: Path) -> Iterator[Path]:
    if not source.is_dir():
        raise UsageError(f"{source} is not a directory; name a log directory, or the folder of a partition")
    if _FOLDER.fullmatch(source.name) and _segments(source):
        yield source
        return
    below = [each for each in sorted(source.iterdir()) if each.is_dir() and _FOLDER.fullmatch(each.name)]
    found = [each for each in below if _segments(each)]
    if not found:
        raise UsageError(
            f"{source} is not a log: it has no folder TOPIC-PARTITION with files like 00000000000000000000.log"
        )
    yield from found


def _segments(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if _SEGMENT.fullmatch(each.name))


def size_of(folder: Path) -> int:
    """Bytes of the segments of a partition."""
    return sum(segment.stat().st_size for segment in _segments(folder))


def read_folders(
    topic: str,
    folders: Mapping[int, Path],
    statistics: Statistics,
    window: Window,
    compressions: Mapping[str, Compression],
    limit: ReadLimit,
) -> None:
    """Add all batches of the partitions that are in the window; only reads. Raises RecordsError, SpanError, OSError.

    A broker may write meanwhile: a batch that is not whole yet at the end of the last segment is left out.
    """
    for partition, folder in folders.items():
        expected: int | None = None
        of = Partition(topic, partition)
        for segment in _segments(folder):
            for chunk in _chunks(segment):
                statistics.read_bytes += len(chunk)
                limit.took(len(chunk))
                expected = observe(statistics, chunk, of, window, expected, compressions)


def _chunks(segment: Path) -> Iterator[memoryview]:
    """The whole batches of a segment, some MiB at a time."""
    with segment.open("rb") as file:
        rest = b""
        while data := file.read(max(_CHUNK_BYTES, _missing(rest))):
            held = memoryview(rest + data)
            whole, ends = _whole(held)
            if whole:
                yield held[:whole]
            if ends:
                return
            rest = bytes(held[whole:])


def _whole(held: memoryview) -> tuple[int, bool]:
    """How many bytes are whole batches, and whether the log ends there: space that was reserved and never written."""
    position = 0
    while position + _HEADER_BYTES <= len(held):
        length = int.from_bytes(held[position + _LENGTH_AT : position + _HEADER_BYTES], "big", signed=True)
        if length <= 0:
            return position, True
        if position + _HEADER_BYTES + length > len(held):
            break
        position += _HEADER_BYTES + length
    return position, False


def _missing(rest: bytes) -> int:
    """How many bytes the batch that `rest` begins still needs."""
    if len(rest) < _HEADER_BYTES:
        return 0
    return _HEADER_BYTES + int.from_bytes(rest[_LENGTH_AT:_HEADER_BYTES], "big", signed=True) - len(rest)
