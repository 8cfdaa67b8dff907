"""ConsumerGroupHeartbeat: what a group decides when a member joins or shows that it is alive.

The steps of one heartbeat, whose records are one batch: is the member who it says, what is new in the request, is the
group's epoch to grow, is a new target to be computed, and how does this member move towards its target. The order of
the checks is that of Apache Kafka 4.4's GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer import target
from highwater.broker.group.consumer.draft import Draft, metadata_hash
from highwater.broker.group.consumer.events import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerSettings,
    Decision,
    HeartbeatAnswer,
    HeartbeatRequest,
    Topics,
)
from highwater.broker.group.consumer.group import NO_PARTITIONS, ConsumerGroup
from highwater.broker.group.consumer.reconcile import Target, Told, reconcile
from highwater.broker.group.consumer.schemas import ConsumerMember, CurrentAssignment, Held, MemberTarget, RecordKind
from highwater.broker.group.events import Now
from highwater.broker.topics.internal_topic import MOST_TEXT_BYTES, fits
from highwater.kafka.regular_expressions import Pattern, PatternError

MAX_NAMES: Final = 10_000
"""The most topics that a request may name: the broker goes over all of them in one step."""
_REJOIN: Final = "the member must give up all its partitions and join again"


def refused(error: ErrorCode, message: str) -> HeartbeatAnswer:
    return HeartbeatAnswer(error, message)


def refusal(
    group_id: str, request: HeartbeatRequest, version: int, assignors: Collection[str]
) -> HeartbeatAnswer | None:
    """Return why no group could take this request, or None. Asked after the rights, before the group is looked for."""
    if (problem := _problem(group_id, request, version)) is not None:
        return refused(ErrorCode.invalid_request, problem)
    if request.assignor is not None and request.assignor not in assignors:
        names = ", ".join(assignors)
        return refused(ErrorCode.unsupported_assignor, f"there is no assignor {request.assignor!r}, but {names}")
    if request.regex:
        try:
            Pattern(request.regex)
        except PatternError as error:
            text = f"{request.regex!r} is no regular expression of RE2: {error}"
            return refused(ErrorCode.invalid_regular_expression, text)
    return None


def _problem(group_id: str, request: HeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    texts = {"group id": group_id, "instance id": request.instance_id, "rack id": request.rack_id}
    if not request.member_id and (version >= 1 or epoch != JOIN_EPOCH):
        return "the member id must not be empty"
    for name, text in texts.items():
        if text == "":
            return f"the {name} must not be empty"
    for name, text in {**texts, "member id": request.member_id, "regular expression": request.regex}.items():
        if not fits(text or ""):
            return f"the {name} must not have more than {MOST_TEXT_BYTES:,} bytes"
    if len(request.topics or ()) > MAX_NAMES:
        return f"a member must not name more than {MAX_NAMES:,} topics; a regular expression may match more"
    if epoch < STATIC_LEAVE_EPOCH:
        return f"the member epoch is {epoch}, which means nothing"
    if epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        return "a member without an instance id cannot leave for a while"
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "a member that joins must tell its rebalance timeout"
        if request.owned is None or any(request.owned.values()):
            return "a member that joins must tell that it has no partitions"
        if request.topics is None and request.regex is None:
            return "a member that joins must tell what it subscribes to"
    return None


def heartbeat(
    group: ConsumerGroup,
    request: HeartbeatRequest,
    topics: Topics,
    settings: ConsumerSettings,
    now: Now,
    *,
    may_assign: bool = True,
) -> Generator[None, None, Decision]:
    """Decide on a request with an epoch of 0 or more: run it in slices (`slices`), or at once with `slices.run`.

    group: a new ConsumerGroup if there is none of this name. It exists when the records are applied to it. While this
        runs no other decision of the group may run, nor may records be applied.
    may_assign: False to see, while another event of the group is under way, whether this request writes anything: a
        decision without records is the answer, from decided state. One with records is dropped, and the request waits
        its turn. A request also waits behind an earlier one of the same member, whatever it is. It looks at no topics:
        the event under way may have seen them as they were before.
    """
    error = cannot_join(group, request, settings) if request.member_epoch == JOIN_EPOCH else _is_lost(group, request)
    if error is not None:
        return Decision(error)
    group.heard(request.member_id, settings.session_timeout_ms, now.monotonic_ms)
    group.has_new_topics |= group.is_metadata_stale
    draft = Draft(group)
    before = _take_place(draft, request)
    _update_subscription(draft, request, topics, settings, looks_at_topics=may_assign)
    if may_assign and target.is_due(draft.group, settings, now.wall_ms):
        draft.add((yield from target.compute(draft.group, topics, settings, now.wall_ms)))
    after = _move(draft, request, before, topics)
    if after is None:
        return Decision(refused(ErrorCode.fenced_member_epoch, f"the member's state is of a newer broker; {_REJOIN}"))
    is_told = (
        request.member_epoch == JOIN_EPOCH
        or request.is_full
        or request.member_epoch < before.epoch
        or _indexes(before.assigned) != _indexes(after.assigned)
    )
    answer = HeartbeatAnswer(
        ErrorCode.none,
        None,
        request.member_id,
        after.epoch,
        settings.heartbeat_interval_ms,
        _indexes(after.assigned) if is_told else None,
    )
    return Decision(answer, tuple(draft.records))


# Is the member who it says


def cannot_join(group: ConsumerGroup, request: HeartbeatRequest, settings: ConsumerSettings) -> HeartbeatAnswer | None:
    """Return why a request to join is refused, or None."""
    instance_id, instance = request.instance_id, group.member_of(request.instance_id)
    if instance is None:
        if request.member_id not in group.members and len(group.members) >= settings.max_size:
            text = f"the group has {len(group.members)} members, which is the maximum"
            return refused(ErrorCode.group_max_size_reached, text)
    elif instance != request.member_id and not _may_be_replaced(group, instance, request):
        text = f"instance {instance_id!r} is the member {instance!r}, which has not left"
        return refused(ErrorCode.unreleased_instance_id, text)
    return None


def _may_be_replaced(group: ConsumerGroup, instance: str, request: HeartbeatRequest) -> bool:
    """Whether an instance has left for a while, or changes its protocol; one of the classic protocol never says so."""
    is_classic = request.classic is not None or group.classic(instance) is not None
    return is_classic or group.current[instance].epoch == STATIC_LEAVE_EPOCH


def _is_lost(group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatAnswer | None:
    """Return why a request of somebody who has joined is not accepted, or None."""
    if (error := is_unknown(group, request)) is not None:
        return error
    current = group.current[request.member_id]
    epoch = request.member_epoch
    if epoch == current.epoch:
        return None
    if epoch > current.epoch:
        text = f"the member's epoch is {current.epoch}, not {epoch}; {_REJOIN}"
        return refused(ErrorCode.fenced_member_epoch, text)
    # The answer with the member's epoch may be lost.
    if epoch == current.previous_epoch and _is_part(request.owned, current):
        return None
    text = f"the member's epoch is {current.epoch} and was {current.previous_epoch}, not {epoch}; {_REJOIN}"
    return refused(ErrorCode.fenced_member_epoch, text)


def is_unknown(group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatAnswer | None:
    """Return why the sender is no member, or None."""
    if not group.epoch:
        return refused(ErrorCode.group_id_not_found, f"there is no group {group.group_id!r}")
    instance_id = request.instance_id
    if instance_id is not None:
        instance = group.member_of(instance_id)
        if instance is None:
            return refused(ErrorCode.unknown_member_id, f"instance {instance_id!r} is no member")
        if instance != request.member_id:
            text = f"instance {instance_id!r} is the member {instance!r} now"
            return refused(ErrorCode.fenced_instance_id, text)
    if request.member_id not in group.members:
        return refused(ErrorCode.unknown_member_id, f"{request.member_id!r} is no member")
    return None


def _is_part(owned: Assignment | None, current: CurrentAssignment) -> bool:
    """Whether all that the member has is kept for it."""
    return owned is not None and all(
        indexes <= current.assigned.get(topic, {}).keys() | current.pending.get(topic, {}).keys()
        for topic, indexes in owned.items()
    )


# What is new


def _take_place(draft: Draft, request: HeartbeatRequest) -> CurrentAssignment:
    """Give a static member that comes back the place it left. Returns what the member has before this heartbeat."""
    group = draft.group
    instance = group.member_of(request.instance_id)
    is_back = instance is not None and (
        group.current[instance].epoch == STATIC_LEAVE_EPOCH
        or (instance != request.member_id and _may_be_replaced(group, instance, request))
    )
    if request.member_epoch != JOIN_EPOCH or instance is None or not is_back:
        return group.current.get(request.member_id, CurrentAssignment())
    current = group.current[instance]._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    if instance != request.member_id:
        member, assignment = group.members[instance], group.targets.get(instance)
        draft.remove_member(instance)
        draft.write(RecordKind.MEMBER, request.member_id, member)
        if assignment is not None:
            draft.write(RecordKind.MEMBER_TARGET, request.member_id, MemberTarget(assignment))
    return current


def _update_subscription(
    draft: Draft, request: HeartbeatRequest, topics: Topics, settings: ConsumerSettings, *, looks_at_topics: bool
) -> None:
    """Write what is new in the request, and the group's next epoch if that calls for a new target."""
    group = draft.group
    assignor = target.assignor_of(group, settings)
    before = group.members.get(request.member_id, ConsumerMember())
    after = _told(before, request)
    if after != before or request.member_id not in group.members:
        draft.write(RecordKind.MEMBER, request.member_id, after)
        draft.drop_unused_regexes()
    must_bump = (
        not group.epoch
        or after.topics != before.topics
        or _is_another_known_regex(draft.group, before, after)
        or target.assignor_of(draft.group, settings) != assignor
    )
    if not must_bump and group.is_metadata_stale and looks_at_topics:
        must_bump = metadata_hash(draft.group.topics, topics) != group.metadata_hash
        draft.origin.is_metadata_stale = must_bump
    if must_bump:
        draft.bump(topics)


