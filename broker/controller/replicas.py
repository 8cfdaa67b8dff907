"""The states of replicas (kafka.controller.ReplicaStateMachine).

to                    from                                              what is done
NEW                   NON_EXISTENT                                      sent the leader, if there is one
ONLINE                NEW                                               nothing
ONLINE                ONLINE, OFFLINE, DELETION_INELIGIBLE              sent the leader
OFFLINE               NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE         asked to stop; taken from the in-sync
                                                                        replicas, of which the others are sent
DELETION_STARTED      OFFLINE                                           asked to delete
DELETION_SUCCESSFUL   DELETION_STARTED                                  nothing
DELETION_INELIGIBLE   DELETION_STARTED, OFFLINE                         nothing
NON_EXISTENT          DELETION_SUCCESSFUL                               taken from the assignment in memory
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from highwater.broker.cluster.state import NO_LEADER, LeaderAndIsr
from highwater.broker.controller.context import ControllerContext, Replica, ReplicaState
from highwater.broker.controller.requests import RequestBatch
from highwater.broker.controller.storage import Rounds, write_states
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

_NEW, _ONLINE, _OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE

VALID_BEFORE: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.NEW: frozenset((ReplicaState.NON_EXISTENT,)),
    ReplicaState.ONLINE: frozenset((_NEW, _ONLINE, _OFFLINE, ReplicaState.DELETION_INELIGIBLE)),
    ReplicaState.OFFLINE: frozenset((_NEW, _ONLINE, _OFFLINE, ReplicaState.DELETION_INELIGIBLE)),
    ReplicaState.DELETION_STARTED: frozenset((_OFFLINE,)),
    ReplicaState.DELETION_SUCCESSFUL: frozenset((ReplicaState.DELETION_STARTED,)),
    ReplicaState.DELETION_INELIGIBLE: frozenset((_OFFLINE, ReplicaState.DELETION_STARTED)),
    ReplicaState.NON_EXISTENT: frozenset((ReplicaState.DELETION_SUCCESSFUL,)),
}


class ReplicaStates:
    def __init__(self, context: ControllerContext, batch: RequestBatch) -> None:
        self._context = context
        self._batch = batch

    def start(self) -> Rounds[list[Replica]]:
        """Find every replica's state once, send the leader to those that live, and return the others.

        The others are still to be OFFLINE, which can wait until there are leaders where theirs are gone.
        """
        online: list[Replica] = []
        offline: list[Replica] = []
        for key, partition in self._context.partitions():
            for broker_id in partition.assignment.replicas:
                is_online = self._context.is_online(broker_id, key)
                if not is_online:
                    offline.append(Replica(key, broker_id))
                elif not partition.leader_registered_since:  # else it is sent with its new leader epoch
                    online.append(Replica(key, broker_id))
                # One that is away is not asked to delete what it has before it is back.
                state = ReplicaState.ONLINE if is_online else ReplicaState.DELETION_INELIGIBLE
                partition.replica_states[broker_id] = state
        yield from self.change(online, ReplicaState.ONLINE)
        return offline

    def change(self, replicas: Iterable[Replica], target: ReplicaState) -> Rounds[None]:
        """Change these to a state, where that is valid, and notify the brokers."""
        valid = [replica for replica in replicas if self._is_valid(replica, target)]
        if target is ReplicaState.OFFLINE:
            by_broker: dict[int, list[TopicPartition]] = {}
            for replica in valid:
                by_broker.setdefault(replica.broker_id, []).append(replica.partition)
            for broker_id, partitions in by_broker.items():
                yield from self._take_offline(broker_id, partitions)
        else:
            for replica in valid:
                self._change(replica, target)
        self._batch.send()

    def _is_valid(self, replica: Replica, target: ReplicaState) -> bool:
        if self._context.get(replica.partition) is None:
            _logger.error("%s belongs to an unknown partition and cannot become %s", _name(replica), target.value)
            return False
        state = self._context.state_of(replica)
        if state not in VALID_BEFORE[target]:
            _logger.error("%s is %s and cannot become %s", _name(replica), state.value, target.value)
            return False
        return True

    def _change(self, replica: Replica, target: ReplicaState) -> None:
        key, broker_id = replica
        partition = self._context[key]
        state = self._context.state_of(replica)
        leadership = partition.leadership
        if target is ReplicaState.NEW:
            if leadership is not None and leadership.leader == broker_id:
                _logger.error("%s is the leader and cannot become a new replica", _name(replica))
                return
            if leadership is not None:
                self._batch.add_leader_and_isr([broker_id], key, is_new=True)
        elif target is ReplicaState.ONLINE:
            if state is not ReplicaState.NEW and leadership is not None:
                self._batch.add_leader_and_isr([broker_id], key)
        elif target is ReplicaState.DELETION_STARTED:
            self._batch.add_stop_replica([broker_id], key, is_to_be_deleted=True)
        elif target is ReplicaState.NON_EXISTENT:
            partition.assignment = partition.assignment.without(broker_id)
            del partition.replica_states[broker_id]
            return
        partition.replica_states[broker_id] = target

    def _take_offline(self, broker_id: int, partitions: Sequence[TopicPartition]) -> Rounds[None]:
        for key in partitions:
            self._batch.add_stop_replica([broker_id], key, is_to_be_deleted=False)
        failed: dict[TopicPartition, str] = {}
        remaining = list(partitions)
        while remaining:
            wanted: dict[TopicPartition, LeaderAndIsr] = {}
            for key in remaining:
                leadership = self._context.leadership(key)
                if leadership is not None and broker_id in leadership.in_sync_replicas:
                    shrunk = _without(leadership, broker_id)
                    if shrunk is not None:
                        wanted[key] = shrunk
            written = yield from write_states(self._context, wanted)
            for key in written.done:
                if not self._context.is_to_be_deleted(key[0]):
                    others = [other for other in self._context[key].assignment.replicas if other != broker_id]
                    self._batch.add_leader_and_isr(others, key)
            failed.update(written.failed)
            remaining = written.changed
        for key, reason in failed.items():
            _logger.error("cannot remove replica %d of %s-%d from the in-sync replicas: %s", broker_id, *key, reason)
        for key in partitions:
            if key not in failed:
                self._context[key].replica_states[broker_id] = ReplicaState.OFFLINE
        self._batch.add_update_metadata(self._context.brokers, partitions)


def _without(state: LeaderAndIsr, broker_id: int) -> LeaderAndIsr | None:
    """The state without this replica; None if that is the state already.

    The last replica in sync stays so: it alone has all that was acknowledged.
    """
    leader = NO_LEADER if state.leader == broker_id else state.leader
    in_sync = tuple(replica for replica in state.in_sync_replicas if replica != broker_id) or state.in_sync_replicas
    if leader == state.leader and in_sync == state.in_sync_replicas:
        return None
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, in_sync_replicas=in_sync)


def _name(replica: Replica) -> str:
    (topic, index), broker_id = replica
    return f"replica {broker_id} of {topic}-{index}"
