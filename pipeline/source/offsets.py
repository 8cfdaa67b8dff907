"""What has gone between two offsets of a stream, and the ranges that are to be read between them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.common.typed_json import parse_json
from highwater.pipeline.errors import SettingsError
from highwater.pipeline.kafka.offsets import Offsets
from highwater.pipeline.kafka.reader import OffsetRange


def read_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Read the option `assign`, such as `{"topic":[0,1]}`. Raises SettingsError."""
    try:
        topics = parse_json(text)
    except ValueError:
        topics = None
    if not isinstance(topics, dict) or not all(
        isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
        for numbers in topics.values()
    ):
        raise SettingsError(f'partitions are written as {{"topic":[0,1]}}, and this is {text!r}')
    found = sorted({(topic, number) for topic, numbers in topics.items() for number in numbers})
    if not found:
        raise SettingsError('no partition is named; write them as {"topic":[0,1]}')
    return tuple(found)


def recreated(before: Offsets, after: Offsets) -> set[str]:
    """The topics that were deleted and created again: their id is another one."""
    return {
        topic
        for topic, topic_id in before.ids.items()
        if (now := after.id_of(topic)) is not None and now != topic_id and topic in before.topics()
    }


def continued(before: Offsets, after: Offsets) -> dict[TopicPartition, int]:
    """The offsets of `before` that still mean the same records in `after`."""
    gone = recreated(before, after)
    return {of: offset for of, offset in before.next.items() if of in after.next and of[0] not in gone}


def what_is_gone(before: Offsets, after: Offsets) -> str | None:
    """What of `before` cannot be read on in `after`, as a sentence; None if all of it can."""
    if again := recreated(before, after):
        names = ", ".join(sorted(again))
        return f"{names} was deleted and created again: what was not read of the old topic is gone"
    if missing := sorted(before.next.keys() - after.next.keys()):
        return f"{', '.join(partition_name(*of) for of in missing)} is gone: the topic was deleted"
    return None


def unknown_starts(before: Offsets, after: Offsets) -> Collection[TopicPartition]:
    """The partitions of `after` that are new: they are read from their first record on."""
    return sorted(after.next.keys() - continued(before, after).keys())


def ranges_between(start: Offsets, end: Offsets, first: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What is to be read from `start` to `end`; `first` has the first offset of each new partition.

    No range is negative: a partition that ends before its start has nothing to read.
    """
    begin = {**first, **continued(start, end)}
    return [
        OffsetRange(topic, partition, min(begin[topic, partition], stop), stop, end.uuid_of(topic))
        for (topic, partition), stop in sorted(end.next.items())
    ]
