"""An event of a consumer group in the making: its records so far, and the group as they will make it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from highwater.broker.group.consumer.events import Topics
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.schemas import GroupEpoch, GroupRecord, Key, RecordKind, TargetEpoch, Value

_TOPIC: Final = struct.Struct(">16si")
_SIGNED_64: Final = struct.Struct(">q")


class Draft:
    def __init__(self, group: ConsumerGroup) -> None:
        self.origin = group
        self.group = group
        """The group with the records; the group itself while there are none."""
        self.records: list[GroupRecord] = []

    def write(self, kind: RecordKind, name: str, value: Value | None) -> None:
        self.add([GroupRecord(Key(kind, self.group.group_id, name), value)])

    def add(self, records: list[GroupRecord]) -> None:
        if records and not self.records:
            self.group = self.group.draft()
        for record in records:
            self.records.append(record)
            self.group.replay(record)

    def remove_member(self, member_id: str) -> None:
        for kind in (RecordKind.CURRENT, RecordKind.MEMBER_TARGET, RecordKind.MEMBER):
            self.write(kind, member_id, None)

    def drop_unused_regexes(self) -> None:
        for pattern in [pattern for pattern in self.group.regexes if pattern not in self.group.regex_counts]:
            self.write(RecordKind.REGEX, pattern, None)

    def bump(self, topics: Topics) -> None:
        """Go to the next epoch, for which a new target is computed; a group without members needs none."""
        group = self.group
        if group.has_partition_metadata:
            self.write(RecordKind.PARTITIONS, "", None)
        epoch = group.epoch + 1
        self.write(RecordKind.GROUP, "", GroupEpoch(epoch, metadata_hash(group.topics, topics)))
        if not group.members:
            self.write(RecordKind.TARGET, "", TargetEpoch(epoch))


def has_other_topics(group: ConsumerGroup, topics: Topics) -> bool:
    """Whether what the members subscribe to has changed, so that a new target is needed."""
    if group.is_metadata_stale:
        group.has_new_topics = True
        group.is_metadata_stale = metadata_hash(group.topics, topics) != group.metadata_hash
    return group.is_metadata_stale


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """A hash of the topics that the members of a group subscribe to: another one calls for a new target."""
    digest = blake2b(digest_size=8)
    is_empty = True
    for name in sorted(names):
        topic = topics(name)
        if topic is not None:
            is_empty = False
            digest.update(name.encode(errors="surrogatepass"))
            digest.update(_TOPIC.pack(topic.topic_id.bytes, topic.partition_count))
    return 0 if is_empty else int(_SIGNED_64.unpack(digest.digest())[0])
