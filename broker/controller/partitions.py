"""The states of partitions (kafka.controller.PartitionStateMachine).

    to             from                      what is done
    NEW            NON_EXISTENT              nothing: its replicas are assigned
    ONLINE         NEW                       the live replicas are in sync, the first of them leads: written, sent
    ONLINE         OFFLINE, ONLINE           a leader is elected, on some occasion: written, sent
    OFFLINE        NEW, ONLINE, OFFLINE      nothing: its leader died
    NON_EXISTENT   OFFLINE                   nothing: it was deleted

A partition that cannot be written, or for which there is no leader, stays what it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.cluster.zookeeper import Get, NodeData
from highwater.broker.controller.context import ControllerContext, PartitionState
from highwater.broker.controller.elections import Elected, Election, elect
from highwater.broker.controller.requests import RequestBatch
from highwater.broker.controller.storage import Rounds, ask, create_states, write_states
from highwater.broker.settings import metadata_tree
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

VALID_BEFORE: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NEW: frozenset((PartitionState.NON_EXISTENT,)),
    PartitionState.ONLINE: frozenset((PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE)),
    PartitionState.OFFLINE: frozenset((PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE)),
    PartitionState.NON_EXISTENT: frozenset((PartitionState.OFFLINE,)),
}

AllowsUncleanElection = Callable[[Mapping[str, str]], bool]
"""Whether a topic does, by the settings of its own and the broker's for all."""

ElectionResults = dict[TopicPartition, LeaderAndIsr | str]
"""The state with the new leader, or why there is none."""


