"""The registry of the topics and partitions on this broker: look up, open, delete, move.

Who decides which partitions are here keeps the registry agreeing with the metadata: broker/alone/topics.py for a broker
that runs alone, broker/member/replica_manager.py in a cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.counters import BrokerCounters
from highwater.broker.log.checkpoint import encode_topic_id
from highwater.broker.log.config import LogConfig
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.moving import Move
from highwater.broker.log.partition_folder import has_too_long_future_name
from highwater.broker.log.partition_log import PartitionLog
from highwater.broker.quota.replication_throttle import ReplicationThrottles
from highwater.broker.replica.partition import Partition, Replication
from highwater.broker.settings.config import BrokerConfig, TopicConfig
from highwater.broker.settings.store import MetadataError
from highwater.broker.slices import Steps
from highwater.broker.topics.log_settings import log_config_of
from highwater.broker.topics.storage import Storage
from highwater.broker.topics.topic import Topic, TopicRecord
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)


class Partitions:
    def __init__(
        self, config: BrokerConfig, storage: Storage, counters: BrokerCounters, throttles: ReplicationThrottles
    ) -> None:
        self.log_directories = storage.log_directories
        self.when_failed: list[Callable[[Sequence[Partition]], None]] = []
        """Called with the partitions of a log directory that failed; they have ended."""
        self.moves: dict[TopicPartition, Move] = {}
        """Logs that are to go to another log directory."""
        self.topics_version = 0
        """It grows whenever a topic of a broker that runs alone comes, goes or grows."""
        self._config = config
        self._storage = storage
        self._counters = counters
        self._throttles = throttles
        self._topics: dict[str, Topic] = {}
        self._topics_by_id: dict[UUID, Topic] = {}
        self._is_purge_due = False

    # Looking up

    def topics(self) -> Iterable[Topic]:
        return self._topics.values()

    def topic(self, name: str | UUID) -> Topic | None:
        return self._topics.get(name) if isinstance(name, str) else self._topics_by_id.get(name)

    def find(self, topic: str | UUID, index: int) -> Partition | None:
        found = self._topics.get(topic) if isinstance(topic, str) else self._topics_by_id.get(topic)
        return None if found is None else found.partitions.get(index)

    def all(self) -> Iterable[Partition]:
        return (partition for topic in self._topics.values() for partition in topic.partitions.values())

    def live(self) -> Iterable[Partition]:
        """The partitions that can be read and written: their log directory has not failed."""
        return (partition for partition in self.all() if not partition.has_failed)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {(partition.topic, partition.index): partition.high_watermark for partition in self.live()}

    # Topics of a broker that runs alone: it has all of their partitions

    def open_topic(self, record: TopicRecord, leader_epoch: int) -> Generator[None, None, None]:
        """Open a topic, a step for each partition; it is here after the last one."""
        topic = Topic(record, TopicConfig(self._config, record.config), self._counters.topic(record.name))
        yield from self.open_partitions(topic, record, leader_epoch)
        self._topics[topic.name] = topic
        self._topics_by_id[topic.topic_id] = topic
        self.topics_version += 1

    def open_partitions(self, topic: Topic, record: TopicRecord, leader_epoch: int) -> Generator[None, None, None]:
        """Open those of the record that the topic does not have yet, a step for each."""
        log_config = log_config_of(topic.config)
        min_in_sync_replicas = topic.config.integer("min.insync.replicas")
        topic.partition_count = len(record.assignment)
        for index in range(len(topic.partitions), len(record.assignment)):
            log = self._open_log(topic, index, log_config)
            topic.partitions[index] = Partition(
                topic.name,
                topic.topic_id,
                index,
                log,
                high_watermark=log.log_end_offset,
                leader_epoch=leader_epoch,
                replicas=record.assignment[index],
                min_in_sync_replicas=min_in_sync_replicas,
                request_flush=self._storage.request_flush,
                storage_failed=self._storage.storage_failed,
                counters=topic.counters,
            )
            self.topics_version += 1
            yield

    def forget_topic(self, topic: Topic) -> Generator[None, None, None]:
        """Serve the topic no more, from the first step on, while its folders are still there.

        Each step ends a partition and lets go of it, so that its memory is given back then and not in one piece.
        """
        del self._topics[topic.name]
        del self._topics_by_id[topic.topic_id]
        self._counters.topic_deleted(topic.name)
        self.topics_version += 1
        while topic.partitions:
            topic.partitions.popitem()[1].end(ErrorCode.unknown_topic_or_partition)
            yield

    def delete_logs(self, name: str) -> Steps[bool]:
        """Have the folders of a topic deleted, a step for each partition.

        The last step returns False if some may be left, in a log directory that failed.
        """
        for topic, partition in list(self.log_directories.keys()):
            if topic == name:
                self.log_directories.begin_to_delete(topic, partition)
                self._is_purge_due = True
                yield None
        yield from self.log_directories.setting_aside(name)
        return not self.log_directories.is_out_of_reach(name)

    # Replicas of a broker in a cluster: LeaderAndIsr and StopReplica name them

    def open_replica(
        self,
        name: str,
        topic_id: UUID,
        index: int,
        overrides: Mapping[str, str],
        replication: Replication,
        *,
        is_new: bool,
        leads: bool,
    ) -> Partition | ErrorCode:
        """Take up a replica whose log is here, or make it. `overrides` are the topic's settings, if it is new here.

        A follower whose segments are gone fetches the records again. A leader would have the others delete theirs.
        """
        topic = self._topics.get(name)
        if topic is None:
            record = TopicRecord(name, topic_id, {}, overrides)
            topic = Topic(record, TopicConfig(self._config, overrides), self._counters.topic(name))
        directories = self.log_directories
        if not is_new and directories.get((name, index)) is None and not directories.is_complete:
            # Its log may be in one that failed.
            return ErrorCode.kafka_storage_error
        if not is_new and (gone := directories.gone((name, index))) is not None:
            if leads:
                _logger.error("this broker cannot lead %s-%d: %s", name, index, gone)
                return ErrorCode.kafka_storage_error
            _logger.warning("%s-%d is fetched from its leader again: %s", name, index, gone)
        try:
            log = self._open_log(topic, index, log_config_of(topic.config))
        except MetadataError as error:
            _logger.error("%s", error)
            return ErrorCode.inconsistent_topic_id
        except OSError as error:
            _logger.error("the log of %s-%d cannot be made: %s", name, index, error)
            return ErrorCode.kafka_storage_error
        partition = Partition(
            name,
            topic_id,
            index,
            log,
            high_watermark=directories.of(log).high_watermarks.get((name, index), 0),
            min_in_sync_replicas=topic.config.integer("min.insync.replicas"),
            replication=replication,
            request_flush=self._storage.request_flush,
            storage_failed=self._storage.storage_failed,
            counters=topic.counters,
        )
        topic.partitions[index] = partition
        topic.partition_count = len(topic.partitions)
        if name not in self._topics:
            self._topics[name] = self._topics_by_id[topic_id] = topic
            self._throttles.topic_changed(name, topic.config)
        return partition

    def delete_replica(self, name: str, index: int) -> None:
        """Have the log of a replica deleted, whether or not it was taken up.

        Its folder is gone for good after `finish_deletions`, which several may share.
        """
        topic = self._topics.get(name)
        partition = None if topic is None else topic.partitions.pop(index, None)
        if topic is not None and partition is not None:
            partition.end(ErrorCode.not_leader_or_follower)
            topic.partition_count = len(topic.partitions)
            if not topic.partitions:
                del self._topics[name]
                del self._topics_by_id[topic.topic_id]
                self._counters.topic_deleted(name)
                self._throttles.topic_forgotten(name)
        self.moves.pop((name, index), None)
        self.log_directories.forget_gone(lambda key: key == (name, index))
        if self.log_directories.get((name, index)) is not None:
            self.log_directories.begin_to_delete(name, index)
            self._is_purge_due = True

    def finish_deletions(self, topic: str) -> None:
        """Make sure that the deleted replicas of a topic stay deleted, after a power cut too. Raises OSError."""
        self.log_directories.set_aside_unfinished(topic)

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

    def fail_directory(self, directory: LogDirectory) -> int:
        """Give up the partitions of a directory that cannot be relied on; how many that are."""
        self.log_directories.fail(directory)
        failed = [partition for partition in self.live() if directory is self.log_directories.of(partition.log)]
        for partition in failed:
            partition.fail()
        for tell in self.when_failed:
            tell(failed)
        return len(failed)

    def move_log(self, partition: Partition, path: str) -> ErrorCode:
        """Have the log of a partition moved to another log directory; name the one where it is to call that off."""
        key = partition.topic, partition.index
        destination = next((known for known in self.log_directories.all if str(known.path) == path), None)
        if destination is None:
            is_lacking = path in map(str, self.log_directories.lacking)
            return ErrorCode.kafka_storage_error if is_lacking else ErrorCode.log_dir_not_found
        if partition.has_failed or destination not in self.log_directories.live:
            return ErrorCode.kafka_storage_error
        if has_too_long_future_name(*key):
            return ErrorCode.invalid_topic_exception
        source = self.log_directories.of(partition.log)
        under_way = self.moves.get(key)
        if source is destination:
            self.moves.pop(key, None)
        elif under_way is None or under_way.destination is not destination:
            self.moves[key] = Move(partition.log, source, destination)
        return ErrorCode.none

    def resume_moves(self) -> None:
        """Begin the moves anew that the end of the last run interrupted."""
        for key, directory in self.log_directories.interrupted_moves:
            self._is_purge_due = True
            partition = self.find(*key)
            if partition is not None:
                self.move_log(partition, str(directory.path))

    def folders_were_deleted(self) -> None:
        """Folders wait for `LogDirectory.purge_deleted`, which may take long."""
        self._is_purge_due = True

    def take_purge(self) -> bool:
        """Whether folders wait for `LogDirectory.purge_deleted`; whoever asks does it."""
        is_due, self._is_purge_due = self._is_purge_due, False
        return is_due
