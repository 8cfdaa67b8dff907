"""Elections on request, and those that return leadership to the preferred replicas."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler, Timer
from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import NO_LEADER
from highwater.broker.cluster.zookeeper import Delete, Exists, Get, NodeData, ZooKeeperError
from highwater.broker.controller.context import ControllerContext, PartitionState
from highwater.broker.controller.elections import Election, preferred_leader
from highwater.broker.controller.partitions import PartitionStates
from highwater.broker.controller.storage import Rounds, Submit, ask, write
from highwater.broker.controller.watches import Watches
from highwater.broker.settings.config import BrokerConfig
from highwater.common.topic_partition import TopicPartition, partition_name
from highwater.kafka.protocol.problem import Problem

_logger = logging.getLogger(__name__)

_FIRST_REBALANCE_MS: Final = 5000
"""The wait after a controller took over."""

Outcomes = dict[TopicPartition, int | Problem]
"""Who leads now, or why nobody was elected."""


class LeaderRebalance:
    def __init__(
        self,
        *,
        context: ControllerContext,
        partitions: PartitionStates,
        config: BrokerConfig,
        scheduler: Scheduler,
        watches: Watches,
        submit: Submit,
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._config = config
        self._scheduler = scheduler
        self._watches = watches
        self._submit = submit
        self._timer: Timer | None = None

    def start(self) -> Rounds[None]:
        """Finish what was asked for before, and look after the balance from now on."""
        yield from self.preferred_election_asked()
        if self._config.boolean("auto.leader.rebalance.enable"):
            self._look_after(_FIRST_REBALANCE_MS)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Asked for

    def elect(self, partitions: Collection[TopicPartition], election: Election) -> Rounds[Outcomes]:
        """Preferred or unclean elections for a client (KafkaController.processReplicaLeaderElection)."""
        context = self._context
        outcomes: Outcomes = {}
        wanted: list[TopicPartition] = []
        for key in partitions:
            partition = context.get(key)
            if partition is None:
                outcomes[key] = Problem(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")
            elif context.is_to_be_deleted(key[0]):
                outcomes[key] = Problem(ErrorCode.invalid_topic_exception, "The topic is being deleted")
            elif self._is_needed(key, election):
                wanted.append(key)
            else:
                outcomes[key] = Problem(
                    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
                )
        results = yield from self._partitions.change(wanted, PartitionState.ONLINE, election)
        failure = (
            ErrorCode.preferred_leader_not_available
            if election is Election.PREFERRED
            else ErrorCode.eligible_leaders_not_available
        )
        for key in wanted:
            result = results.get(key, "it cannot be elected for now")
            outcomes[key] = (
                Problem(failure, f"Failed to elect leader for partition {partition_name(*key)}: {result}")
                if isinstance(result, str)
                else result.leader
            )
        return outcomes

    def _is_needed(self, key: TopicPartition, election: Election) -> bool:
        context = self._context
        partition = context[key]
        leader = NO_LEADER if partition.leadership is None else partition.leadership.leader
        if election is Election.PREFERRED:
            return leader != partition.assignment.replicas[0]
        return leader == NO_LEADER or not context.is_live(leader)

    def preferred_election_asked(self) -> Rounds[None]:
        """/admin/preferred_replica_election is there: the way to ask of tools before Kafka 2.2."""
        path = znodes.PREFERRED_REPLICA_ELECTION
        (found,) = yield from self._watches.ask([Exists(path)])
        if found is ZooKeeperError.NO_NODE:
            return
        (node,) = yield from ask([Get(path)])
        if isinstance(node, NodeData):
            try:
                wanted = znodes.read(node.data, znodes.parse_partitions)
            except ValueError as error:
                _logger.error("ignoring %s: %s", path, error)
                wanted = []
            for key, outcome in (yield from self.elect(wanted, Election.PREFERRED)).items():
                if isinstance(outcome, Problem) and outcome.error_code is not ErrorCode.election_not_needed:
                    _logger.warning("partition %s-%d: cannot elect the preferred leader: %s", *key, outcome.message)
        # The watch reports this too, and so a znode that is made anew is noticed.
        yield from write(self._context, [Delete(path)])

    # By and by

    def _look_after(self, delay_ms: int) -> None:
        self._timer = self._scheduler.call_later(delay_ms, lambda: self._submit(self._rebalance()))

    def _rebalance(self) -> Rounds[None]:
        """Where too many of the partitions that a broker should lead are led by others, give them back to it."""
        context = self._context
        preferred: dict[int, list[TopicPartition]] = {}
        for key, partition in context.partitions():
            if not context.is_to_be_deleted(key[0]):
                preferred.setdefault(partition.assignment.replicas[0], []).append(key)
        percentage = self._config.integer("leader.imbalance.per.broker.percentage")
        for broker_id, partitions in preferred.items():
            astray = [
                key
                for key in partitions
                if (leadership := context.leadership(key)) is not None and leadership.leader != broker_id
            ]
            if len(astray) * 100 > percentage * len(partitions):
                ready = [key for key in astray if self._can_lead(key)]
                yield from self._partitions.change(ready, PartitionState.ONLINE, Election.PREFERRED)
        self._look_after(self._config.integer("leader.imbalance.check.interval.seconds") * 1000)

    def _can_lead(self, key: TopicPartition) -> bool:
        partition = self._context[key]
        replicas = partition.assignment.replicas
        live = [replica for replica in replicas if self._context.is_online(replica, key)]
        assert partition.leadership is not None
        return preferred_leader(replicas, partition.leadership.in_sync_replicas, live) is not None
