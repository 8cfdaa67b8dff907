"""The groups and offsets in the records of one partition of `__consumer_offsets`."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from highwater.broker.group.consumer import schemas as consumer_schemas
from highwater.broker.group.consumer.schemas import GroupRecord
from highwater.broker.group.events import StoredGroup
from highwater.broker.group.offsets import CommittedOffset
from highwater.broker.group.schemas import GroupKey, OffsetKey, decode_group, decode_key, decode_offset
from highwater.broker.topics.settled_records import SettledRecords
from highwater.common.topic_partition import TopicPartition


class UndecidedOffset(NamedTuple):
    """An offset in the open transaction of a producer."""

    producer_id: int
    partition: TopicPartition
    offset: CommittedOffset


class KeptGroups(NamedTuple):
    """The content of one partition; every mapping is by group id."""

    members: dict[str, StoredGroup]
    """Classic groups."""
    consumers: dict[str, list[GroupRecord]]
    """Consumer groups. No group is in both."""
    committed: dict[str, dict[TopicPartition, CommittedOffset]]
    undecided: dict[str, list[UndecidedOffset]]
    """The undecided offsets, in log order."""
    unknown_count: int
    """The number of records of kinds that this broker does not support."""


def kept_groups(settled: SettledRecords) -> KeptGroups:
    """Raises CorruptBatch."""
    classic: dict[str, StoredGroup] = {}
    consumers: dict[str, list[GroupRecord]] = {}
    is_of_consumers: dict[str, bool] = {}
    """The kind of each group by the later one of its records: a name may have been a group of both kinds."""
    committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    topic_ids: dict[UUID, UUID] = {}
    """Each is one object for all its offsets, as it takes as much memory as the rest of an offset."""
    unknown_count = 0
    for raw_key, value in settled.latest.items():
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            offset = decode_offset(value)
            if offset.topic_id is not None:
                offset = offset._replace(topic_id=topic_ids.setdefault(offset.topic_id, offset.topic_id))
            committed.setdefault(key.group_id, {})[key.topic, key.partition] = offset
        elif isinstance(key, GroupKey):
            classic[key.group_id] = decode_group(value)
            is_of_consumers[key.group_id] = False
        elif (consumer_key := consumer_schemas.decode_key(raw_key)) is not None:
            record = GroupRecord(consumer_key, consumer_schemas.decode_value(consumer_key.kind, value))
            consumers.setdefault(consumer_key.group_id, []).append(record)
            if consumer_key.kind is consumer_schemas.RecordKind.GROUP:
                is_of_consumers[consumer_key.group_id] = True
        else:
            unknown_count += 1
    return KeptGroups(
        {group_id: group for group_id, group in classic.items() if not is_of_consumers[group_id]},
        {group_id: records for group_id, records in consumers.items() if is_of_consumers.get(group_id)},
        committed,
        _undecided(settled),
        unknown_count,
    )


def _undecided(settled: SettledRecords) -> dict[str, list[UndecidedOffset]]:
    found: dict[str, list[UndecidedOffset]] = {}
    records = [
        (record.offset, producer_id, raw_key, record.value)
        for producer_id, of_producer in settled.undecided.items()
        for raw_key, record in of_producer.items()
    ]
    for _, producer_id, raw_key, value in sorted(records):
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey) and value is not None:
            undecided = UndecidedOffset(producer_id, (key.topic, key.partition), decode_offset(value))
            found.setdefault(key.group_id, []).append(undecided)
    return found
