"""How members go: they leave, they are removed, or their time is up."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.broker.group.consumer.draft import Draft
from highwater.broker.group.consumer.events import (
    STATIC_LEAVE_EPOCH,
    Decision,
    HeartbeatAnswer,
    HeartbeatRequest,
    Topics,
)
from highwater.broker.group.consumer.group import ConsumerGroup
from highwater.broker.group.consumer.heartbeat import is_unknown
from highwater.broker.group.consumer.schemas import NOTHING_HELD, CurrentAssignment, GroupRecord, RecordKind


def leave(group: ConsumerGroup, request: HeartbeatRequest, topics: Topics) -> Decision:
    """Decide on a heartbeat with the epoch -1, or with -2, which only static members may send.

    After -2 the partitions wait for the instance until its session ends.
    """
    if (error := is_unknown(group, request)) is not None:
        return Decision(error)
    answer = HeartbeatAnswer(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.member_epoch != STATIC_LEAVE_EPOCH:
        return Decision(answer, tuple(remove(group, [request.member_id], topics)))
    current = group.current[request.member_id]
    away = _away(current)
    draft = Draft(group)
    if away != current:
        draft.write(RecordKind.CURRENT, request.member_id, away)
    return Decision(answer, tuple(draft.records))


def _away(current: CurrentAssignment) -> CurrentAssignment:
    # An epoch below 0 must not be one that a partition was assigned at (KIP-1251).
    assigned = {topic: dict.fromkeys(indexes, 0) for topic, indexes in current.assigned.items()}
    return current._replace(epoch=STATIC_LEAVE_EPOCH, assigned=assigned, pending=NOTHING_HELD)


def remove(group: ConsumerGroup, member_ids: Iterable[str], topics: Topics) -> list[GroupRecord]:
    """The records that remove these members, who are members; for LeaveGroup by administrators."""
    draft = Draft(group)
    for member_id in member_ids:
        draft.remove_member(member_id)
    if draft.records:
        draft.drop_unused_regexes()
        draft.bump(topics)
    return draft.records


def expire(group: ConsumerGroup, topics: Topics, now_ms: int) -> list[GroupRecord]:
    """The records that remove members whose session or whose time to give up partitions is over; maybe none."""
    return remove(group, group.expired(now_ms), topics)
