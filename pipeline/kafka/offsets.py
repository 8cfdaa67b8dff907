"""The next offset of each partition, with topic ids, and the JSON that checkpoints and progress keep. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from highwater.common.topic_partition import TopicPartition
from highwater.common.typed_json import parse_json
from highwater.pipeline.errors import SettingsError

IDS: Final = "#ids"
"""The key of the topics' ids. No topic can have this name."""


@dataclass(frozen=True)
class Offsets:
    """The next offset of each partition, and the ids of their topics, as text, where brokers have ids."""

    next: Mapping[TopicPartition, int]
    ids: Mapping[str, str] = field(default_factory=dict)

    def to_json_object(self) -> dict[str, dict[str, Any]]:
        """`{"topic": {"0": 123}, "#ids": {"topic": "…"}}` in a fixed order: Spark compares offsets as text."""
        found: dict[str, dict[str, Any]] = {}
        for (topic, partition), offset in sorted(self.next.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        if self.ids:
            found[IDS] = dict(sorted(self.ids.items()))
        return found

    @classmethod
    def from_json_object(cls, json_object: Mapping[str, Mapping[str, Any]]) -> Offsets:
        """Read what `to_json_object` or Spark's own connector wrote. Raises SettingsError."""
        found: dict[TopicPartition, int] = {}
        ids: dict[str, str] = {}
        if not isinstance(json_object, Mapping):
            raise SettingsError(f'offsets are written as {{"topic":{{"0":123}}}}, and this is {json_object!r}')
        for topic, partitions in json_object.items():
            if not isinstance(partitions, Mapping):
                raise SettingsError(f'{topic}: offsets are written as {{"topic":{{"0":123}}}}')
            if topic == IDS:
                ids = {name: str(value) for name, value in partitions.items()}
                continue
            for partition, offset in partitions.items():
                if not str(partition).isdecimal() or not isinstance(offset, int) or isinstance(offset, bool):
                    raise SettingsError(f"{topic}: {partition!r}: {offset!r} is not a partition with an offset")
                found[topic, int(partition)] = offset
        return cls(found, ids)

    @classmethod
    def from_text(cls, text: str) -> Offsets:
        """Read the value of an option. Raises SettingsError."""
        try:
            json_object = parse_json(text)
        except ValueError:
            raise SettingsError(f'{text!r} is not JSON; offsets are written as {{"topic":{{"0":123}}}}') from None
        return cls.from_json_object(json_object)

    def id_of(self, topic: str) -> str | None:
        return self.ids.get(topic)

    def uuid_of(self, topic: str) -> UUID | None:
        """Raises SettingsError for what is no id."""
        topic_id = self.ids.get(topic)
        try:
            return None if topic_id is None else UUID(topic_id)
        except ValueError:
            raise SettingsError(f"{topic}: {topic_id!r} is not an id of a topic") from None

    def topics(self) -> set[str]:
        return {topic for topic, _ in self.next}
