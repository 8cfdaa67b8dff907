"""One term of a controller, from its election to its end: reacts to what happens in the cluster.

Every event is a generator of rounds with ZooKeeper, and they are taken one after another (controller.py). Whatever is
known belongs to the term and goes with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler
from highwater.broker.cluster import znodes
from highwater.broker.cluster.state import BrokerInfo, ReplicaAssignment
from highwater.broker.cluster.zookeeper import Children, Create, Exists, Get, NodeData, Set
from highwater.broker.controller.channels import Channels, Presence, Way
from highwater.broker.controller.context import ControllerContext, PartitionState, Replica, ReplicaState
from highwater.broker.controller.deletion import TopicDeletion
from highwater.broker.controller.elections import Election
from highwater.broker.controller.partitions import AllowsUncleanElection, PartitionStates
from highwater.broker.controller.reassignment import Reassignments
from highwater.broker.controller.rebalance import LeaderRebalance
from highwater.broker.controller.replicas import ReplicaStates
from highwater.broker.controller.requests import RequestBatch
from highwater.broker.controller.storage import Rounds, Submit, ask, children, delete_all, read_states, write
from highwater.broker.controller.watches import Watches
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import BrokerConfig
from highwater.broker.topics.topic import random_topic_id
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOTIFICATIONS: Final = (znodes.LOG_DIR_EVENT_NOTIFICATIONS, znodes.ISR_CHANGE_NOTIFICATIONS)


class Term:
    """Implements `PresenceListener`."""

    def __init__(
        self,
        *,
        controller_id: int,
        epoch: int,
        epoch_version: int,
        config: BrokerConfig,
        way: Way,
        scheduler: Scheduler,
        watches: Watches,
        submit: Submit,
        is_unclean_election_allowed: AllowsUncleanElection,
        gone: Iterable[BrokerInfo] = (),
    ) -> None:
        """`submit` takes an event that is to come. `gone` are brokers whose process is known not to be there."""
        self.config = config
        self.watches = watches
        self.submit = submit
        self.context = context = ControllerContext()
        context.epoch = epoch
        context.epoch_version = epoch_version
        self._gone = {broker.broker_id: broker for broker in gone}
        """Registered, and nobody listens there: treated as if they were not registered."""
        self._channels = Channels(way, scheduler, self)
        self.batch = RequestBatch(
            controller_id,
            way.listener_name,
            context,
            self._channels,
            leader_and_isr_answered=self._leader_and_isr_answered,
            stop_replica_answered=self._stop_replica_answered,
            update_metadata_answered=self._update_metadata_answered,
        )
        self.partitions = PartitionStates(context, self.batch, is_unclean_election_allowed)
        self.replicas = ReplicaStates(context, self.batch)
        self.deletion = TopicDeletion(
            context=context, batch=self.batch, partitions=self.partitions, replicas=self.replicas, config=config
        )
        self.reassignments = Reassignments(
            context=context,
            batch=self.batch,
            partitions=self.partitions,
            replicas=self.replicas,
            watches=watches,
            deletion=self.deletion,
        )
        self.rebalance = LeaderRebalance(
            context=context,
            partitions=self.partitions,
            config=config,
            scheduler=scheduler,
            watches=watches,
            submit=submit,
        )

    @property
    def unreachable_broker_count(self) -> int:
        """Brokers that count as alive and that the controller cannot reach."""
        return self._channels.unreachable_count

    def end(self) -> None:
        """No more is sent, and nobody calls back."""
        self._channels.close_all()
        self.rebalance.stop()

    # The beginning

    def load(self) -> Rounds[None]:
        """Take over (KafkaController.onControllerFailover). What changes while this reads is an event afterwards."""
        context = self.context
        yield from write(context, [Create(znodes.FEATURE, znodes.encode(znodes.feature_value()))])
        # Watches come before reading.
        listed = (znodes.BROKER_IDS, metadata_tree.TOPICS, metadata_tree.DELETE_TOPICS, *_NOTIFICATIONS)
        found = yield from self.watches.ask([Children(path) for path in listed])
        names = {path: children(path, result) for path, result in zip(listed, found, strict=True)}
        yield from self.watches.ask([Exists(znodes.PREFERRED_REPLICA_ELECTION), Exists(znodes.REASSIGN_PARTITIONS)])
        for path in _NOTIFICATIONS:
            # Of former controllers: all of the state is read now.
            yield from delete_all(context, path, names[path])
        for broker in (yield from self._registered(names[znodes.BROKER_IDS])).values():
            is_gone = _is_same(self._gone.get(broker.broker_id), broker)
            if not is_gone:
                context.brokers[broker.broker_id] = broker
            self._channels.open(broker, Presence.GONE if is_gone else Presence.UNKNOWN)
        self._gone = {id_: gone for id_, gone in self._gone.items() if id_ not in context.brokers}
        yield from self._take_up_topics(names[metadata_tree.TOPICS])
        yield from read_states(context, [key for key, _ in context.partitions()])
        context.reassigning.update(
            key for key, partition in context.partitions() if partition.assignment.is_being_reassigned
        )
        yield from self.deletion.start(names[metadata_tree.DELETE_TOPICS])
        # Brokers must know who lives before they can follow leaders.
        self.batch.add_update_metadata(context.brokers)
        self.batch.send()
        offline = yield from self.replicas.start()
        yield from self.partitions.start()
        yield from self.replicas.change(offline, ReplicaState.OFFLINE)
        _logger.info(
            "controller with epoch %d is ready: %d brokers, %d topics",
            context.epoch,
            len(context.brokers),
            len(context.topics),
        )
        yield from self.reassignments.start()
        yield from self.deletion.resume()
        yield from self.rebalance.start()

    def _registered(self, names: Iterable[str]) -> Rounds[dict[int, BrokerInfo]]:
        """What these brokers registered; those that are gone by now, or cannot be understood, are left out."""
        ids = sorted(int(name) for name in names if name.isdecimal())
        nodes = yield from self.watches.ask([Get(znodes.broker_path(broker_id)) for broker_id in ids])
        brokers: dict[int, BrokerInfo] = {}
        for broker_id, node in zip(ids, nodes, strict=True):
            if isinstance(node, NodeData):
                parse = partial(znodes.parse_broker, broker_id, node.stat.czxid)
                broker = _understood(znodes.broker_path(broker_id), node.data, parse)
                if broker is not None:
                    brokers[broker_id] = broker
        return brokers

    def _take_up_topics(self, names: Iterable[str]) -> Rounds[list[TopicPartition]]:
        """Read the assignments of topics that are new to us; what partitions they have."""
        topics = sorted(names)
        nodes = yield from self.watches.ask([Get(znodes.topic_path(topic)) for topic in topics])
        nameless: list[Set] = []
        partitions: list[TopicPartition] = []
        for topic, node in zip(topics, nodes, strict=True):
            if not isinstance(node, NodeData):
                continue
            parsed = _understood(znodes.topic_path(topic), node.data, znodes.parse_assigned_topic)
            if parsed is None:
                continue
            topic_id, assignment = parsed
            if topic_id is None:
                topic_id = random_topic_id()
                value = znodes.encode(znodes.assigned_topic_value(topic_id, assignment))
                nameless.append(Set(znodes.topic_path(topic), value, node.stat.version))
            self.context.add_topic(topic, topic_id)
            partitions += self._take_up_partitions(topic, assignment)
        yield from write(self.context, nameless)
        return partitions

    def _take_up_partitions(self, topic: str, assignment: dict[int, ReplicaAssignment]) -> list[TopicPartition]:
        known = self.context.topics[topic].partitions
        new = [index for index in assignment if index not in known and assignment[index].replicas]
        for index in new:
            self.context.add_partition((topic, index), assignment[index])
        return [(topic, index) for index in new]

    # Brokers

    def brokers_changed(self) -> Rounds[None]:
        """/brokers/ids has other children."""
        found = yield from self.watches.ask([Children(znodes.BROKER_IDS)])
        registered = yield from self._registered(children(znodes.BROKER_IDS, found[0]))
        known = self.context.brokers | self._gone
        new = [broker for id_, broker in registered.items() if id_ not in known or broker.epoch > known[id_].epoch]
        ended = [id_ for id_ in known if id_ not in registered or registered[id_].epoch > known[id_].epoch]
        for broker_id in ended:
            self._channels.close(broker_id)
        for broker in new:
            self._channels.open(broker)
        # A broker that registered anew died in between, whether we saw it or not.
        died = [id_ for id_ in ended if id_ in self.context.brokers]
        self._gone = {id_: broker for id_, broker in self._gone.items() if id_ not in ended}
        if died:
            yield from self._brokers_died(died)
        if new:
            yield from self._brokers_came(new)

    def broker_changed(self, broker_id: int) -> Rounds[None]:
        """A broker has other endpoints, or is gone (which /brokers/ids reports)."""
        registered = yield from self._registered([str(broker_id)])
        broker = registered.get(broker_id)
        former = self.context.brokers.get(broker_id)
        if broker is not None and former is not None and broker.epoch == former.epoch and broker != former:
            _logger.info("broker %d changed its endpoints", broker_id)
            self.context.brokers[broker_id] = broker
            self.batch.add_update_metadata(self.context.brokers)
            self.batch.send()

    def broker_is_gone(self, broker: BrokerInfo) -> None:
        self.submit(self._broker_is_gone(broker))

    def _broker_is_gone(self, broker: BrokerInfo) -> Rounds[None]:
        if _is_same(self.context.brokers.get(broker.broker_id), broker):
            self._gone[broker.broker_id] = broker
            yield from self._brokers_died([broker.broker_id])

    def broker_is_back(self, broker: BrokerInfo) -> None:
        self.submit(self._broker_is_back(broker))

    def _broker_is_back(self, broker: BrokerInfo) -> Rounds[None]:
        if _is_same(self._gone.get(broker.broker_id), broker):
            yield from self._brokers_came([self._gone.pop(broker.broker_id)])

    def _brokers_came(self, brokers: Collection[BrokerInfo]) -> Rounds[None]:
        """KafkaController.onBrokerStartup."""
        context = self.context
        existing = list(context.brokers)
        new = {broker.broker_id: broker for broker in brokers}
        context.brokers |= new
        _logger.info("brokers %s joined; live brokers: %s", _listed(new), _listed(context.brokers))
        for broker_id in new:
            context.offline_partitions.pop(broker_id, None)
        self.batch.add_update_metadata(existing)
        self.batch.send()
        self.batch.add_update_metadata(new, context.partitions_with_leadership())
        self.batch.send()
        replicas = context.replicas_on(new)
        yield from self.replicas.change(replicas, ReplicaState.ONLINE)
        yield from self.partitions.bring_online()
        yield from self.reassignments.resume(lambda _, assignment: any(replica in new for replica in assignment.target))
        topics = {replica.partition[0] for replica in replicas} & context.topics_to_delete
        if topics:
            yield from self.deletion.resume(topics)

    def _brokers_died(self, broker_ids: Collection[int]) -> Rounds[None]:
        """KafkaController.onBrokerFailure."""
        for broker_id in broker_ids:
            del self.context.brokers[broker_id]
            self.context.offline_partitions.pop(broker_id, None)
            self.context.shutting_down.discard(broker_id)
        _logger.info("brokers %s left; live brokers: %s", _listed(broker_ids), _listed(self.context.brokers))
        yield from self._replicas_went_offline(self.context.replicas_on(broker_ids))

    def _replicas_went_offline(self, replicas: Iterable[Replica]) -> Rounds[None]:
        """KafkaController.onReplicasBecomeOffline."""
        context = self.context
        to_delete: list[Replica] = []
        others: list[Replica] = []
        for replica in replicas:
            (to_delete if context.is_to_be_deleted(replica.partition[0]) else others).append(replica)
        yield from self.partitions.change(context.partitions_with_offline_leader(), PartitionState.OFFLINE)
        yield from self.partitions.bring_online()
        yield from self.replicas.change(others, ReplicaState.OFFLINE)
        if to_delete:
            yield from self.deletion.fail_replicas(to_delete)
        if not others:
            self.batch.add_update_metadata(context.brokers)
            self.batch.send()

    # Topics

    def topics_changed(self) -> Rounds[None]:
        """/brokers/topics has other children."""
        found = yield from self.watches.ask([Children(metadata_tree.TOPICS)])
        names = set(children(metadata_tree.TOPICS, found[0]))
        for topic in [topic for topic in self.context.topics if topic not in names]:
            self.context.remove_topic(topic)
        new = yield from self._take_up_topics(names - self.context.topics.keys())
        if new:
            _logger.info("new topics with %d partitions", len(new))
            yield from self._bring_up(new)

    def assignment_changed(self, topic: str) -> Rounds[None]:
        """/brokers/topics/T has another value: new partitions, or what we wrote ourselves."""
        (node,) = yield from self.watches.ask([Get(znodes.topic_path(topic))])
        if not isinstance(node, NodeData) or topic not in self.context.topics:
            return
        parsed = _understood(znodes.topic_path(topic), node.data, znodes.parse_assigned_topic)
        if parsed is None:
            return
        known = self.context.topics[topic]
        if not self.context.is_to_be_deleted(topic):
            new = self._take_up_partitions(topic, parsed[1])
            if new:
                _logger.info("%d new partitions of topic %s", len(new), topic)
                yield from self._bring_up(new)
        elif parsed[1].keys() - known.partitions.keys():
            _logger.warning("topic %s is being deleted: it gets no new partitions", topic)
            assignment = {index: partition.assignment for index, partition in known.partitions.items()}
            value = znodes.encode(znodes.assigned_topic_value(known.topic_id, assignment))
            yield from write(self.context, [Set(znodes.topic_path(topic), value, node.stat.version)])

    def _bring_up(self, partitions: list[TopicPartition]) -> Rounds[None]:
        """KafkaController.onNewPartitionCreation."""
        replicas = self.context.replicas_of(partitions)
        yield from self.partitions.change(partitions, PartitionState.NEW)
        yield from self.replicas.change(replicas, ReplicaState.NEW)
        yield from self.partitions.change(partitions, PartitionState.ONLINE)
        yield from self.replicas.change(replicas, ReplicaState.ONLINE)

    def deletions_changed(self) -> Rounds[None]:
        """/admin/delete_topics has other children."""
        found = yield from self.watches.ask([Children(metadata_tree.DELETE_TOPICS)])
        names = set(children(metadata_tree.DELETE_TOPICS, found[0]))
        unknown = names - self.context.topics.keys()
        wanted = names - unknown
        if not self.config.boolean("delete.topic.enable"):
            unknown, wanted = names, set()
        if unknown:
            _logger.warning(
                "topics %s are not deleted: they do not exist, or delete.topic.enable is false", sorted(unknown)
            )
            yield from delete_all(self.context, metadata_tree.DELETE_TOPICS, unknown)
        if wanted:
            for topic in {topic for topic, _ in self.context.reassigning} & wanted:
                self.deletion.mark_ineligible({topic}, "it is being reassigned")
            yield from self.deletion.begin(wanted)

    # Notifications

    def in_sync_replicas_changed(self) -> Rounds[None]:
        """Leaders report partition states that they changed themselves (before AlterPartition, Kafka 2.7)."""
        path = znodes.ISR_CHANGE_NOTIFICATIONS
        names, values = yield from self._notifications(path)
        partitions = [
            key
            for value in values
            for key in _understood(path, value, znodes.parse_partitions) or ()
            if self.context.get(key) is not None
        ]
        if partitions:
            yield from read_states(self.context, partitions)
            self.batch.add_update_metadata(self.context.brokers, partitions)
            self.batch.send()
            for key in partitions:
                if key in self.context.reassigning:
                    yield from self.reassignments.maybe_complete(key)
        yield from delete_all(self.context, path, names)

    def log_directories_failed(self) -> Rounds[None]:
        """Send brokers with a failed directory their partitions: the answers say which they lost."""
        path = znodes.LOG_DIR_EVENT_NOTIFICATIONS
        names, values = yield from self._notifications(path)
        found = (_understood(path, value, znodes.parse_log_dir_event) for value in values)
        broker_ids = {broker_id for broker_id in found if broker_id is not None}
        if broker_ids:
            _logger.info("log directories failed on brokers %s", _listed(broker_ids))
            online = (ReplicaState.NEW, ReplicaState.ONLINE)
            replicas = [on for on in self.context.replicas_on(broker_ids) if self.context.state_of(on) in online]
            yield from self.replicas.change(replicas, ReplicaState.ONLINE)
        yield from delete_all(self.context, path, names)

    def _notifications(self, path: str) -> Rounds[tuple[list[str], list[bytes]]]:
        found = yield from self.watches.ask([Children(path)])
        names = sorted(children(path, found[0]))
        nodes = yield from ask([Get(f"{path}/{name}") for name in names])
        return names, [node.data for node in nodes if isinstance(node, NodeData)]

    # Answers of brokers

    def _leader_and_isr_answered(self, broker: BrokerInfo, answer: Any) -> None:
        if answer.error_code:
            _logger.warning("broker %d refuses LeaderAndIsr: %s", broker.broker_id, _name(answer.error_code))
            return
        offline: set[TopicPartition] = set()
        online: set[TopicPartition] = set()
        for topic in answer.topics:
            name = self.context.topic_name(topic.topic_id)
            for partition in topic.partition_errors if name is not None else ():
                key = (str(name), partition.partition_index)
                if partition.error_code is ErrorCode.kafka_storage_error:
                    offline.add(key)
                elif partition.error_code is ErrorCode.none:
                    online.add(key)
                else:
                    _logger.debug("broker %d: %s-%d: %s", broker.broker_id, *key, _name(partition.error_code))
        if offline or not online.isdisjoint(self.context.offline_partitions.get(broker.broker_id, ())):
            self.submit(self._replicas_told(broker, online, offline))

    def _replicas_told(
        self, broker: BrokerInfo, online: set[TopicPartition], offline: set[TopicPartition]
    ) -> Rounds[None]:
        if not _is_same(self.context.brokers.get(broker.broker_id), broker):
            return
        former = self.context.offline_partitions.get(broker.broker_id, set())
        now = (former - online) | offline
        self.context.offline_partitions[broker.broker_id] = now
        new = now - former
        if new:
            _logger.warning("%d replicas on broker %d are offline", len(new), broker.broker_id)
            yield from self._replicas_went_offline([Replica(key, broker.broker_id) for key in new])

    def _stop_replica_answered(self, broker: BrokerInfo, answer: Any, deleted: set[TopicPartition]) -> None:
        outcomes = {
            Replica(key, broker.broker_id): answer.error_code or partition.error_code
            for partition in answer.partition_errors
            if (key := (partition.topic_name, partition.partition_index)) in deleted
            and key[0] in self.context.topics_with_deletion_started
        }
        if outcomes:
            self.submit(self._replicas_deleted(outcomes))

    def _replicas_deleted(self, outcomes: dict[Replica, ErrorCode]) -> Rounds[None]:
        known = {replica: error for replica, error in outcomes.items() if self.context.get(replica.partition)}
        failed = [replica for replica, error in known.items() if error]
        if failed:
            yield from self.deletion.fail_replicas(failed)
        if len(failed) < len(known):
            yield from self.deletion.complete_replicas([replica for replica, error in known.items() if not error])

    def _update_metadata_answered(self, broker: BrokerInfo, answer: Any) -> None:
        if answer.error_code:
            _logger.warning("broker %d refuses UpdateMetadata: %s", broker.broker_id, _name(answer.error_code))

    # Requests

    def shut_down(self, broker_id: int, broker_epoch: int) -> Rounds[tuple[ErrorCode, list[TopicPartition]]]:
        """Take away what a broker leads, before it stops; what it leads still (KafkaController.doControlledShutdown).

        A broker of before Kafka 2.2 does not report its epoch, and gives -1.
        """
        context = self.context
        broker = context.brokers.get(broker_id)
        if broker is None:
            return ErrorCode.broker_not_available, []
        if broker_epoch not in (-1, broker.epoch):
            return ErrorCode.stale_broker_epoch, []
        _logger.info("broker %d is shutting down", broker_id)
        context.shutting_down.add(broker_id)
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for key, partition in context.partitions():
            replicas = partition.assignment.replicas
            if broker_id not in replicas or len(replicas) < 2 or context.is_to_be_deleted(key[0]):
                continue
            if partition.leadership is not None:
                (led if partition.leadership.leader == broker_id else followed).append(key)
        yield from self.partitions.change(led, PartitionState.ONLINE, Election.CONTROLLED_SHUTDOWN)
        yield from self.replicas.change([Replica(key, broker_id) for key in followed], ReplicaState.OFFLINE)
        return ErrorCode.none, [
            key for key in led if (state := context.leadership(key)) is not None and state.leader == broker_id
        ]


def _understood(path: str, data: bytes, parse: Callable[[object], T]) -> T | None:
    """What a znode holds; None, with a line in the log, if that is not understood: the cluster goes on without."""
    try:
        return znodes.read(data, parse)
    except ValueError as error:
        _logger.error("ignoring %s: %s", path, error)
        return None


def _is_same(broker: BrokerInfo | None, other: BrokerInfo) -> bool:
    """Whether this is another's registration (its endpoints may have changed)."""
    return broker is not None and broker.epoch == other.epoch


def _listed(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids))) or "none"


def _name(error: ErrorCode) -> str:
    return ErrorCode(error).name.upper()