def _told(before: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    return ConsumerMember(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        before.topics if request.topics is None else request.topics,
        before.regex if request.regex is None else request.regex,
        before.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        before.assignor if request.assignor is None else request.assignor,
        request.classic,
    )


def _is_another_known_regex(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether the change of the regular expression is known to matter now.

    One that was not resolved yet matches nothing until it is, and then calls for a new target.
    """
    return before.regex != after.regex and (not after.regex or after.regex in group.regexes)


# How the member moves


def _move(
    draft: Draft, request: HeartbeatRequest, before: CurrentAssignment, topics: Topics
) -> CurrentAssignment | None:
    group, member_id = draft.group, request.member_id
    is_settled = group.is_reconciled(before) and group.epoch == group.target_epoch
    if is_settled and not any(record.key.kind is RecordKind.MEMBER for record in draft.records):
        return before

    def is_free(topic: UUID, index: int) -> bool:
        owner = group.owners.get(topic, {}).get(index)
        return owner is None or owner == member_id

    subscribed = target.subscribed_ids(group.topics_of(group.members[member_id]), topics)
    aim = Target(group.target_epoch, group.targets.get(member_id, NO_PARTITIONS), subscribed, is_free)
    after = reconcile(before, aim, Told(request.member_epoch, request.owned))
    # `before` may be of an instance that had another id.
    if after is not None and after != group.current.get(member_id):
        draft.write(RecordKind.CURRENT, member_id, after)
    return after


def _indexes(held: Held) -> Assignment:
    return {topic: frozenset(indexes) for topic, indexes in held.items()}
