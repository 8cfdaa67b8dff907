"""Where a read begins and ends: an edge of the partitions, offsets, or a time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.model import EARLIEST, LATEST
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.option_values import OptionValues


@dataclass(frozen=True)
class Edge:
    """The first offset of each partition (EARLIEST), or the one after the last (LATEST)."""

    timestamp: int


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition; EARLIEST and LATEST mean its ends."""

    offsets: Offsets


@dataclass(frozen=True)
class AtTime:
    """The first record with this time in ms or a later one: of each partition, or the same for all."""

    timestamps_ms: Mapping[TopicPartition, int] | int


Bound = Edge | AtOffsets | AtTime


def starting_bound(take: OptionValues, *, is_stream: bool) -> Bound:
    default = "latest" if is_stream else "earliest"
    bound = _bound(take, "starting", default)
    if not is_stream:
        _refuse_edge(bound, "startingOffsets", LATEST, "latest")
    return bound


def ending_bound(take: OptionValues) -> Bound:
    bound = _bound(take, "ending", "latest")
    _refuse_edge(bound, "endingOffsets", EARLIEST, "earliest")
    return bound


def _bound(take: OptionValues, which: str, default: str) -> Bound:
    """The first of these counts, as in Spark's connector."""
    if (name := f"{which}Timestamp") in take:
        if not take.text(name).isdecimal():
            raise SettingsError(f"{name}={take.text(name)} is no time in ms since 1970")
        return AtTime(int(take.text(name)))
    if (name := f"{which}OffsetsByTimestamp") in take:
        return AtTime(take.parsed(name, Offsets.from_text).next)
    name = f"{which}Offsets"
    text = take.text(name, default)
    if text.lower() in ("earliest", "latest"):
        return Edge(EARLIEST if text.lower() == "earliest" else LATEST)
    if not text.startswith("{"):
        raise SettingsError(f'{name}={text} is neither earliest, latest, nor offsets such as {{"topic":{{"0":123}}}}')
    offsets = take.parsed(name, Offsets.from_text)
    for of, offset in offsets.next.items():
        if offset < EARLIEST:
            raise SettingsError(f"{name}: {partition_name(*of)}: {offset} is no offset, nor -2 (earliest), -1 (latest)")
    return AtOffsets(offsets)


def _refuse_edge(bound: Bound, name: str, edge: int, word: str) -> None:
    if bound == Edge(edge):
        raise SettingsError(f"{name}={word} makes no sense for a read of a batch, which would be empty")
    if isinstance(bound, AtOffsets):
        for of, offset in bound.offsets.next.items():
            if offset == edge:
                raise SettingsError(f"{name}: {partition_name(*of)}: {edge} ({word}) makes no sense for a batch")
