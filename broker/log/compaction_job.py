"""Input and result of one compaction pass as values, and how much of a log it could compact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from highwater.broker.log.config import LogConfig
from highwater.broker.log.producer_state import ProducerStates
from highwater.broker.log.segment import Segment
from highwater.broker.log.transaction_index import AbortedTransaction


class Job(NamedTuple):
    """One pass over one log, as plain values, so that it can be sent to another process."""

    directory: str
    segments: list[tuple[int, int]]
    """(base offset, size in bytes) of the segments that the pass may clean, from the first one on."""
    aborted_later: list[AbortedTransaction]
    """Aborted transactions that begin in these segments and have their markers in later ones."""
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that the pass may not clean."""
    producers: list[tuple[int, int, int]]
    """(producer id, offset of its last record or −1, its epoch) of all known producers."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float
    aside: str
    """The suffix of the names of all files that the pass writes; it ends with CLEANED_SUFFIX."""


class CleanedGroup(NamedTuple):
    """One new segment, which is on the disk, and the base offsets of the segments that it replaces."""

    replaced: list[int]
    size_bytes: int
    aside: str

    @property
    def base_offset(self) -> int:
        return self.replaced[0]


class Pass(NamedTuple):
    """The result of a pass."""

    clean_up_to: int
    records_read: int
    records_kept: int


class Dirtiness(NamedTuple):
    """How much of a log could be compacted, and whether it should be."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether a record has waited longer than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def dirtiness(
    segments: Sequence[Segment], config: LogConfig, clean_offset: int, undecided_offset: int, now_ms: int
) -> Dirtiness:
    """Judge a log whose last segment is the active one; a pass may not change records from `undecided_offset` on."""
    sealed = segments[:-1]
    end_offset = segments[-1].base_offset
    for segment, following in zip(sealed, segments[1:], strict=True):
        is_too_young = (
            config.min_compaction_lag_ms > 0
            and following.base_offset > clean_offset
            and segment.largest_timestamp[0] > now_ms - config.min_compaction_lag_ms
        )
        if following.base_offset > undecided_offset or is_too_young:
            end_offset = segment.base_offset
            break
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    for segment, following in zip(sealed, segments[1:], strict=True):
        if segment.base_offset >= end_offset:
            break
        if following.base_offset <= clean_offset:
            clean_bytes += segment.size_bytes
            continue
        dirty_bytes += segment.size_bytes
        if config.max_compaction_lag_ms < now_ms and not is_overdue:
            is_overdue = 0 < segment.first_batch_timestamp_ms < now_ms - config.max_compaction_lag_ms
    return Dirtiness(clean_offset, end_offset, clean_bytes, dirty_bytes, is_overdue)


def compaction_job(
    segments: Sequence[Segment],
    producer_states: ProducerStates,
    config: LogConfig,
    dirt: Dirtiness,
    *,
    directory: str,
    now_ms: int,
    map_bytes: int,
    map_load_factor: float,
    aside: str,
) -> Job:
    """The pass over the log of these segments that `dirt` describes."""
    cleanable = [segment for segment in segments if segment.base_offset < dirt.end_offset]
    return Job(
        directory=directory,
        segments=[(segment.base_offset, segment.size_bytes) for segment in cleanable],
        aborted_later=_aborted_later(segments[len(cleanable) :], dirt.end_offset),
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        producers=[
            (producer_id, state.batches[-1].last_offset if state.batches else -1, state.epoch)
            for producer_id, state in producer_states
        ],
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        map_load_factor=map_load_factor,
        aside=aside,
    )


def _aborted_later(segments: Sequence[Segment], end_offset: int) -> list[AbortedTransaction]:
    """Aborted transactions that begin below `end_offset` and end in these segments, which begin there."""
    found = []
    for segment in segments:
        for transaction in segment.transaction_index.entries() if segment.indexes.has_aborted else ():
            if transaction.first_offset < end_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= end_offset:
                return found
    return found
