"""How far a partition is copied, and which target offset each source offset has.

Offsets differ between the two clusters: the target has markers of the mirror's transactions, and the source may have
holes (compaction, markers of its own). A run is a stretch in which they go side by side.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_MOST_RUNS: Final = 128
_VERSION: Final = 1


class Run(NamedTuple):
    """`length` records at consecutive offsets in both."""

    source_offset: int
    target_offset: int
    length: int


class DamagedProgress(ValueError):  # noqa: N818 - it names the thing found
    """A record of the progress topic that no mirror of this version wrote."""


@dataclass(slots=True)
class Progress:
    """Of one partition."""

    topic_id: str = ""
    """Of the source's topic: one deleted and made anew is another topic."""
    source_offset: int = -1
    """The next one to copy; -1 before the first."""
    runs: list[Run] = field(default_factory=list)
    """The oldest first. Old ones are thinned out, which makes what is translated by them earlier, never later."""

    def copied(self, source_offset: int, target_offset: int) -> None:
        """A record is in the target. Calls come in the order of offsets."""
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
        """Of the older half every second run goes, but the first stays: groups near the end matter most."""
        while len(self.runs) > _MOST_RUNS:
            half = len(self.runs) // 2
            self.runs = [self.runs[0], *self.runs[1:half:2], *self.runs[half:]]

    def translate(self, source_offset: int) -> int | None:
        """The target's offset for a group that goes on at `source_offset`: nothing it has not read is before it.

        It may be earlier than need be. None while nothing has been copied.
        """
        if not self.runs:
            return None
        source_offset = min(source_offset, self.source_offset)
        # Runs are few, and most groups are near the last.
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
        document = json.loads(value)
        if document["version"] != _VERSION:
            raise DamagedProgress(f"version {document['version']} of a newer mirror")
        runs = [Run(*map(int, run)) for run in document["runs"]]
        return Progress(str(document["topic_id"]), int(document["source_offset"]), runs)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedProgress(str(error)) from None


def encode_key(topic: str, partition: int) -> bytes:
    return json.dumps([topic, partition], separators=(",", ":")).encode()


def decode_key(key: bytes) -> tuple[str, int]:
    """Raises DamagedProgress."""
    try:
        topic, partition = json.loads(key)
        return str(topic), int(partition)
    except (ValueError, TypeError) as error:
        raise DamagedProgress(str(error)) from None


def lag(progress: Progress | None, log_range: Sequence[int]) -> int:
    """Records (at most: holes count) of the source that are still to come, by its (log start, log end) offsets."""
    start, end = log_range
    position = start if progress is None else max(progress.source_offset, start)
    return max(end - position, 0)
