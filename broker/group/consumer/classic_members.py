"""Members of a consumer group that speak the classic protocol.

    JoinGroup    joins, or moves on as a heartbeat does, with the partitions that the member has; waits for nobody
    SyncGroup    returns the partitions that the member may use now
    Heartbeat    asks the member to join again: for a new target, to give up partitions, or to get the rest of its own

A member's generation is its epoch, and nobody is the leader. In the older way ("eager") a member has nothing when it
joins again. In the newer one ("cooperative") it gives up what it is not given again, and then joins again by itself.
(Apache Kafka 4.4's GroupMetadataManager)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer import target
from highwater.broker.group.consumer.draft import has_other_topics
from highwater.broker.group.consumer.events import JOIN_EPOCH, ConsumerSettings, HeartbeatRequest, Topics
from highwater.broker.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from highwater.broker.group.consumer.heartbeat import MAX_NAMES
from highwater.broker.group.consumer.schemas import (
    ClassicMember,
    ClassicProtocol,
    CurrentAssignment,
    Held,
    MemberState,
)
from highwater.broker.group.embedded import Partitions, read_subscription, write_assignment
from highwater.broker.group.events import NO_MEMBER_ID, JoinRequest, Now, SyncAnswer, SyncRequest
from highwater.broker.group.members import CONSUMER

NameOfTopic = Callable[[UUID], str | None]
"""Finds the name of a topic that exists."""

_HAS_TO_JOIN: Final = (MemberState.UNREVOKED_PARTITIONS, MemberState.UNKNOWN)


def as_heartbeat(
    group: ConsumerGroup, member_id: str, request: JoinRequest, topics: Topics
) -> HeartbeatRequest | ErrorCode:
    """Return what a JoinGroup means to the group, or why it is refused.

    member_id: that of the request, or a new one
    """
    protocols = tuple([ClassicProtocol(name, metadata) for name, metadata in request.protocols])
    is_consumer = request.protocol_type == CONSUMER and bool(protocols)
    subscription = read_subscription(protocols[0].metadata) if is_consumer else None
    if (
        subscription is None
        or len(subscription.topics) > MAX_NAMES
        or not _agrees(group, (member_id, group.member_of(request.group_instance_id)), protocols)
    ):
        return ErrorCode.inconsistent_group_protocol
    owned = by_id(subscription.owned, topics)
    if request.member_id != NO_MEMBER_ID and (error := _is_somebody_else(group, request, owned)) is not None:
        return error
    return HeartbeatRequest(
        member_id,
        JOIN_EPOCH,
        request.group_instance_id,
        subscription.rack_id or None,
        request.rebalance_timeout_ms,
        subscription.topics,
        "",
        None,
        owned,
        request.client_id,
        request.client_host,
        ClassicMember(request.session_timeout_ms, protocols),
    )


def _agrees(group: ConsumerGroup, own_ids: tuple[str | None, ...], protocols: Iterable[ClassicProtocol]) -> bool:
    """Whether all members of the classic protocol support one of these, so that the group can become classic again."""
    others = [
        member.classic for id_, member in group.members.items() if member.classic is not None and id_ not in own_ids
    ]
    return bool(common_protocols([tuple(protocols), *(other.protocols for other in others)]))


def common_protocols(of_members: Iterable[Iterable[ClassicProtocol]]) -> frozenset[str]:
    names = [frozenset([name for name, _ in protocols]) for protocols in of_members]
    return frozenset.intersection(*names) if names else frozenset()


def _is_somebody_else(group: ConsumerGroup, request: JoinRequest, owned: Assignment) -> ErrorCode | None:
    if request.group_instance_id is not None:
        return _check_instance(group, request.member_id, request.group_instance_id)
    # A client may come with the id that it was given (KIP-394). One that has partitions was a member, and is none.
    return ErrorCode.unknown_member_id if request.member_id not in group.members and owned else None


def _check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> ErrorCode | None:
    current_id = group.member_of(instance_id)
    if current_id is None:
        return ErrorCode.unknown_member_id
    return None if current_id == member_id else ErrorCode.fenced_instance_id


def sync(group: ConsumerGroup, request: SyncRequest, name_of: NameOfTopic) -> SyncAnswer:
    error = _check(group, request.member_id, request.group_instance_id, request.generation_id)
    classic = group.classic(request.member_id)
    if error is not None or classic is None:
        return SyncAnswer(error or ErrorCode.unknown_member_id)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        return SyncAnswer(ErrorCode.inconsistent_group_protocol)
    current = group.current[request.member_id]
    has_new_target = current.epoch < group.target_epoch and current.state is not MemberState.UNREVOKED_PARTITIONS
    if has_new_target or current.state is MemberState.UNKNOWN:
        return SyncAnswer(ErrorCode.rebalance_in_progress)
    return SyncAnswer(ErrorCode.none, CONSUMER, name, embedded_assignment(current.assigned, metadata, name_of))


def heartbeat(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
    topics: Topics,
    settings: ConsumerSettings,
    now: Now,
) -> ErrorCode:
    if (error := _check(group, member_id, instance_id, generation_id)) is not None:
        return error
    group.heard(member_id, settings.session_timeout_ms, now.monotonic_ms)
    current = group.current[member_id]
    if (
        current.epoch < group.target_epoch
        or target.is_due(group, settings, now.wall_ms)
        or current.state in _HAS_TO_JOIN
        or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member_id, current))
        or has_other_topics(group, topics)
    ):
        group.expect(member_id, now.monotonic_ms)
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _check(group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode | None:
    if instance_id is not None and (error := _check_instance(group, member_id, instance_id)) is not None:
        return error
    if group.classic(member_id) is None:
        return ErrorCode.unknown_member_id
    return None if generation_id == group.current[member_id].epoch else ErrorCode.illegal_generation


def _waits_for_others(group: ConsumerGroup, member_id: str, current: CurrentAssignment) -> bool:
    return any(
        index in group.owners.get(topic, {})
        for topic, indexes in group.targets.get(member_id, NO_PARTITIONS).items()
        for index in indexes - current.assigned.get(topic, {}).keys()
    )


# Partitions by topic name


def by_id(partitions: Partitions, topics: Topics) -> dict[UUID, frozenset[int]]:
    """Those that exist."""
    known = {name: topic for name in partitions if (topic := topics(name)) is not None}
    owned = {
        topic.topic_id: frozenset([index for index in partitions[name] if 0 <= index < topic.partition_count])
        for name, topic in known.items()
    }
    return {topic: indexes for topic, indexes in owned.items() if indexes}


def embedded_assignment(assigned: Held, metadata: bytes, name_of: NameOfTopic) -> bytes:
    """The bytes of an assignment for a member with this subscription."""
    names = {topic: name_of(topic) for topic in assigned}
    partitions: Mapping[str, list[int]] = {
        name: list(assigned[topic]) for topic, name in names.items() if name is not None
    }
    subscription = read_subscription(metadata)
    return write_assignment(0 if subscription is None else subscription.version, partitions)
