"""What a capture knows of a topic: counters and histograms that are merged by addition. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from highwater.studies.capture.counts import Arrivals
from highwater.studies.capture.keys import KeyCounts

Level = Literal[0, 1]
HeaderShape = tuple[int, int, int]
"""Headers of one record: how many, bytes of their names, bytes of their values."""


@dataclass(slots=True)
class CodecUse:
    """Batches as they were produced. unpacked_bytes: of their records without compression; 0 at level 0."""

    batches: int = 0
    records: int = 0
    stored_bytes: int = 0
    unpacked_bytes: int = 0

    def add(self, other: CodecUse) -> None:
        self.batches += other.batches
        self.records += other.records
        self.stored_bytes += other.stored_bytes
        self.unpacked_bytes += other.unpacked_bytes


@dataclass(slots=True)
class PartitionUse:
    records: int = 0
    stored_bytes: int = 0
    null_keys: int = 0


@dataclass(slots=True)
class Statistics:
    """Statistics of the records of any number of partitions.

    vanished_offsets: offsets in the log without a record and without a marker (compaction, or records that a broker
    deleted). lost_offsets: offsets that retention deleted before the capture reached them. compressibility: codec ->
    (bytes before, bytes after) of the sampled batches.
    """

    level: Level
    keys: KeyCounts
    arrivals: Arrivals = field(default_factory=Arrivals)
    batch_bytes: Counter[int] = field(default_factory=Counter)
    batch_records: Counter[int] = field(default_factory=Counter)
    batch_span_ms: Counter[int] = field(default_factory=Counter)
    codecs: dict[str, CodecUse] = field(default_factory=dict)
    producers: Counter[int] = field(default_factory=Counter)
    """Producer id -> records: the ids stay here, and the trace has the counts alone."""
    partitions: dict[int, PartitionUse] = field(default_factory=dict)
    key_bytes: Counter[int] = field(default_factory=Counter)
    value_bytes: Counter[int] = field(default_factory=Counter)
    headers: Counter[HeaderShape] = field(default_factory=Counter)
    compressibility: dict[str, tuple[int, int]] = field(default_factory=dict)
    sampled_bytes: int = 0
    null_keys: int = 0
    null_values: int = 0
    control_batches: int = 0
    transactional_records: int = 0
    vanished_offsets: int = 0
    lost_offsets: int = 0
    read_bytes: int = 0

    @property
    def records(self) -> int:
        return sum(use.records for use in self.codecs.values())

    def merge(self, other: Statistics) -> None:
        """Add what `other` counted, of other partitions or other ranges. Raises SpanError, ValueError."""
        if other.level != self.level:
            raise ValueError("captures of different levels cannot be merged")
        self.keys.merge(other.keys)
        self.arrivals.merge(other.arrivals)
        for name in ("batch_bytes", "batch_records", "batch_span_ms", "producers", "key_bytes", "value_bytes"):
            getattr(self, name).update(getattr(other, name))
        self.headers.update(other.headers)
        for codec, use in other.codecs.items():
            self.codecs.setdefault(codec, CodecUse()).add(use)
        for partition, theirs in other.partitions.items():
            ours = self.partitions.setdefault(partition, PartitionUse())
            ours.records += theirs.records
            ours.stored_bytes += theirs.stored_bytes
            ours.null_keys += theirs.null_keys
        for codec, (before, after) in other.compressibility.items():
            was_before, was_after = self.compressibility.get(codec, (0, 0))
            self.compressibility[codec] = (was_before + before, was_after + after)
        for name in (
            "sampled_bytes", "null_keys", "null_values", "control_batches", "transactional_records",
            "vanished_offsets", "lost_offsets", "read_bytes",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
