"""One broker without its sockets: all that a handler may ask of it.

A node owns the topics of its metadata store and the partitions of its log directory, and keeps the two agreeing: a
topic is in the store before its first folder exists, and is marked for deletion before its first folder goes, so what
a crash interrupts is finished at the next start.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.clock import Clock
from broker.cluster.store import MetadataError, MetadataStore, TopicRecord
from broker.cluster.znodes import ProducerIdBlock, random_topic_id
from broker.config import BrokerConfig, TopicConfig, check_topic_overrides, topic_override_warnings
from broker.group.coordinator import GroupCoordinator
from broker.internal_topic import OFFSETS_TOPIC, plan_of
from broker.log.checkpoint import TopicPartition, encode_topic_id
from broker.log.config import LogConfig
from broker.log.errors import LogDirectoryError
from broker.log.log_directories import LogDirectories
from broker.log.log_directory import LogDirectory
from broker.log.moving import Move, is_too_long
from broker.log.partition_log import PartitionLog
from broker.log_settings import log_config_of
from broker.metrics.counters import BrokerCounters, TopicCounters
from broker.quota.client_quotas import ClientQuotas
from broker.records.record import TransactionMarker
from broker.replica.fetch_sessions import FetchSessions
from broker.replica.partition import Partition
from broker.replica.waiters import Scheduler
from broker.txn.coordinator import TransactionCoordinator

_logger = logging.getLogger(__name__)

MAX_TOPIC_NAME_LENGTH: Final = 249
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Kafka's controller refuses more at once too; without a limit one request could fill the disk with folders."""
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


class Problem(NamedTuple):
    """Why a request was not carried out, for the client."""

    error_code: ErrorCode
    message: str


class NewTopic(NamedTuple):
    """A topic somebody asks for. -1 for a count asks for the broker's default; an assignment excludes both counts."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, list[int]] | None = None
    config: Mapping[str, str | None] | None = None


class Topic:
    __slots__ = ("config", "counters", "name", "partition_count", "partitions", "topic_id")

    def __init__(self, record: TopicRecord, config: TopicConfig, counters: TopicCounters) -> None:
        self.name = record.name
        self.topic_id = record.topic_id
        self.config = config
        self.partition_count = len(record.assignment)
        self.partitions: list[Partition] = []
        self.counters = counters


def topic_name_problem(name: str) -> str | None:
    """Why this cannot be a topic's name, by Kafka's rules; None when it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"Topic name is invalid: it is longer than {MAX_TOPIC_NAME_LENGTH} characters"
    if not _TOPIC_NAME.fullmatch(name):
        return f"Topic name is invalid: '{name}' has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None


