"""Partitions of consumer groups as text for tests: `a:1,2 b:0`; an epoch per partition after `@`: `a:1@3,2@4`."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer.schemas import Held


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().rjust(16, b"\0"))


def name_of(topic: UUID) -> str:
    return topic.bytes.lstrip(b"\0").decode()


def partitions(text: str) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in held(text).items()}


def held(text: str, epoch: int = 0) -> Held:
    found: dict[UUID, dict[int, int]] = {}
    for word in text.split():
        name, _, indexes = word.partition(":")
        for index in indexes.split(","):
            number, _, since = index.partition("@")
            found.setdefault(topic_id(name), {})[int(number)] = int(since or epoch)
    return found


def told(assignment: Assignment | Held) -> str:
    """The text of partitions, in order, without epochs."""
    return " ".join(f"{name_of(topic)}:{','.join(map(str, sorted(assignment[topic])))}" for topic in sorted(assignment))


def told_with_epochs(assignment: Mapping[UUID, Mapping[int, int]]) -> str:
    return " ".join(
        f"{name_of(topic)}:{','.join(f'{index}@{epoch}' for index, epoch in sorted(assignment[topic].items()))}"
        for topic in sorted(assignment)
    )
