"""How members go: they leave, they are removed, or their time is up."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.broker.group.consumer.events import Decision, HeartbeatRequest, Topics
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.schemas import GroupRecord


def leave(group: ConsumerGroup | None, request: HeartbeatRequest, topics: Topics) -> Decision:
    """Decide on a heartbeat with the epoch -1, or with -2, which only static members may send."""
    raise NotImplementedError


def remove(group: ConsumerGroup, member_ids: Iterable[str], topics: Topics) -> list[GroupRecord]:
    """The records that remove these members, who are members; for LeaveGroup by administrators."""
    raise NotImplementedError


def expire(group: ConsumerGroup, topics: Topics, now_ms: int) -> list[GroupRecord]:
    """The records that remove the members whose session or whose time to give up partitions is over; maybe none."""
    raise NotImplementedError
