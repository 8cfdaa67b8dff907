"""Topics that are to go (kafka.controller.TopicDeletionManager).

A topic is marked by a znode under /admin/delete_topics. Its partitions lose their leaders, all brokers learn that it
is gone, and every broker with a replica is asked to delete it. When all have done so its znodes go, the mark last. A
replica whose broker is away, or fails to delete, holds the topic up until that broker is back; so does a reassignment
until it is done. Whoever is the controller next begins where the marks are.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import Children, Delete, ZooKeeperError
from highwater.broker.controller.context import (
    ControllerContext,
    PartitionState,
    Replica,
    ReplicaState,
    some_of,
)
from highwater.broker.controller.partitions import PartitionStates
from highwater.broker.controller.replicas import ReplicaStates
from highwater.broker.controller.requests import RequestBatch
from highwater.broker.controller.storage import Rounds, ask, children, delete_all, write
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import BrokerConfig

_logger = logging.getLogger(__name__)


class TopicDeletion:
    def __init__(
        self,
        *,
        context: ControllerContext,
        batch: RequestBatch,
        partitions: PartitionStates,
        replicas: ReplicaStates,
        config: BrokerConfig,
    ) -> None:
        self._context = context
        self._batch = batch
        self._partitions = partitions
        self._replicas = replicas
        self._config = config

    # What has topics go

    def start(self, marked: Iterable[str]) -> Rounds[None]:
        """Take up what former controllers left; the context knows topics and brokers already, their states follow."""
        known = self._context.topics.keys() & set(marked) if self._config.boolean("delete.topic.enable") else set()
        vain = set(marked) - known
        if vain:
            _logger.warning(
                "topics %s are not deleted: they do not exist, or delete.topic.enable is false", some_of(vain)
            )
            yield from delete_all(self._context, metadata_tree.DELETE_TOPICS, vain)
        self._context.topics_to_delete |= known
        self.mark_ineligible({topic for topic, _ in self._context.reassigning}, "it is being reassigned")
        away = {
            topic
            for topic in known
            if not all(self._is_online(replica) for replica in self._context.replicas_of_topic(topic))
        }
        self.mark_ineligible(away, "a replica is offline")

    def begin(self, topics: Collection[str]) -> Rounds[None]:
        """These are marked; some of them may have been before."""
        self._context.topics_to_delete.update(topics)
        self.mark_ineligible({topic for topic, _ in self._context.reassigning}, "it is being reassigned")
        yield from self.resume()

    # What holds a deletion up, and what has it go on

    def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Have these wait, as far as they are to be deleted."""
        held_up = self._context.topics_to_delete.intersection(topics) - self._context.topics_ineligible_for_deletion
        if held_up:
            self._context.topics_ineligible_for_deletion |= held_up
            _logger.info("the deletion of topics %s waits: %s", some_of(held_up), reason)

    def fail_replicas(self, replicas: Iterable[Replica]) -> Rounds[None]:
        """These could not be deleted, or their brokers or log directories are away."""
        failed = [replica for replica in replicas if self._context.is_to_be_deleted(replica.partition[0])]
        if failed:
            started = [replica for replica in failed if self._state(replica) is ReplicaState.DELETION_STARTED]
            yield from self._replicas.change(started, ReplicaState.DELETION_INELIGIBLE)
            self.mark_ineligible({replica.partition[0] for replica in failed}, "a replica cannot be deleted")
            yield from self.resume()

    def complete_replicas(self, replicas: Iterable[Replica]) -> Rounds[None]:
        """Brokers say that these are gone."""
        done = [replica for replica in replicas if self._context.is_to_be_deleted(replica.partition[0])]
        yield from self._replicas.change(done, ReplicaState.DELETION_SUCCESSFUL)
        yield from self.resume()

    def resume(self, topics: Collection[str] = ()) -> Rounds[None]:
        """Go on with every topic as far as it can be; what held these up may be over."""
        self._context.topics_ineligible_for_deletion.difference_update(topics)
        finished: list[str] = []
        retried: list[Replica] = []
        eligible: set[str] = set()
        for topic in sorted(self._context.topics_to_delete):
            states = {self._state(replica) for replica in self._context.replicas_of_topic(topic)}
            if states <= {ReplicaState.DELETION_SUCCESSFUL}:
                finished.append(topic)
            elif ReplicaState.DELETION_STARTED not in states:
                retried += self._context.replicas_in(topic, ReplicaState.DELETION_INELIGIBLE)
                if topic not in self._context.topics_ineligible_for_deletion:
                    eligible.add(topic)
        yield from self._finish(finished)
        yield from self._replicas.change(retried, ReplicaState.OFFLINE)
        if eligible:
            yield from self._delete(eligible)

    # The deletion itself

    def _delete(self, topics: set[str]) -> Rounds[None]:
        _logger.info("deleting topics %s", some_of(topics))
        new = topics - self._context.topics_with_deletion_started
        partitions = [key for topic in new for key, _ in self._context.partitions(topic)]
        yield from self._partitions.change(partitions, PartitionState.OFFLINE)
        yield from self._partitions.change(partitions, PartitionState.NON_EXISTENT)
        self._context.topics_with_deletion_started |= new
        told = [key for topic in topics for key, _ in self._context.partitions(topic)]
        self._batch.add_update_metadata(self._context.brokers, told)
        self._batch.send()
        left = [
            replica
            for topic in topics
            for replica in self._context.replicas_of_topic(topic)
            if self._state(replica) is not ReplicaState.DELETION_SUCCESSFUL
        ]
        away = [replica for replica in left if not self._is_online(replica)]
        yield from self._replicas.change(left, ReplicaState.OFFLINE)
        yield from self._replicas.change(away, ReplicaState.DELETION_INELIGIBLE)
        yield from self._replicas.change(
            [replica for replica in left if self._is_online(replica)], ReplicaState.DELETION_STARTED
        )
        self.mark_ineligible({replica.partition[0] for replica in away}, "a replica is offline")

    def _finish(self, topics: list[str]) -> Rounds[None]:
        """Every replica is gone: so are the topics."""
        for topic in topics:
            gone = self._context.replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL)
            yield from self._replicas.change(gone, ReplicaState.NON_EXISTENT)
        left = yield from self._delete_trees([znodes.topic_path(topic) for topic in topics])
        done = [topic for topic in topics if not any(_is_at(path, znodes.topic_path(topic)) for path in left)]
        yield from write(self._context, [Delete(metadata_tree.topic_config_path(topic)) for topic in done])
        yield from write(self._context, [Delete(znodes.delete_topic_path(topic)) for topic in done])
        for topic in done:
            self._context.remove_topic(topic)
            _logger.info("deleted topic %s", topic)
        if left:
            _logger.error("cannot delete znodes: %s", some_of([f"{path}: {why}" for path, why in left.items()]))

    def _delete_trees(self, roots: list[str]) -> Rounds[dict[str, str]]:
        """Delete nodes with all below them; those that could not be, and why not."""
        levels = [roots]
        while levels[-1]:
            found = yield from ask([Children(path) for path in levels[-1]])
            levels.append(
                [
                    f"{path}/{name}"
                    for path, names in zip(levels[-1], found, strict=True)
                    for name in children(path, names)
                ]
            )
        paths = [path for level in reversed(levels) for path in level]
        results = yield from write(self._context, [Delete(path) for path in paths])
        return {
            path: result.value
            for path, result in zip(paths, results, strict=True)
            if isinstance(result, ZooKeeperError) and result is not ZooKeeperError.NO_NODE
        }

    def _state(self, replica: Replica) -> ReplicaState:
        return self._context.state_of(replica)

    def _is_online(self, replica: Replica) -> bool:
        return self._context.is_online(replica.broker_id, replica.partition)


def _is_at(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")
