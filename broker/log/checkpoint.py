"""Kafka's small text files: offset checkpoints, leader epochs, meta.properties and others.

Functions turn text into values and back; other modules read and write the files. A checkpoint (Apache Kafka,
CheckpointFile.java) has a line with the version, 0, a line with the number of entries, and one line for each entry.
A log directory keeps offsets as `topic partition offset`, a partition keeps leader epochs as `epoch start_offset`.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from highwater.common.java_properties import MalformedEscape, format_properties, parse_properties
from highwater.common.topic_partition import TopicPartition

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

_VERSION: Final = "0"
_MOST_DIGITS: Final = 19
"""The digits of a number of 64 bits. Python refuses to read a number with thousands of digits."""
_TWO_NUMBERS: Final = re.compile(rf"(-?\d{{1,{_MOST_DIGITS}}}) (-?\d{{1,{_MOST_DIGITS}}})", re.ASCII)
_OFFSET_LINE: Final = re.compile(rf"([^ ]+) {_TWO_NUMBERS.pattern}", re.ASCII)


class MalformedFile(Exception):  # noqa: N818 - it names the thing found
    """The text is not what its file should hold; the message names the difference."""


class NewerVersion(MalformedFile):
    """A newer broker wrote the file in a version that this one does not know: leave the file as it is."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_lines([offset_line(key, offset) for key, offset in sorted(offsets.items())])


def offset_line(key: TopicPartition, offset: int) -> str:
    """An entry of a checkpoint of offsets, where they are sorted by key."""
    topic, partition = key
    return f"{topic} {partition} {offset}"


def decode_offsets(text: bytes) -> dict[TopicPartition, int]:
    offsets = {}
    for line in _decode(text):
        if (found := _OFFSET_LINE.fullmatch(line)) is None:
            raise MalformedFile(f"line {line!r} is not 'topic partition offset'")
        offsets[found[1], int(found[2])] = int(found[3])
    return offsets


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    return encode_lines([f"{epoch} {start_offset}" for epoch, start_offset in epochs])


def decode_epochs(text: bytes) -> list[tuple[int, int]]:
    epochs = []
    for line in _decode(text):
        if (found := _TWO_NUMBERS.fullmatch(line)) is None:
            raise MalformedFile(f"line {line!r} is not two numbers")
        epochs.append((int(found[1]), int(found[2])))
    return epochs


def encode_topic_id(topic_id: uuid.UUID) -> str:
    """Kafka writes a UUID as 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


@lru_cache(maxsize=64)  # All partitions of a topic have the same.
def decode_topic_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError as error:
        raise MalformedFile(f"{text!r} is not a topic id") from error


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {encode_topic_id(topic_id)}".encode()


@lru_cache(maxsize=64)
def decode_partition_metadata(text: bytes) -> uuid.UUID:
    fields = dict(re.findall(r"^(\w+): *(\S+)\s*$", text.decode(errors="replace"), re.MULTILINE))
    if "version" not in fields or "topic_id" not in fields:
        raise MalformedFile("it lacks 'version' or 'topic_id'")
    _check_version(fields["version"])
    return decode_topic_id(fields["topic_id"])


def encode_properties(properties: Mapping[str, str]) -> bytes:
    return ("#\n" + format_properties(dict(sorted(properties.items())))).encode()


def decode_properties(text: bytes) -> dict[str, str]:
    try:
        parsed = parse_properties(text.decode(errors="replace"))
    except MalformedEscape as error:
        raise MalformedFile(f"line {error.line}: {error}") from None
    for item in parsed:
        if "=" not in item.source:
            raise MalformedFile(f"line {item.source!r} is not 'key=value'")
    return {item.name: item.value.strip() for item in parsed}


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": int(_VERSION), "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def encode_lines(entries: Sequence[str]) -> bytes:
    """A checkpoint with these entries."""
    return "\n".join((_VERSION, str(len(entries)), *entries, "")).encode()


def _decode(text: bytes) -> list[str]:
    lines = text.decode(errors="replace").splitlines()
    if len(lines) == 0:
        return []  # Kafka makes the file empty and fills it later.
    _check_version(lines[0])
    if len(lines) < 2 or not lines[1].isdecimal() or len(lines[1]) > _MOST_DIGITS:
        raise MalformedFile("its second line is not the number of entries")
    if len(lines) - 2 != int(lines[1]):
        raise MalformedFile(f"it promises {lines[1]} entries and has {len(lines) - 2}")
    return lines[2:]


def _check_version(version: str) -> None:
    if not version.strip().isdecimal():
        raise MalformedFile(f"its version is {version!r}, not a number")
    if version.strip() != _VERSION:
        raise NewerVersion(f"its version is {version}, and this broker knows {_VERSION}")
