"""Cuts the records of one event into batches of the log, each of which leaves the group in order.

Nearly always it is one batch. A broker that ends between two of them leaves the first ones. The next epoch is in the
first batch, and the epoch of a target comes behind the target: a group that has some of the records has an epoch above
its target's. The first batch also takes the time from the target that was before. So the next heartbeat computes a
target, without an interval to wait for, and nobody moves towards a part of one. What else is missing comes as it would
have come without this event: a member that is not removed goes on, or its session ends; one that was to join joins
again; regular expressions are resolved anew after a load, and a result that is not what the group has calls for a
target of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.schemas import GroupRecord, RecordKind, TargetEpoch, encode_key, encode_value

MOST_BYTES: Final = 200_000
"""A batch ends behind the name with which it has so many. It may have 1 MiB by default."""
MOST_BYTES_OF_CHANGE: Final = 1_000_000
"""A group that changes its protocol does so in one batch."""
_MOST_BYTES_AROUND: Final = 16
"""What a record has in a batch beside key and value: their lengths and its own, time, offset, attributes, headers."""
_YIELD_EACH: Final = 256

Encoded = tuple[bytes, bytes | None]


class Part(NamedTuple):
    """A batch: the same records twice."""

    records: list[GroupRecord]
    encoded: list[Encoded]


def encoded(record: GroupRecord) -> Encoded:
    return encode_key(record.key), None if record.value is None else encode_value(record.value)


def size_of(records: Iterable[Encoded]) -> int:
    """The most bytes that these records take in a batch."""
    return sum([len(key) + len(value or b"") + _MOST_BYTES_AROUND for key, value in records])


def in_parts(
    group: ConsumerGroup, records: Sequence[GroupRecord], leftovers: Sequence[Encoded] = ()
) -> Generator[None, None, list[Part]]:
    """The batches of an event of this group, one after the other; none without records.

    leftovers: what comes before them, in the first batch or, if it is much, in one of its own
    """
    done: list[Encoded] = []
    for record in records:
        done.append(encoded(record))
        if len(done) % _YIELD_EACH == 0:
            yield
    if not records:
        return []
    parts = [Part(list(records), done)] if size_of(done) <= MOST_BYTES else _cut(group, records, done)
    if size_of(leftovers) > MOST_BYTES:
        parts.insert(0, Part([], []))
    parts[0].encoded[:0] = leftovers
    return parts


def _cut(group: ConsumerGroup, records: Sequence[GroupRecord], done: Sequence[Encoded]) -> list[Part]:
    first = [record for record in records if record.key.kind is RecordKind.GROUP]
    targets = [record for record in records if record.key.kind is RecordKind.TARGET]
    first += [record._replace(value=TargetEpoch(group.target_epoch)) for record in targets]
    parts = [Part(first, [*map(encoded, first)])]
    size = size_of(parts[0].encoded)
    rest = [pair for pair in zip(records, done, strict=True) if pair[0].key.kind is not RecordKind.GROUP]
    for _, of_name in groupby(rest, key=lambda pair: pair[0].key.name):
        if size > MOST_BYTES:
            parts.append(Part([], []))
            size = 0
        for record, raw in of_name:
            parts[-1].records.append(record)
            parts[-1].encoded.append(raw)
            size += size_of([raw])
    return parts
