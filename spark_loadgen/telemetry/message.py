"""The message of a task about what it has counted since its message before: encode and decode, pure.

    "HWT" | version (u8) | length of the head (u32) | head | body

The head is JSON. The body is one zlib stream with the buckets of all histograms of the message, little-endian: the
steps from bucket index to bucket index (u4 each, each histogram from 0 on), then the counts (u8 each). `series` of the
head names for each histogram the metric, the second since T0, and the number of buckets.

Every figure is what was added since the message before. The sum over all messages of a task is what it measured.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from highwater.results.histogram import COUNTS_LENGTH, Histogram

VERSION: Final = 1
MAGIC: Final = b"HWT"
_PREFIX: Final = struct.Struct("<3sBI")
_BYTES_PER_BUCKET: Final = 12
# More than a task can count in an hour without an answer of the broker; a longer body is not one of ours.
_BODY_BYTES_MAX: Final = 64 << 20
_STRICT: Final = {"sort_keys": True, "separators": (",", ":"), "allow_nan": False}


class MalformedMessageError(ValueError):
    """The bytes are no message of a task, or of a version that is not known here."""


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """trial: the trial's name among all that use the topic. number: this message's, from 0 on, without gaps.

    second: the latest whole second since T0 that the message covers. skipped: how many messages the task has left out
    so far because earlier ones had not been sent; the next message has their figures. last: the load of the task is
    over. counts: row of Windows -> its values from second `first` on. cpu_ratio: from second `first` on. histograms:
    (metric, second) -> buckets.
    """

    trial: str
    task: int
    number: int
    second: int
    first: int = 0
    skipped: int = 0
    last: bool = False
    counts: Mapping[str, list[int]] = field(default_factory=dict)
    cpu_ratio: list[float] = field(default_factory=list)
    histograms: Mapping[tuple[str, int], Histogram] = field(default_factory=dict)

    def encode(self) -> bytes:
        series = sorted(self.histograms.items())
        head = json.dumps(
            {
                "trial": self.trial,
                "task": self.task,
                "number": self.number,
                "second": self.second,
                "first": self.first,
                "skipped": self.skipped,
                "last": self.last,
                "counts": self.counts,
                "cpu_ratio": self.cpu_ratio,
                "series": [[metric, second, len(item.indices)] for (metric, second), item in series],
            },
            **_STRICT,  # type: ignore[arg-type]
        ).encode()
        steps = [np.diff(item.indices, prepend=np.int64(0)).astype("<u4").tobytes() for _, item in series]
        counts = [item.counts.astype("<u8").tobytes() for _, item in series]
        return _PREFIX.pack(MAGIC, VERSION, len(head)) + head + zlib.compress(b"".join([*steps, *counts]), 1)

    @classmethod
    def decode(cls, message: bytes) -> TaskMessage:
        """Raises MalformedMessageError."""
        try:
            magic, version, length = _PREFIX.unpack_from(message)
        except struct.error:
            raise MalformedMessageError(f"{len(message)} bytes are too few for a message of a task") from None
        if magic != MAGIC:
            raise MalformedMessageError("this is not a message of a load task")
        if version != VERSION:
            raise MalformedMessageError(f"the message has version {version}; this Highwater knows version {VERSION}")
        start = _PREFIX.size + length
        try:
            head = json.loads(message[_PREFIX.size : start])
            series = [(str(metric), int(second), int(size)) for metric, second, size in head["series"]]
            return cls(
                trial=str(head["trial"]),
                task=int(head["task"]),
                number=int(head["number"]),
                second=int(head["second"]),
                first=int(head["first"]),
                skipped=int(head["skipped"]),
                last=bool(head["last"]),
                counts=_counts_of(head["counts"]),
                cpu_ratio=[float(ratio) for ratio in head["cpu_ratio"]],
                histograms=_histograms_of(series, message[start:]),
            )
        except (ValueError, TypeError, LookupError, AttributeError, zlib.error) as error:
            raise MalformedMessageError(f"the message of a task is damaged: {error}") from error


def _counts_of(told: Any) -> dict[str, list[int]]:
    return {str(name): [int(value) for value in row] for name, row in told.items()}


def _histograms_of(series: list[tuple[str, int, int]], body: bytes) -> dict[tuple[str, int], Histogram]:
    sizes = [size for _, _, size in series]
    buckets = sum(sizes)
    if min(sizes, default=0) < 0 or buckets * _BYTES_PER_BUCKET > _BODY_BYTES_MAX:
        raise ValueError(f"it names {buckets} buckets")
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(body, buckets * _BYTES_PER_BUCKET + 1)
    if len(raw) != buckets * _BYTES_PER_BUCKET or not unpacker.eof:
        raise ValueError(f"its body does not have the {buckets} buckets that its head names")
    steps = np.frombuffer(raw, dtype="<u4", count=buckets).astype(np.int64)
    counts = np.frombuffer(raw, dtype="<u8", offset=4 * buckets).astype(np.int64)
    starts = np.cumsum([0, *sizes])
    indices = np.cumsum(steps)
    follows = np.ones(buckets, dtype=np.bool_)
    follows[starts[:-1][np.array(sizes, dtype=np.int64) > 0]] = False
    if (counts <= 0).any() or (steps[follows] == 0).any():
        raise ValueError("its buckets do not rise, or a count is not positive")
    found: dict[tuple[str, int], Histogram] = {}
    for (metric, second, size), start in zip(series, starts.tolist(), strict=False):
        own = indices[start : start + size]
        if start and size:
            own = own - indices[start - 1]  # each histogram counts its steps from 0 on
        if size and own[-1] >= COUNTS_LENGTH:
            raise ValueError(f"bucket {own[-1]} is beyond the last one")
        found[metric, second] = Histogram(own, counts[start : start + size])
    return found
