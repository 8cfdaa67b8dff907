"""Where a read begins and ends: an edge of the partitions, offsets, or a time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.model import Edge
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.option_values import OptionValues


@dataclass(frozen=True)
class AtOffsets:
    """An offset or an edge for each partition."""

    offsets: Offsets
    edges: Mapping[TopicPartition, Edge] = field(default_factory=dict)


@dataclass(frozen=True)
class AtTime:
    """The first record with this time in ms or a later one: of each partition, or the same for all.

    A time up to 0 is no bound.
    """

    timestamps_ms: Mapping[TopicPartition, int] | int


Bound = Edge | AtOffsets | AtTime

_EDGES: Final = {-2: Edge.EARLIEST, -1: Edge.LATEST}
"""Spark's signs in the JSON of an option."""


def starting_bound(take: OptionValues, *, is_stream: bool) -> Bound:
    default = "latest" if is_stream else "earliest"
    bound = _bound(take, "starting", default)
    if not is_stream:
        _refuse_edge(bound, "startingOffsets", Edge.LATEST)
    return bound


def ending_bound(take: OptionValues) -> Bound:
    bound = _bound(take, "ending", "latest")
    _refuse_edge(bound, "endingOffsets", Edge.EARLIEST)
    return bound


def _bound(take: OptionValues, which: str, default: str) -> Bound:
    """The first of these counts, as in Spark's connector."""
    if (name := f"{which}Timestamp") in take:
        if not take.text(name).isdecimal():
            raise SettingsError(f"{name}={take.text(name)} is not a time in ms since 1970")
        return AtTime(int(take.text(name)))
    if (name := f"{which}OffsetsByTimestamp") in take:
        return AtTime(take.parsed(name, Offsets.from_text).next)
    name = f"{which}Offsets"
    text = take.text(name, default)
    if text.lower() in ("earliest", "latest"):
        return Edge[text.upper()]
    if not text.startswith("{"):
        raise SettingsError(f'{name}={text} is neither earliest, latest, nor offsets such as {{"topic":{{"0":123}}}}')
    asked = take.parsed(name, Offsets.from_text)
    offsets: dict[TopicPartition, int] = {}
    edges: dict[TopicPartition, Edge] = {}
    for of, offset in asked.next.items():
        if offset >= 0:
            offsets[of] = offset
        elif offset in _EDGES:
            edges[of] = _EDGES[offset]
        else:
            raise SettingsError(
                f"{name}: {partition_name(*of)}: {offset} is not an offset, -2 (earliest) or -1 (latest)"
            )
    return AtOffsets(Offsets(offsets, asked.ids), edges)


def _refuse_edge(bound: Bound, name: str, edge: Edge) -> None:
    word = edge.name.lower()
    if bound == edge:
        raise SettingsError(f"{name}={word} makes no sense for a read of a batch, which would be empty")
    if isinstance(bound, AtOffsets):
        for of, each in bound.edges.items():
            if each is edge:
                raise SettingsError(f"{name}: {partition_name(*of)}: {edge.value} ({word}) makes no sense for a batch")
