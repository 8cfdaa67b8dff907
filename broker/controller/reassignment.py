"""Partitions that move to other brokers (KIP-455; KafkaController.onPartitionReassignment).

While a partition moves its replicas are those of its target and those it came from; /brokers/topics/T has which of
them are added and removed, so that the next controller goes on. It takes up to three phases, each for all
partitions asked for together:

    take up   the new assignment is written; replicas that a former move added, and this one does not need, go
    begin     not all of the target are in sync: the leader epoch is raised so that all hear of the replicas, and those
              that are added start
    finish    all of the target are in sync: one of them leads, the removed replicas leave the in-sync set and are
              deleted, and the assignment is written without them. It is written last: should the controller die before,
              the next one still knows what to remove.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import ReplicaAssignment
from highwater.broker.cluster.zookeeper import Delete, Exists, Get, NodeData, Set, ZooKeeperError
from highwater.broker.controller.context import (
    ControllerContext,
    PartitionState,
    Replica,
    ReplicaState,
    some_of,
)
from highwater.broker.controller.deletion import TopicDeletion
from highwater.broker.controller.elections import Election
from highwater.broker.controller.partitions import PartitionStates
from highwater.broker.controller.replicas import ReplicaStates
from highwater.broker.controller.requests import RequestBatch
from highwater.broker.controller.storage import Rounds, ask, write, write_states
from highwater.broker.controller.watches import Watches
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

_UNKNOWN: Final = Problem(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
_WOULD_LOSE: Final = Problem(
    ErrorCode.invalid_replica_assignment,
    "None of the replicas that would stay is in sync: what was acknowledged is only on those that would be deleted.",
)
_NOT_IN_PROGRESS: Final = Problem(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")


class Reassignments:
    def __init__(
        self,
        *,
        context: ControllerContext,
        batch: RequestBatch,
        partitions: PartitionStates,
        replicas: ReplicaStates,
        watches: Watches,
        deletion: TopicDeletion,
    ) -> None:
        self._context = context
        self._batch = batch
        self._partitions = partitions
        self._replicas = replicas
        self._watches = watches
        self._deletion = deletion

    # What has partitions move

    def start(self) -> Rounds[None]:
        """Take up what /admin/reassign_partitions asks for, and go on with what former controllers began."""
        begun = yield from self.znode_changed()
        yield from self._go_on(self._context.reassigning - begun)

    def alter(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], may_change_replication_factor: bool
    ) -> Rounds[dict[TopicPartition, Problem | None]]:
        """Have these move to the target given with each, or back to where they came from (None)."""
        results: dict[TopicPartition, Problem | None] = {}
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        for key, target in wanted.items():
            change = self._plan(key, target, may_change_replication_factor)
            results[key] = change if isinstance(change, Problem) else None
            if not isinstance(change, Problem):
                accepted[key] = change
        # The latest wish counts, whichever way it came.
        yield from self._take_from_znode(lambda key, _: key in accepted)
        failed = yield from self._take_up(accepted)
        return results | {key: Problem(ErrorCode.unknown_server_error, why) for key, why in failed.items()}

    def znode_changed(self) -> Rounds[set[TopicPartition]]:
        """/admin/reassign_partitions, which tools of old write, may be there: the partitions that move by it now."""
        (there,) = yield from self._watches.ask([Exists(znodes.REASSIGN_PARTITIONS)])
        if isinstance(there, ZooKeeperError):
            return set()
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        refused: set[TopicPartition] = set()
        for key, target in (yield from self._read_znode()).items():
            partition = self._context.get(key)
            if partition is None or self._context.is_to_be_deleted(key[0]) or not target:
                refused.add(key)
            elif not (partition.assignment.is_being_reassigned and partition.assignment.target == target):
                change = partition.assignment.reassigned_to(target)
                if self._would_lose(key, change):
                    refused.add(key)
                else:
                    accepted[key] = change
        failed = yield from self._take_up(accepted)
        refused |= failed.keys()
        if refused:
            _logger.warning(
                "cannot reassign %s: the partition does not exist, or no target replica is in sync", _names(refused)
            )
            yield from self._take_from_znode(lambda key, _: key in refused)
        return accepted.keys() - refused

    def maybe_complete(self, *partitions: TopicPartition) -> Rounds[None]:
        """The in-sync replicas of these changed."""
        moving = self._context.reassigning.intersection(partitions)
        yield from self._finish([key for key in sorted(moving) if self._can_finish(key)])

    def resume(self, is_wanted: Callable[[TopicPartition, ReplicaAssignment], bool]) -> Rounds[None]:
        """Go on with those that may have waited for a broker."""
        moving = self._context.reassigning
        yield from self._go_on([key for key in moving if is_wanted(key, self._context[key].assignment)])

    def _plan(
        self, key: TopicPartition, target: Sequence[int] | None, may_change_replication_factor: bool
    ) -> ReplicaAssignment | Problem:
        partition = self._context.get(key)
        present = ReplicaAssignment(()) if partition is None else partition.assignment
        if target is None:
            if not present.is_being_reassigned:
                return _NOT_IN_PROGRESS
            change = present.reassigned_to(present.origin)
            return _WOULD_LOSE if self._would_lose(key, change) else change
        if not target:
            reason = "Empty replica list specified in partition reassignment."
        elif len(set(target)) < len(target):
            reason = f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
        elif any(replica < 0 for replica in target):
            reason = f"Invalid broker id in replica list: {list(target)}"
        else:
            change = present.reassigned_to(tuple(target))
            live = self._context.live_broker_ids()
            if live.issuperset(change.adding):
                if partition is None or self._context.is_to_be_deleted(key[0]):
                    return _UNKNOWN
                present_count = len(present.target)
                if len(target) != present_count and not may_change_replication_factor:
                    return Problem(
                        ErrorCode.invalid_replication_factor,
                        f"The replication factor is changed from {present_count} to {len(target)}",
                    )
                return _WOULD_LOSE if self._would_lose(key, change) else change
            reason = (
                "Replica assignment has brokers that are not alive. "
                f"Replica list: {list(change.adding)}, live broker list: {sorted(live)}"
            )
        return Problem(ErrorCode.invalid_replica_assignment, reason)

    def _would_lose(self, key: TopicPartition, change: ReplicaAssignment) -> bool:
        """Whether nobody in sync stays: a former move is given up after all that it came from fell out of sync.

        (Kafka's controller refuses that with KRaft, and deletes them with ZooKeeper.)
        """
        leadership = self._context.leadership(key)
        return leadership is not None and set(leadership.in_sync_replicas).isdisjoint(change.replicas)

    # The phases

    def _take_up(self, wanted: Mapping[TopicPartition, ReplicaAssignment]) -> Rounds[dict[TopicPartition, str]]:
        """Those that could not be, and why."""
        self._deletion.mark_ineligible({topic for topic, _ in wanted}, "it is being reassigned")
        changed = {key: change for key, change in wanted.items() if self._context[key].assignment != change}
        failed = yield from self._write(changed)
        unneeded = []
        for key, change in wanted.items():
            if key not in failed:
                partition = self._context[key]
                unneeded += [
                    Replica(key, replica) for replica in partition.assignment.replicas if replica not in change.replicas
                ]
                partition.assignment = change
                self._context.reassigning.add(key)
        yield from self._delete(unneeded)
        yield from self._go_on(wanted.keys() - failed.keys())
        return failed

    def _go_on(self, partitions: Iterable[TopicPartition]) -> Rounds[None]:
        moving = sorted(partitions)
        ready = [key for key in moving if self._can_finish(key)]
        yield from self._begin([key for key in moving if key not in set(ready)])
        yield from self._finish(ready)

    def _can_finish(self, key: TopicPartition) -> bool:
        """Whether all of the target have everything, and one of them can lead."""
        partition = self._context[key]
        target = partition.assignment.target
        if partition.leadership is None:
            return False
        if partition.assignment.is_being_reassigned and not set(target) <= set(partition.leadership.in_sync_replicas):
            return False
        return any(
            self._context.is_online(replica, key) and replica in partition.leadership.in_sync_replicas
            for replica in target
        )

    def _begin(self, partitions: Sequence[TopicPartition]) -> Rounds[None]:
        yield from self._raise_leader_epoch(partitions)
        new = [
            Replica(key, replica)
            for key in partitions
            for replica in self._context[key].assignment.adding
            if self._context.state_of(Replica(key, replica)) is ReplicaState.NON_EXISTENT
        ]
        yield from self._replicas.change(new, ReplicaState.NEW)

    def _finish(self, partitions: Sequence[TopicPartition]) -> Rounds[None]:
        if not partitions:
            return
        added: list[Replica] = []
        removed: list[Replica] = []
        for key in partitions:
            assignment = self._context[key].assignment
            added += [Replica(key, replica) for replica in assignment.adding]
            removed += [Replica(key, replica) for replica in assignment.removing]
        yield from self._replicas.change(added, ReplicaState.ONLINE)
        staying: list[TopicPartition] = []
        moving: list[TopicPartition] = []
        for key in partitions:
            partition = self._context[key]
            partition.assignment = ReplicaAssignment(partition.assignment.target)
            leader = None if partition.leadership is None else partition.leadership.leader
            can_stay = leader in partition.assignment.replicas and self._context.is_online(leader, key)
            (staying if can_stay else moving).append(key)
        yield from self._partitions.change(moving, PartitionState.ONLINE, Election.REASSIGN)
        # Those that lead already learn that the removed ones cannot come back into sync.
        yield from self._raise_leader_epoch(staying)
        yield from self._delete(removed)
        failed = yield from self._write({key: self._context[key].assignment for key in partitions})
        for key, why in failed.items():
            _logger.error("cannot write the assignment of %s-%d: %s", *key, why)
        done = {key: self._context[key].assignment.replicas for key in partitions if key not in failed}
        yield from self._take_from_znode(lambda key, target: done.get(key) == target)
        self._context.reassigning -= done.keys()
        self._batch.add_update_metadata(self._context.brokers, partitions)
        self._batch.send()
        _logger.info("reassigned %s", _names(partitions))
        topics = {topic for topic, _ in partitions} - {topic for topic, _ in self._context.reassigning}
        if not topics.isdisjoint(self._context.topics_to_delete):
            yield from self._deletion.resume(topics)

    def _raise_leader_epoch(self, partitions: Iterable[TopicPartition]) -> Rounds[None]:
        """Have all replicas hear of the assignment; only a new epoch has them listen."""
        remaining = list(partitions)
        while remaining:
            states = {}
            for key in remaining:
                leadership = self._context.leadership(key)
                if leadership is None:
                    _logger.error("%s-%d is being reassigned and has no state", *key)
                else:
                    states[key] = leadership._replace(leader_epoch=leadership.leader_epoch + 1)
            written = yield from write_states(self._context, states)
            for key, state in written.done.items():
                # What is new may be put on any log directory; what was in sync has one, which may be offline.
                assignment = self._context[key].assignment
                new = [replica for replica in assignment.adding if replica not in state.in_sync_replicas]
                self._batch.add_leader_and_isr(set(assignment.replicas).difference(new), key)
                self._batch.add_leader_and_isr(new, key, is_new=True)
            for key, why in written.failed.items():
                _logger.error("%s-%d is being reassigned: %s", *key, why)
            remaining = written.changed
        self._batch.send()

    def _delete(self, replicas: Sequence[Replica]) -> Rounds[None]:
        """Have them leave the in-sync sets and their logs deleted. Nobody waits for the logs, as in Kafka."""
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            yield from self._replicas.change(replicas, state)

    # In ZooKeeper

    def _write(self, changed: Mapping[TopicPartition, ReplicaAssignment]) -> Rounds[dict[TopicPartition, str]]:
        """Write assignments, each topic's as it stands but for these; those that could not be, and why."""
        by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
        for (topic, index), assignment in changed.items():
            by_topic.setdefault(topic, {})[index] = assignment
        failed: dict[str, str] = {}
        remaining = list(by_topic)
        while remaining:
            found = yield from ask([Get(znodes.topic_path(topic)) for topic in remaining])
            writes: dict[str, Set] = {}
            for topic, znode in zip(remaining, found, strict=True):
                if isinstance(znode, NodeData):
                    _, present = znodes.read(znode.data, znodes.parse_assigned_topic)
                    topic_id = self._context.topics[topic].topic_id
                    value = znodes.assigned_topic_value(topic_id, present | by_topic[topic])
                    writes[topic] = Set(znodes.topic_path(topic), znodes.encode(value), znode.stat.version)
                else:
                    failed[topic] = f"the topic has no assignment: {znode.value}"
            results = yield from write(self._context, list(writes.values()))
            outcomes = dict(zip(writes, results, strict=True))
            # Somebody gave the topic more partitions in between.
            remaining = [topic for topic, outcome in outcomes.items() if outcome is ZooKeeperError.BAD_VERSION]
            for topic, outcome in outcomes.items():
                if isinstance(outcome, ZooKeeperError) and topic not in remaining:
                    failed[topic] = outcome.value
        return {key: failed[key[0]] for key in changed if key[0] in failed}

    def _read_znode(self) -> Rounds[dict[TopicPartition, tuple[int, ...]]]:
        (found,) = yield from ask([Get(znodes.REASSIGN_PARTITIONS)])
        if not isinstance(found, NodeData):
            return {}
        try:
            return znodes.read(found.data, znodes.parse_reassignment)
        except ValueError as error:
            _logger.error("%s is ignored: %s", znodes.REASSIGN_PARTITIONS, error)
            return {}

    def _take_from_znode(self, is_done: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Rounds[None]:
        """Take partitions from /admin/reassign_partitions, and it away when none is left: then it may be made anew."""
        wanted = yield from self._read_znode()
        left = {key: target for key, target in wanted.items() if not is_done(key, target)}
        if len(left) == len(wanted):
            return
        if left:
            value = znodes.encode(znodes.reassignment_value(left))
            yield from write(self._context, [Set(znodes.REASSIGN_PARTITIONS, value)])
        else:
            yield from write(self._context, [Delete(znodes.REASSIGN_PARTITIONS)])
        yield from self._watches.ask([Exists(znodes.REASSIGN_PARTITIONS)])


def _names(partitions: Iterable[TopicPartition]) -> str:
    return some_of([f"{topic}-{index}" for topic, index in partitions])
