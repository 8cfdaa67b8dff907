"""One broker without its sockets: all that a handler may ask of it.

A node owns the topics of its metadata store and the partitions of its log directory; who changes them keeps the two
agreeing (broker/alone/topics.py when it runs alone).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.alone.topics import LocalTopics
from highwater.broker.clock import Clock, Scheduler
from highwater.broker.cluster.epochs import Epochs
from highwater.broker.cluster.metadata import LoneBroker, MetadataCache
from highwater.broker.cluster.state import ClusterView
from highwater.broker.group.coordinator import GroupCoordinator
from highwater.broker.log.checkpoint import TopicPartition, encode_topic_id
from highwater.broker.log.config import LogConfig
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.moving import Move, is_too_long
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.metrics.counters import BrokerCounters
from highwater.broker.quota.client_quotas import ClientQuotas
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.records.record import TransactionMarker
from highwater.broker.replica.fetch_sessions import FetchSessions
from highwater.broker.replica.partition import Partition
from highwater.broker.replica.replicated_partition import ReplicatedPartition, Replication
from highwater.broker.settings import dynamic
from highwater.broker.settings.config import BrokerConfig, TopicConfig
from highwater.broker.settings.store import MetadataError, SettingsStore
from highwater.broker.topics.administration import Administration
from highwater.broker.topics.auto_creation import AutoCreation, LocalAutoCreation
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC
from highwater.broker.topics.log_settings import log_config_of
from highwater.broker.topics.topic import Topic, TopicRecord
from highwater.broker.txn.coordinator import TransactionCoordinator
from highwater.broker.txn.markers import LocalMarkers, Markers
from highwater.broker.txn.producer_ids import ProducerIds, StoredProducerIds

if TYPE_CHECKING:
    from highwater.broker.cluster.controller.controller import Controller
    from highwater.broker.replica.manager import ReplicaManager
    from highwater.broker.txn.verification import RemoteVerification

_logger = logging.getLogger(__name__)


class Node:
    def __init__(
        self,
        *,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        store: SettingsStore,
        log_directories: LogDirectories,
        request_flush: Callable[[Partition], None],
        storage_failed: Callable[[OSError, Partition], None],
        request_checkpoint: Callable[[Callable[[OSError | None], None]], None],
        cluster: MetadataCache | None = None,
    ) -> None:
        """Without a `cluster` the broker is alone, and takes up every topic of the store; it raises MetadataError when
        the log directory has partitions of others. In a cluster its logs wait until the controller tells of them.
        """
        self.broker_id = broker_id
        self.config = config
        self.clock = clock
        self.scheduler = scheduler
        self.store = store
        self.log_directories = log_directories
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self.counters = BrokerCounters()
        self.quotas = ClientQuotas(
            config.integer("quota.window.num"),
            config.integer("quota.window.size.seconds") * 1000,
            store.client_quotas(),
        )
        self.replication_throttles = ReplicationThrottles(broker_id, config)
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"))
        self.has_deleted_logs = False
        """Whether folders of deleted partitions wait for `LogDirectory.purge_deleted`, which may take long."""
        self.request_checkpoint = request_checkpoint
        """Have the logs' checkpoints written soon; the callback is told the failure, if any."""
        self.moves: dict[TopicPartition, Move] = {}
        """Logs that are to go to another log directory."""
        self.is_clustered = cluster is not None
        self.cluster: ClusterView = LoneBroker(self) if cluster is None else cluster
        self.epochs = Epochs()
        self.replicas: ReplicaManager | None = None
        """What this broker has of the partitions of its cluster; the member makes it."""
        self.controller: Controller | None = None
        """In a cluster every broker has one; the controller's is active."""
        self.request_flush = request_flush
        self.storage_failed = storage_failed
        self._topics: dict[str, Topic] = {}
        self._topics_by_id: dict[UUID, Topic] = {}
        self.half_gone: set[str] = set()
        """Topics that the disk did not let go: nobody sees them, though the store and the disk may know them still."""
        self.local_topics = LocalTopics(self)
        self.administration: Administration = self.local_topics
        """In a cluster the member replaces it by that of the cluster."""
        # In a cluster highwater.broker.cluster.coordinators replaces these.
        self.auto_creation: AutoCreation = LocalAutoCreation(self.local_topics)
        self.producer_ids: ProducerIds = StoredProducerIds(self)
        self.markers: Markers = LocalMarkers(self)
        self.remote_verification: RemoteVerification | None = None
        self.groups = GroupCoordinator(self, () if self.is_clustered else self._take_up_topics())
        self.transactions = TransactionCoordinator(self)
        for (topic, index), directory in log_directories.interrupted_moves:
            self.has_deleted_logs = True
            self.move_log(topic, index, str(directory.path))
        dynamic.follow(self)

    @property
    def metadata(self) -> EmbeddedMetadataStore:
        """The store of a broker that runs alone, which has the topics too."""
        assert not self.is_clustered
        return cast(EmbeddedMetadataStore, self.store)

    @property
    def leader_epoch(self) -> int:
        """This broker became the leader of all its partitions when its present run began."""
        return self.metadata.controller_epoch - 1

    def _take_up_topics(self) -> Sequence[str]:
        """Open every topic; the names of those whose deletion was finished instead."""
        known = {(topic.name, partition) for topic in self.metadata.topics() for partition in topic.assignment}
        strangers = sorted(set(self.log_directories.keys()) - known)
        if strangers:
            topic, partition = strangers[0]
            more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
            raise MetadataError(
                f"{self._place_of(topic, partition)} holds {topic}-{partition}{more}, which the broker's metadata does "
                "not know: move it away, or name the directory it belongs to"
            )
        marked = list(self.metadata.topics_marked_for_deletion())
        try:
            for name in marked:
                self.remove_topic(name)
            for record in list(self.metadata.topics()):
                self.open_topic(record)
        except OSError as error:
            where = error.filename or ", ".join(str(directory.path) for directory in self.log_directories.all)
            raise LogDirectoryError(f"{where} cannot be used: {error.strerror}; mend that and start again") from error
        return marked

    def _place_of(self, topic: str, partition: int) -> Path:
        return next(directory.path for directory in self.log_directories.all if (topic, partition) in directory.logs)

    # Looking up

    def topics(self) -> Iterable[Topic]:
        return self._topics.values()

    def topic(self, name: str | UUID) -> Topic | None:
        return self._topics.get(name) if isinstance(name, str) else self._topics_by_id.get(name)

    def partition(self, topic: str | UUID, index: int) -> Partition | None:
        found = self._topics.get(topic) if isinstance(topic, str) else self._topics_by_id.get(topic)
        return None if found is None else found.partitions.get(index)

    def refusal(self, topic: str | UUID, index: int) -> ErrorCode:
        """Why a partition cannot be led here: it is nowhere, or elsewhere, or its directory failed."""
        partition = self.partition(topic, index)
        if partition is not None:
            return ErrorCode.kafka_storage_error if partition.has_failed else ErrorCode.not_leader_or_follower
        if not self.cluster.is_complete:
            return ErrorCode.not_leader_or_follower
        view = self.cluster.topic(topic)
        if view is not None and index in view.partitions:
            return ErrorCode.not_leader_or_follower
        is_unknown_id = view is None and isinstance(topic, UUID)
        return ErrorCode.unknown_topic_id if is_unknown_id else ErrorCode.unknown_topic_or_partition

    def all_partitions(self) -> Iterable[Partition]:
        return (partition for topic in self._topics.values() for partition in topic.partitions.values())

    def partitions(self) -> Iterable[Partition]:
        """Those that can be read and written."""
        return (partition for partition in self.all_partitions() if not partition.has_failed)

    def fail_directory(self, directory: LogDirectory) -> int:
        """Give up the partitions of a directory that cannot be relied on; how many that are."""
        self.log_directories.fail(directory)
        failed = [partition for partition in self.partitions() if directory is self.log_directories.of(partition.log)]
        for partition in failed:
            partition.fail()
        if self.replicas is not None:
            self.replicas.directory_failed(failed)
        return len(failed)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {(partition.topic, partition.index): partition.high_watermark for partition in self.partitions()}

    # What a topic's making, growing and deleting comes down to

    def forget_topic(self, topic: Topic) -> None:
        """Serve it no more, while its folders are still there."""
        del self._topics[topic.name]
        del self._topics_by_id[topic.topic_id]
        self.counters.topic_deleted(topic.name)
        for partition in topic.partitions.values():
            partition.end(ErrorCode.unknown_topic_or_partition)
        self.groups.topic_deleted(topic.name)
        self.transactions.topic_deleted(topic.name)

    def remove_topic(self, name: str) -> None:
        """Have its folders deleted, and forget it in the store once they all can be."""
        for topic, partition in list(self.log_directories.keys()):
            if topic == name:
                self.log_directories.delete_partition(topic, partition)
                self.has_deleted_logs = True
        self.log_directories.set_aside_unfinished(name)
        if not self.log_directories.is_out_of_reach(name):
            self.metadata.remove_topic(name)
            self.half_gone.discard(name)

    def open_topic(self, record: TopicRecord) -> Topic:
        topic = Topic(record, TopicConfig(self.config, record.config), self.counters.topic(record.name))
        self.open_partitions(topic, record)
        self._topics[topic.name] = topic
        self._topics_by_id[topic.topic_id] = topic
        return topic

    def open_partitions(self, topic: Topic, record: TopicRecord) -> None:
        log_config = log_config_of(topic.config)
        topic.partition_count = len(record.assignment)
        for index in range(len(topic.partitions), len(record.assignment)):
            topic.partitions[index] = Partition(
                topic.name,
                index,
                self._open_log(topic, index, log_config),
                leader_epoch=self.leader_epoch,
                replicas=record.assignment[index],
                min_in_sync_replicas=topic.config.integer("min.insync.replicas"),
                request_flush=self.request_flush,
                storage_failed=self.storage_failed,
                counters=topic.counters,
            )

    # What LeaderAndIsr and StopReplica come down to

    def open_replica(
        self,
        name: str,
        topic_id: UUID,
        index: int,
        overrides: Mapping[str, str],
        replication: Replication,
        *,
        is_new: bool,
    ) -> ReplicatedPartition | ErrorCode:
        """Take up a replica whose log is here, or make it. `overrides` are the topic's settings, if it is new here."""
        topic = self._topics.get(name)
        if topic is None:
            record = TopicRecord(name, topic_id, {}, overrides)
            topic = Topic(record, TopicConfig(self.config, overrides), self.counters.topic(name))
        directories = self.log_directories
        if not is_new and directories.get((name, index)) is None and len(directories.live) < len(directories.all):
            # Its log may be in the one that failed.
            return ErrorCode.kafka_storage_error
        try:
            log = self._open_log(topic, index, log_config_of(topic.config))
        except MetadataError as error:
            _logger.error("%s", error)
            return ErrorCode.inconsistent_topic_id
        except OSError as error:
            _logger.error("the log of %s-%d cannot be made: %s", name, index, error)
            return ErrorCode.kafka_storage_error
        partition = ReplicatedPartition(
            name,
            topic_id,
            index,
            log,
            high_watermark=directories.of(log).high_watermarks.get((name, index), 0),
            min_in_sync_replicas=topic.config.integer("min.insync.replicas"),
            replication=replication,
            request_flush=self.request_flush,
            storage_failed=self.storage_failed,
            counters=topic.counters,
        )
        topic.partitions[index] = partition
        topic.partition_count = len(topic.partitions)
        if name not in self._topics:
            self._topics[name] = self._topics_by_id[topic_id] = topic
            self.replication_throttles.topic_changed(name, topic.config)
        return partition

    def delete_replica(self, name: str, index: int) -> None:
        """Have its log deleted, whether or not it was taken up."""
        topic = self._topics.get(name)
        partition = None if topic is None else topic.partitions.pop(index, None)
        if topic is not None and partition is not None:
            partition.end(ErrorCode.not_leader_or_follower)
            topic.partition_count = len(topic.partitions)
            if not topic.partitions:
                del self._topics[name]
                del self._topics_by_id[topic.topic_id]
                self.counters.topic_deleted(name)
                self.replication_throttles.topic_forgotten(name)
        self.moves.pop((name, index), None)
        if self.log_directories.get((name, index)) is not None:
            self.log_directories.delete_partition(name, index)
            self.has_deleted_logs = True

    def _open_log(self, topic: Topic, index: int, log_config: LogConfig) -> PartitionLog:
        log = self.log_directories.get((topic.name, index))
        if log is None:
            return self.log_directories.create_partition(topic.name, index, topic.topic_id, log_config)
        if log.topic_id != topic.topic_id:
            if log.topic_id is not None and log.log_end_offset > 0:
                raise MetadataError(
                    f"{log.directory} is of topic id {encode_topic_id(log.topic_id)}, and the broker's metadata says "
                    f"{encode_topic_id(topic.topic_id)}: put back the one that belongs to the other"
                )
            # Nothing came into it before a crash.
            log.topic_id = topic.topic_id
            log.write_metadata()
        log.config = log_config
        return log

    # Log directories

    def move_log(self, topic: str, index: int, path: str) -> ErrorCode:
        """Have the log of a partition moved to another log directory; ask for the one where it is to call that off."""
        partition = self.partition(topic, index)
        if partition is None:
            return self.refusal(topic, index)
        destination = next((known for known in self.log_directories.all if str(known.path) == path), None)
        if destination is None:
            return ErrorCode.log_dir_not_found
        if partition.has_failed or destination not in self.log_directories.live:
            return ErrorCode.kafka_storage_error
        if is_too_long(topic, index):
            return ErrorCode.invalid_topic_exception
        source = self.log_directories.of(partition.log)
        under_way = self.moves.get((topic, index))
        if source is destination:
            self.moves.pop((topic, index), None)
        elif under_way is None or under_way.destination is not destination:
            self.moves[topic, index] = Move(partition.log, source, destination)
        return ErrorCode.none

    # Producers

    def write_transaction_marker(
        self, topic: str, index: int, marker: TransactionMarker, then: Callable[[ErrorCode], None]
    ) -> None:
        """End a producer's transaction on a partition, and call back when that is safe or refused.

        That may be before this returns.
        """
        partition = self.partition(topic, index)
        if partition is None:
            then(self.refusal(topic, index))
            return
        try:
            appended = partition.append_marker(marker, self.clock.now_ms())
        except OSError:  # the partition tells of it
            then(ErrorCode.kafka_storage_error)
            return
        if isinstance(appended, ErrorCode):
            then(appended)
            return

        def written(error: ErrorCode) -> None:
            if topic == OFFSETS_TOPIC and not error:
                self.groups.transaction_ended(index, marker.producer_id, marker.is_commit)
            then(error)

        partition.call_when_safe(appended.last_offset, written)
