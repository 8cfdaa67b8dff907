"""Regular expressions of a consumer group: when to resolve them, and what becomes of the result.

They are resolved off the heartbeat. The broker asks `is_due` after a decision was applied; if so it gives
`resolve` the names that the asking member may see, and queues `resolved` as an event of the group.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from highwater.broker.group.consumer.events import Topics
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.schemas import GroupRecord
from highwater.broker.group.events import Now

Resolved = Mapping[str, frozenset[str]]
"""The topics that each regular expression matches."""


def is_due(group: ConsumerGroup, refresh_interval_ms: int, now: Now) -> bool:
    """Whether the group's regular expressions are to be resolved now."""
    raise NotImplementedError


def resolve(patterns: Iterable[str], names: Iterable[str]) -> Generator[None, None, Resolved]:
    """Match every pattern against every name."""
    raise NotImplementedError
    yield


def resolved(group: ConsumerGroup, result: Resolved, topics: Topics, now: Now) -> list[GroupRecord]:
    """The records that make this result the group's; maybe none."""
    raise NotImplementedError
