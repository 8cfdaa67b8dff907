"""How a member moves to its target: it gives up, then it gets what nobody has any more.

    state                     at a heartbeat
    STABLE                    moves when the target is new, or a topic is no longer its own
    UNREVOKED_PARTITIONS      waits until the member says that it has given up all that it must; its epoch stays
    UNRELEASED_PARTITIONS     moves: partitions that other members had may be free now
    UNKNOWN                   of a newer broker: the member must join again with nothing

A move: what is assigned and in the target stays; the rest is to be given up, and only when that is done the member gets
the free part of its target, with the target's epoch. (Apache Kafka 4.4's CurrentAssignmentBuilder)

A member that sends its previous epoch has what it sends: the answer that gave it more was lost. It sends that only
once, as it knows of no change: whoever took no note would wait for the rest until the member's time is up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from highwater.broker.group.assignors.assignor import Assignment
from highwater.broker.group.consumer.events import JOIN_EPOCH
from highwater.broker.group.consumer.schemas import NOTHING_HELD, CurrentAssignment, Held, MemberState


class Target(NamedTuple):
    epoch: int
    assignment: Assignment
    topics: frozenset[UUID]
    """The topics that the member subscribes to now, maybe fewer than when the target was computed."""
    is_free: Callable[[UUID, int], bool]
    """Whether nobody else has a partition, nor must give it up."""


class Told(NamedTuple):
    """What the member says of itself."""

    epoch: int
    owned: Assignment | None
    """What it has; None if it does not say, and then it may have all that it had."""


def reconcile(current: CurrentAssignment, target: Target, told: Told) -> CurrentAssignment | None:
    """The member's next assignment: the same object if nothing changes, None if it must join again."""
    if current.state is MemberState.UNKNOWN:
        is_bare = told.owned is not None and not any(told.owned.values())
        moved = _move(current, target, told.owned) if is_bare else None
    elif _waits(current, target, told.owned):
        moved = _without_other_topics(current, target, told.owned)
    else:
        moved = _move(current, target, told.owned)
    if moved is None or moved == current:
        return None if moved is None else current
    # The epoch that the member has until it gets the answer.
    return moved._replace(previous_epoch=told.epoch if told.epoch != JOIN_EPOCH else current.epoch)


def _waits(current: CurrentAssignment, target: Target, owned: Assignment | None) -> bool:
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        return _has(owned, current.pending)
    return current.state is MemberState.STABLE and current.epoch == target.epoch


def _move(current: CurrentAssignment, target: Target, owned: Assignment | None) -> CurrentAssignment:
    kept: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    added: dict[UUID, dict[int, int]] = {}
    is_waiting = False
    for topic in {*current.assigned, *target.assignment}:
        wanted = target.assignment.get(topic, frozenset()) if topic in target.topics else frozenset()
        held = current.assigned.get(topic, {})
        kept[topic] = {index: epoch for index, epoch in held.items() if index in wanted}
        revoked[topic] = {index: epoch for index, epoch in held.items() if index not in wanted}
        added[topic] = {index: target.epoch for index in wanted - held.keys() if target.is_free(topic, index)}
        is_waiting |= len(kept[topic]) + len(added[topic]) < len(wanted)
    if any(revoked.values()) and _has(owned, revoked):
        return current._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=_without_empty(kept), pending=_without_empty(revoked)
        )
    return current._replace(
        epoch=target.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=_without_empty({topic: indexes | added[topic] for topic, indexes in kept.items()}),
        pending=NOTHING_HELD,
    )


def _without_other_topics(current: CurrentAssignment, target: Target, owned: Assignment | None) -> CurrentAssignment:
    """Take what the member no longer subscribes to, without waiting for a new target."""
    others = {topic: epochs for topic, epochs in current.assigned.items() if topic not in target.topics}
    if not others:
        return current
    kept = {topic: epochs for topic, epochs in current.assigned.items() if topic in target.topics}
    more = {topic: {**current.pending.get(topic, {}), **epochs} for topic, epochs in others.items()}
    pending = {**current.pending, **more}
    if not _has(owned, pending):
        return current._replace(assigned=kept)
    return current._replace(state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending=pending)


def _has(owned: Assignment | None, partitions: Held) -> bool:
    """Whether the member has one of these partitions, for all that is known."""
    if owned is None:
        return True
    return any(not indexes.isdisjoint(partitions.get(topic, {})) for topic, indexes in owned.items())


def _without_empty(held: dict[UUID, dict[int, int]]) -> Held:
    return {topic: indexes for topic, indexes in held.items() if indexes}
