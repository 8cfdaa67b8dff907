"""The progress of a mirrored partition, and the translation of source offsets to target offsets.

Offsets differ between the two clusters: the target has markers of the mirror's transactions, and the source may have
gaps (compaction, its own markers). In a run, offsets of both grow together, one by one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.common.typed_json import parse_json

_MOST_RUNS: Final = 128
_VERSION: Final = 1


class Run(NamedTuple):
    """`length` records at consecutive offsets in both clusters."""

    source_offset: int
    target_offset: int
    length: int


class DamagedProgress(ValueError):  # noqa: N818 - it names the thing found
    """The record of the progress topic was not written by a mirror of this version."""


@dataclass(slots=True)
class Progress:
    """The progress of one partition."""

    topic_id: str = ""
    """The id of the source's topic: a topic that is deleted and created again has another id."""
    source_offset: int = -1
    """The next offset to copy; -1 before the first."""
    runs: list[Run] = field(default_factory=list)
    """The oldest first. Old runs are thinned out, so a translated offset may be earlier, never later."""

    def copied(self, source_offset: int, target_offset: int) -> None:
        """Note that a record is in the target. Must be called in the order of offsets."""
        self.source_offset = source_offset + 1
        last = self.runs[-1] if self.runs else None
        if last is not None and (source_offset, target_offset) == (
            last.source_offset + last.length,
            last.target_offset + last.length,
        ):
            self.runs[-1] = last._replace(length=last.length + 1)
        else:
            self.runs.append(Run(source_offset, target_offset, 1))

    def thin_out(self) -> None:
        """Drop every second run of the older half, but keep the first: most groups are near the end."""
        while len(self.runs) > _MOST_RUNS:
            half = len(self.runs) // 2
            self.runs = [self.runs[0], *self.runs[1:half:2], *self.runs[half:]]

    def translate(self, source_offset: int) -> int | None:
        """Return the target's offset for a group at `source_offset`: the group skips no record that it has not read.

        The offset may be earlier than necessary. None while nothing has been copied.
        """
        if not self.runs:
            return None
        source_offset = min(source_offset, self.source_offset)
        # Runs are few, and most groups are near the last one.
        for run in reversed(self.runs):
            if source_offset >= run.source_offset:
                return run.target_offset + min(source_offset - run.source_offset, run.length)
        return self.runs[0].target_offset

    def copy(self) -> Progress:
        return Progress(self.topic_id, self.source_offset, list(self.runs))


def encode(progress: Progress) -> bytes:
    document = {
        "version": _VERSION,
        "topic_id": progress.topic_id,
        "source_offset": progress.source_offset,
        "runs": progress.runs,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode(value: bytes) -> Progress:
    """Raises DamagedProgress."""
    try:
        document = parse_json(value)
        if document["version"] != _VERSION:
            raise DamagedProgress(f"version {document['version']} of a newer mirror")
        runs = [Run(*map(int, run)) for run in document["runs"]]
        return Progress(str(document["topic_id"]), int(document["source_offset"]), runs)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise DamagedProgress(str(error)) from None


def encode_key(topic: str, partition: int) -> bytes:
    return json.dumps([topic, partition], separators=(",", ":")).encode()


def decode_key(key: bytes) -> TopicPartition:
    """Raises DamagedProgress."""
    try:
        topic, partition = parse_json(key)
        return str(topic), int(partition)
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedProgress(str(error)) from None


def lag(progress: Progress | None, log_range: Sequence[int]) -> int:
    """Return how many records of the source are not copied, by its (log start, log end) offsets; gaps count too."""
    start, end = log_range
    position = start if progress is None else max(progress.source_offset, start)
    return max(end - position, 0)