class Node:
    def __init__(
        self,
        *,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        scheduler: Scheduler,
        store: MetadataStore,
        log_directories: LogDirectories,
        request_flush: Callable[[Partition], None],
        storage_failed: Callable[[OSError, Partition], None],
        request_checkpoint: Callable[[Callable[[OSError | None], None]], None],
    ) -> None:
        """Take up every topic of the store. Raises MetadataError when the log directory has partitions of others."""
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
        self.fetch_sessions = FetchSessions(config.integer("max.incremental.fetch.session.cache.slots"))
        self.has_deleted_logs = False
        """Whether folders of deleted partitions wait for `LogDirectory.purge_deleted`, which may take long."""
        self.request_checkpoint = request_checkpoint
        """Have the logs' checkpoints written soon; the callback is told the failure, if any."""
        self.moves: dict[TopicPartition, Move] = {}
        """Logs that are to go to another log directory."""
        self._request_flush = request_flush
        self._storage_failed = storage_failed
        self._topics: dict[str, Topic] = {}
        self._topics_by_id: dict[UUID, Topic] = {}
        self._half_gone: set[str] = set()
        """Topics that the disk did not let go: nobody sees them, though the store and the disk may know them still."""
        self._producer_ids = ProducerIdBlock(broker_id, 0, -1)
        self._known_producer_ids: set[int] = set()
        """Those of the block that logs know already."""
        self.groups = GroupCoordinator(self, self._take_up_topics())
        self.transactions = TransactionCoordinator(self)
        for (topic, index), directory in log_directories.interrupted_moves:
            self.has_deleted_logs = True
            self.move_log(topic, index, str(directory.path))

    @property
    def leader_epoch(self) -> int:
        """This broker became the leader of all its partitions when its present run began."""
        return self.store.controller_epoch - 1

    def _take_up_topics(self) -> Sequence[str]:
        """Open every topic; the names of those whose deletion was finished instead."""
        known = {(topic.name, partition) for topic in self.store.topics() for partition in topic.assignment}
        strangers = sorted(set(self.log_directories.keys()) - known)
        if strangers:
            topic, partition = strangers[0]
            more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
            raise MetadataError(
                f"{self._place_of(topic, partition)} holds {topic}-{partition}{more}, which the broker's metadata does "
                "not know: move it away, or name the directory it belongs to"
            )
        marked = list(self.store.topics_marked_for_deletion())
        try:
            for name in marked:
                self._remove(name)
            for record in list(self.store.topics()):
                self._open_topic(record)
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
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def partitions(self) -> Iterable[Partition]:
        """Those that can be read and written."""
        return (
            partition for topic in self._topics.values() for partition in topic.partitions if not partition.has_failed
        )

    def fail_directory(self, directory: LogDirectory) -> int:
        """Give up the partitions of a directory that cannot be relied on; how many that are."""
        self.log_directories.fail(directory)
        failed = [partition for partition in self.partitions() if directory is self.log_directories.of(partition.log)]
        for partition in failed:
            partition.fail()
        return len(failed)

    # Changing topics

    def create_topic(self, wanted: NewTopic) -> Topic | Problem:
        return self.create_topics([wanted])[0]

    def create_topics(self, wanted: Sequence[NewTopic], *, validate_only: bool = False) -> list[Topic | Problem]:
        """Create topics, each for itself. With `validate_only` nothing is made, and they are told as they would be."""
        results: list[Topic | Problem] = []
        records: list[TopicRecord] = []
        partition_count = 0
        names = {_in_metrics(name): name for name in self._topics}
        for topic in wanted:
            if topic.name in self._half_gone and not validate_only:
                self._abandon(topic.name)
            assignment = self._assign(topic, names)
            if isinstance(assignment, Problem):
                results.append(assignment)
                continue
            partition_count += len(assignment)
            if partition_count > MAX_PARTITIONS_PER_REQUEST:
                results.append(_too_many_partitions(partition_count))
                continue
            config = {name: text for name, text in (topic.config or {}).items() if text is not None}
            record = TopicRecord(topic.name, random_topic_id(), assignment, config)
            records.append(record)
            results.append(Topic(record, TopicConfig(self.config, config), TopicCounters()))
            names[_in_metrics(topic.name)] = topic.name
        if validate_only or not records:
            return results
        try:
            self.store.put_topics(records)
        except OSError as error:
            return [result if isinstance(result, Problem) else _cannot_write(result.name, error) for result in results]
        opened = {record.name: self._open_new_topic(record) for record in records}
        return [result if isinstance(result, Problem) else opened[result.name] for result in results]

    def create_by_default(self, name: str) -> Topic | Problem:
        """Create a topic that somebody uses before anybody has created it."""
        return self.create_all_by_default([name])[name]

    def create_all_by_default(self, names: Iterable[str]) -> dict[str, Topic | Problem]:
        """Create several of them in one write, up to the limit of a request."""
        wanted = [self._by_default(name) for name in dict.fromkeys(names)]
        return {topic.name: result for topic, result in zip(wanted, self.create_topics(wanted), strict=True)}

    def _by_default(self, name: str) -> NewTopic:
        plan = plan_of(name, self.config)
        return NewTopic(name) if plan is None else NewTopic(name, plan.partition_count, 1, config=plan.overrides)

    def _open_new_topic(self, record: TopicRecord) -> Topic | Problem:
        try:
            topic = self._open_topic(record)
        except OSError as error:
            self._abandon(record.name)
            return _cannot_write(record.name, error)
        _logger.info("created topic %s with %d partitions", topic.name, topic.partition_count)
        for warning in topic_override_warnings(record.config):
            _logger.warning("topic %s: %s", topic.name, warning)
        self.groups.topic_created(topic.name)
        self.transactions.topic_created(topic.name)
        return topic

    def _assign(self, wanted: NewTopic, names: Mapping[str, str]) -> Problem | dict[int, list[int]]:
        """The replicas of every partition of a new topic, if it may be made beside those of `names`."""
        if reason := topic_name_problem(wanted.name):
            return Problem(ErrorCode.invalid_topic_exception, reason)
        if wanted.name in self._topics:
            return Problem(ErrorCode.topic_already_exists, f"Topic '{wanted.name}' already exists.")
        if wanted.name in self._half_gone or wanted.name in self.store.topics_marked_for_deletion():
            return Problem(ErrorCode.topic_already_exists, f"Topic '{wanted.name}' is marked for deletion.")
        twin = names.get(_in_metrics(wanted.name))
        if twin is not None:
            return Problem(
                ErrorCode.invalid_topic_exception,
                f"Topic '{wanted.name}' collides with existing topic {twin}: '.' and '_' are the same in metric names",
            )
        if reason := check_topic_overrides(wanted.config or {}):
            return Problem(ErrorCode.invalid_config, reason)
        if wanted.assignment:
            if wanted.partition_count != -1 or wanted.replication_factor != -1:
                return Problem(
                    ErrorCode.invalid_request,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                )
            return self._check_assignment(wanted.assignment, first=0)
        count = self.config.integer("num.partitions") if wanted.partition_count == -1 else wanted.partition_count
        replication_factor = (
            self.config.integer("default.replication.factor")
            if wanted.replication_factor == -1
            else wanted.replication_factor
        )
        if count <= 0:
            return Problem(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
        if count > MAX_PARTITIONS_PER_REQUEST:
            return _too_many_partitions(count)
        if replication_factor <= 0:
            return Problem(ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0.")
        if replication_factor > 1:
            return Problem(
                ErrorCode.invalid_replication_factor,
                f"Replication factor: {replication_factor} larger than available brokers: 1.",
            )
        return {partition: [self.broker_id] for partition in range(count)}

    def _check_assignment(self, assignment: Mapping[int, list[int]], *, first: int) -> Problem | dict[int, list[int]]:
        if len(assignment) > MAX_PARTITIONS_PER_REQUEST:
            return _too_many_partitions(len(assignment))
        if sorted(assignment) != list(range(first, first + len(assignment))):
            return Problem(
                ErrorCode.invalid_replica_assignment,
                f"The assignment must name the partitions from {first} on without gaps.",
            )
        for partition, replicas in assignment.items():
            if replicas != [self.broker_id]:
                return Problem(
                    ErrorCode.invalid_replica_assignment,
                    f"Partition {partition} is assigned to brokers {replicas}; the only broker is {self.broker_id}.",
                )
        return dict(sorted(assignment.items()))

    def add_partitions(
        self, name: str, total: int, assignments: list[list[int]] | None, *, validate_only: bool = False
    ) -> Problem | None:
        topic = self._topics.get(name)
        if topic is None:
            return Problem(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        current = len(topic.partitions)
        if total <= current:
            return Problem(
                ErrorCode.invalid_partitions,
                f"Topic currently has {current} partitions, which is higher than the requested {total}."
                if total < current
                else f"Topic already has {current} partitions.",
            )
        if total - current > MAX_PARTITIONS_PER_REQUEST:
            return _too_many_partitions(total - current)
        if assignments is not None and len(assignments) != total - current:
            return Problem(
                ErrorCode.invalid_replica_assignment,
                f"{len(assignments)} assignments provided for {total - current} new partitions.",
            )
        added = self._check_assignment(
            dict(enumerate(assignments, current))
            if assignments is not None
            else {partition: [self.broker_id] for partition in range(current, total)},
            first=current,
        )
        if isinstance(added, Problem) or validate_only:
            return added if isinstance(added, Problem) else None
        record = next(record for record in self.store.topics() if record.name == name)
        record = replace(record, assignment={**record.assignment, **added})
        try:
            self.store.put_topics([record])
            self._open_partitions(topic, record)
        except OSError as error:
            _logger.error("cannot add partitions to topic %s: %s", name, error)
            return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
        return None

    def delete_topic(self, name: str) -> Problem | None:
        topic = self._topics.get(name)
        if topic is None:
            return Problem(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
        if not self.config.boolean("delete.topic.enable"):
            return Problem(ErrorCode.topic_deletion_disabled, "Topic deletion is disabled (delete.topic.enable).")
        try:
            self.store.mark_for_deletion(name)
            del self._topics[name]
            del self._topics_by_id[topic.topic_id]
            self.counters.topic_deleted(name)
            for partition in topic.partitions:
                partition.end(ErrorCode.unknown_topic_or_partition)
            self.groups.topic_deleted(name)
            self.transactions.topic_deleted(name)
            self._half_gone.add(name)
            self._remove(name)
        except OSError as error:
            _logger.error("cannot delete topic %s: %s; the next start tries again", name, error)
            return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
        _logger.info("deleted topic %s", name)
        return None

    def _abandon(self, name: str) -> None:
        """Take back a topic of which not every folder could be made, or let go."""
        self._half_gone.add(name)
        try:
            self.store.mark_for_deletion(name)
            self._remove(name)
        except OSError as error:
            _logger.error("cannot take back topic %s: %s; the next start tries again", name, error)

    def _remove(self, name: str) -> None:
        for topic, partition in list(self.log_directories.keys()):
            if topic == name:
                self.log_directories.delete_partition(topic, partition)
                self.has_deleted_logs = True
        self.log_directories.set_aside_unfinished(name)
        if not self.log_directories.is_out_of_reach(name):
            self.store.remove_topic(name)
            self._half_gone.discard(name)

    def _open_topic(self, record: TopicRecord) -> Topic:
        topic = Topic(record, TopicConfig(self.config, record.config), self.counters.topic(record.name))
        self._open_partitions(topic, record)
        self._topics[topic.name] = topic
        self._topics_by_id[topic.topic_id] = topic
        return topic

    def _open_partitions(self, topic: Topic, record: TopicRecord) -> None:
        log_config = log_config_of(topic.config)
        topic.partition_count = len(record.assignment)
        for index in range(len(topic.partitions), len(record.assignment)):
            topic.partitions.append(
                Partition(
                    topic.name,
                    index,
                    self._open_log(topic, index, log_config),
                    leader_epoch=self.leader_epoch,
                    replicas=record.assignment[index],
                    min_in_sync_replicas=topic.config.integer("min.insync.replicas"),
                    request_flush=self._request_flush,
                    storage_failed=self._storage_failed,
                    counters=topic.counters,
                )
            )

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
            return ErrorCode.unknown_topic_or_partition
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
            then(ErrorCode.unknown_topic_or_partition)
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

    def next_producer_id(self) -> int:
        """One that no log knows: metadata put back from a copy gives ids out twice, and what a log takes for the retry
        of another producer is acknowledged and not written. Raises OSError.
        """
        while True:
            if self._producer_ids.first > self._producer_ids.last:
                self._producer_ids = self.store.next_producer_id_block(self.broker_id)
                block = range(self._producer_ids.first, self._producer_ids.last + 1)
                logs = (partition.log for partition in self.partitions())
                self._known_producer_ids = {id_ for log in logs for id_, _ in log.producer_states if id_ in block}
            producer_id = self._producer_ids.first
            self._producer_ids = self._producer_ids._replace(first=producer_id + 1)
            if producer_id not in self._known_producer_ids:
                return producer_id


def _in_metrics(topic: str) -> str:
    """The name as metrics spell it, where it must be unique too."""
    return topic.replace(".", "_")


def _cannot_write(topic: str, error: OSError) -> Problem:
    _logger.error("cannot create topic %s: %s", topic, error)
    return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")


def _too_many_partitions(count: int) -> Problem:
    return Problem(
        ErrorCode.policy_violation,
        f"{count} partitions in one request; at most {MAX_PARTITIONS_PER_REQUEST} are made at once.",
    )
