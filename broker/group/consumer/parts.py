"""Cuts the records of one event into batches of the log, each of which leaves the group in order.

A broker that ends between two of them leaves the first ones. The next epoch is in the first batch, and the epoch of a
target is the last record: a group that has some of the records has an epoch above its target's, so that the next
heartbeat computes a target from what is there. What is missing comes as it would have come without this event: a
member that is not removed goes on, or its session ends; regular expressions are resolved anew after a load, and a
result that is not what the group has calls for a target of its own. All of one member is in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from highwater.broker.group.consumer.schemas import GroupRecord, RecordKind, ResolvedRegex

_MOST_BYTES: Final = 200_000
"""A batch ends behind the name with which it has so many. It may have 1 MiB by default."""


def in_parts(records: Iterable[GroupRecord]) -> list[Sequence[GroupRecord]]:
    """Cut the records that remove members, or those of the topics that regular expressions match."""
    parts: list[Sequence[GroupRecord]] = []
    part: list[GroupRecord] = []
    size = 0
    epoch_first = sorted(records, key=lambda record: record.key.kind is not RecordKind.GROUP)
    for _, of_name in groupby(epoch_first, key=lambda record: record.key.name):
        if size > _MOST_BYTES:
            parts.append(part)
            part, size = [], 0
        for record in of_name:
            part.append(record)
            size += _size(record)
    return [*parts, part] if part else parts


def _size(record: GroupRecord) -> int:
    """About as many bytes as the record takes in the log."""
    (_, group_id, name), value = record
    topics = value.topics if isinstance(value, ResolvedRegex) else ()
    return len(group_id.encode()) + len(name.encode()) + sum(map(len, topics)) + len(topics)