class PartitionStates:
    def __init__(
        self,
        context: ControllerContext,
        batch: RequestBatch,
        is_unclean_election_allowed: AllowsUncleanElection,
    ) -> None:
        self._context = context
        self._batch = batch
        self._is_unclean_election_allowed = is_unclean_election_allowed

    def start(self) -> Rounds[None]:
        """Find every partition's state, and elect leaders where there is none; once, when the context is loaded.

        A leader that registered anew leads in a later epoch: what its log lost in a power cut others may have in this.
        """
        for key, partition in self._context.partitions():
            if partition.leadership is None:
                partition.state = PartitionState.NEW
            elif self._context.is_online(partition.leadership.leader, key) and not partition.leader_registered_since:
                partition.state = PartitionState.ONLINE
            else:
                partition.state = PartitionState.OFFLINE
        yield from self.bring_online()

    def bring_online(self, topic: str | None = None) -> Rounds[ElectionResults]:
        """Try to get a leader for every partition that has none."""
        waiting = self._context.partitions_in(PartitionState.OFFLINE, PartitionState.NEW, topic=topic)
        wanted = [key for key in waiting if not self._context.is_to_be_deleted(key[0])]
        return (yield from self.change(wanted, PartitionState.ONLINE, Election.OFFLINE))

    def change(
        self, partitions: Iterable[TopicPartition], target: PartitionState, election: Election = Election.OFFLINE
    ) -> Rounds[ElectionResults]:
        """Change these to a state, where that is valid, and notify the brokers. Returns the results of elections."""
        valid = [key for key in partitions if self._is_valid(key, target)]
        results: ElectionResults = {}
        if target is PartitionState.ONLINE:
            new = [key for key in valid if self._context[key].state is PartitionState.NEW]
            others = [key for key in valid if self._context[key].state is not PartitionState.NEW]
            if new:
                yield from self._initialize(new)
            if others:
                results = yield from self._elect(others, election)
            self._batch.send()
        else:
            for key in valid:
                self._context[key].state = target
        return results

    def _is_valid(self, key: TopicPartition, target: PartitionState) -> bool:
        partition = self._context.get(key)
        if partition is None:
            _logger.error("unknown partition %s-%d cannot become %s", *key, target.value)
            return False
        if partition.state not in VALID_BEFORE[target]:
            _logger.error("partition %s-%d is %s and cannot become %s", *key, partition.state.value, target.value)
            return False
        return True

    def _initialize(self, partitions: Sequence[TopicPartition]) -> Rounds[None]:
        first: dict[TopicPartition, LeaderAndIsr] = {}
        for key in partitions:
            live = tuple(
                replica for replica in self._context[key].assignment.replicas if self._context.is_online(replica, key)
            )
            if live:
                first[key] = LeaderAndIsr(live[0], 0, live, self._context.epoch, 0)
            else:
                _logger.warning("partition %s-%d has no leader yet: none of its replicas is live", *key)
        written = yield from create_states(self._context, first)
        for key, reason in written.failed.items():
            _logger.error("partition %s-%d has no leader yet: %s", *key, reason)
        # What `changed` was written before our write's answer was lost, or by a controller before us.
        for key in (*written.done, *written.changed):
            partition = self._context[key]
            if partition.leadership is not None:
                partition.state = PartitionState.ONLINE
                self._batch.add_leader_and_isr(partition.leadership.in_sync_replicas, key, is_new=True)

    def _elect(self, partitions: Sequence[TopicPartition], election: Election) -> Rounds[ElectionResults]:
        """Elect from the states we know; those that somebody changed meanwhile are read, and elected for again."""
        results: ElectionResults = {}
        remaining = list(partitions)
        while remaining:
            elected: dict[TopicPartition, Elected] = {}
            hopeless: list[TopicPartition] = []
            for key in remaining:
                if self._context[key].leadership is None:
                    results[key] = "it has no state in ZooKeeper"
                elif (found := self._elect_one(key, election)) is not None:
                    elected[key] = found
                else:
                    hopeless.append(key)
            if hopeless and election is Election.OFFLINE:
                allowing = yield from self._topics_that_allow_unclean_election({key[0] for key in hopeless})
                for key in hopeless:
                    if key[0] in allowing and (found := self._elect_one(key, Election.UNCLEAN)) is not None:
                        elected[key] = found
            results |= {key: f"no replica can lead it ({election.value})" for key in hopeless if key not in elected}
            wanted = {key: state for key, (state, _) in elected.items()}
            written = yield from write_states(self._context, wanted)
            for key, state in written.done.items():
                results[key] = state
                self._context[key].state = PartitionState.ONLINE
                self._context.election_count += 1
                self._context.unclean_election_count += state.is_recovering
                self._batch.add_leader_and_isr(elected[key].recipients, key)
            results.update(written.failed)
            remaining = written.changed
        _tell(results, election)
        return results

    def _elect_one(self, key: TopicPartition, election: Election) -> Elected | None:
        partition = self._context[key]
        assert partition.leadership is not None
        is_online = partial(
            self._context.is_online,
            partition=key,
            include_shutting_down=election is Election.CONTROLLED_SHUTDOWN,
        )
        shutting_down = self._context.shutting_down
        return elect(election, partition.assignment, partition.leadership, is_online, shutting_down=shutting_down)

    def _topics_that_allow_unclean_election(self, topics: Collection[str]) -> Rounds[set[str]]:
        """Read the topics' settings in ZooKeeper: this broker need not know those of all topics."""
        names = sorted(topics)
        nodes = yield from ask([Get(metadata_tree.topic_config_path(name)) for name in names])
        allowing: set[str] = set()
        for name, node in zip(names, nodes, strict=True):
            try:
                overrides = znodes.read(node.data, metadata_tree.parse_config) if isinstance(node, NodeData) else {}
            except ValueError as error:
                _logger.error("cannot use the settings of topic %s: %s", name, error)
                continue
            if self._is_unclean_election_allowed(overrides):
                allowing.add(name)
        return allowing


def _tell(results: ElectionResults, election: Election) -> None:
    failed = [(key, outcome) for key, outcome in results.items() if isinstance(outcome, str)]
    if len(results) > len(failed):
        _logger.info("elected leaders of %d partitions (%s)", len(results) - len(failed), election.value)
    if failed:
        (topic, index), reason = failed[0]
        more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        _logger.warning("partition %s-%d%s: no new leader: %s", topic, index, more, reason)
