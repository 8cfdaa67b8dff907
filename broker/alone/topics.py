"""Topics of a broker that runs alone: creates, extends and deletes them in its store and on its disks.

A topic is in the store before its first folder exists, and is marked for deletion before its first folder is removed.
The next start therefore finishes what a crash interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.alone.stepping import Stepping
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.counters import TopicCounters
from highwater.broker.log.errors import LogDirectoryError
from highwater.broker.runtime import Runtime
from highwater.broker.settings.config import TopicConfig, topic_override_warnings
from highwater.broker.settings.store import MetadataError
from highwater.broker.slices import Steps, run
from highwater.broker.topics.administration import (
    DELETION_DISABLED,
    MAX_PARTITIONS_PER_REQUEST,
    UNKNOWN_TOPIC,
    Charge,
    CreatedTopic,
    ElectionType,
    MorePartitions,
    NewTopic,
    Outcomes,
    PartitionOutcomes,
    Reassignments,
    Terms,
    check_growth,
    check_new_topic,
    free_of_charge,
    marked_for_deletion,
    too_many_partitions,
    unknown_topic,
)
from highwater.broker.topics.coordinators import Coordinators
from highwater.broker.topics.internal_topic import plan_of
from highwater.broker.topics.partitions import Partitions
from highwater.broker.topics.topic import Topic, TopicRecord, random_topic_id
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.pacing import FEW_ITEMS, paced
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.topic_names import metric_name

_logger = logging.getLogger(__name__)


def take_up_topics(partitions: Partitions, store: EmbeddedMetadataStore) -> Sequence[str]:
    """Open every topic of the store; return the names of those whose deletion was finished instead.

    Raises MetadataError when the log directories have partitions that the store does not know, LogDirectoryError when
    they cannot be used.
    """
    log_directories = partitions.log_directories
    known = {(topic.name, partition) for topic in store.topics() for partition in topic.assignment}
    strangers = sorted(set(log_directories.keys()) - known)
    if strangers:
        topic, partition = strangers[0]
        place = next(directory.path for directory in log_directories.all if (topic, partition) in directory.logs)
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise MetadataError(
            f"{place} holds {topic}-{partition}{more}, which the broker's metadata does "
            "not know: move it away, or name the directory it belongs to"
        )
    marked = list(store.topics_marked_for_deletion())
    try:
        for name in marked:
            run(_remove_topic(partitions, store, name))
        known = {(topic.name, partition) for topic in store.topics() for partition in topic.assignment}
        log_directories.forget_gone(lambda key: key not in known)
        if all_gone := [error for key in sorted(known) if (error := log_directories.gone(key)) is not None]:
            more = f"; {len(all_gone) - 1} more partitions lack theirs" if len(all_gone) > 1 else ""
            raise LogDirectoryError(f"{all_gone[0]}{more}")
        for record in list(store.topics()):
            run(partitions.open_topic(record, store.leader_epoch))
    except OSError as error:
        where = error.filename or ", ".join(str(directory.path) for directory in log_directories.all)
        raise LogDirectoryError(f"{where} cannot be used: {error.strerror}; mend that and start again") from error
    return marked


def _remove_topic(partitions: Partitions, store: EmbeddedMetadataStore, name: str) -> Steps[bool]:
    """Delete the logs of a topic, and remove it from the store if all could be deleted; returns whether they could."""
    all_are_deleted = yield from partitions.delete_logs(name)
    if all_are_deleted:
        yield from store.removing_topic(name)
    return all_are_deleted


_AT_ONCE: Final = Terms(timeout_ms=0)
_CHECKED_AT_ONCE: Final = 16
"""Topics of a request. To say what was meant by a misspelt setting takes half a millisecond."""


class LocalTopics:
    """The `Administration` of a broker that runs alone. Its own methods return what the others pass to `then`."""

    def __init__(
        self,
        runtime: Runtime,
        partitions: Partitions,
        store: EmbeddedMetadataStore,
        coordinators: Coordinators,
        stepping: Stepping,
    ) -> None:
        self._broker_id = runtime.broker_id
        self._config = runtime.config
        self._partitions = partitions
        self._store = store
        self._coordinators = coordinators
        self._stepping = stepping
        self._half_gone: set[str] = set()
        """Topics whose deletion failed: no client sees them, but the store and the disk may still have them."""
        self._coming: set[str] = set()
        """Topics that are in the store and whose partitions are being opened, in slices."""
        self._marking: set[str] = set()
        """Topics that are being marked for deletion, and are there as before."""
        self._going: set[str] = set()
        """Topics that are marked for deletion and whose partitions are being deleted, in slices."""

    @property
    def is_controller(self) -> bool:
        return True

    # Administration: all work is done before the answer, whatever the time-out. Large topics come and go in slices.

    def create_topics(
        self, wanted: Sequence[NewTopic], terms: Terms, then: Callable[[list[CreatedTopic | Problem]], None]
    ) -> None:
        def steps() -> Steps[None]:
            results = yield from self._create(wanted, terms)
            then(
                [
                    result
                    if isinstance(result, Problem)
                    else CreatedTopic(
                        result.name,
                        None if terms.validate_only else result.topic_id,
                        result.partition_count,
                        1,
                        result.config,
                    )
                    for result in results
                ]
            )

        self._stepping.run(steps())

    def add_partitions(self, wanted: Sequence[MorePartitions], terms: Terms, then: Callable[[Outcomes], None]) -> None:
        then([self.grow(topic, terms) for topic in paced(wanted)])

    def delete_topics(self, names: Sequence[str], terms: Terms, then: Callable[[Outcomes], None]) -> None:
        def steps() -> Steps[None]:
            results: Outcomes = []
            for number, name in enumerate(names):
                result = yield from self._delete(name, terms.charge)
                results.append(result)
                if number % FEW_ITEMS == FEW_ITEMS - 1:
                    yield None  # Names that no topic has take no step of their own.
            then(results)

        self._stepping.run(steps())

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        election_type: ElectionType,
        timeout_ms: int,
        then: Callable[[PartitionOutcomes], None],
    ) -> None:
        """This broker leads every partition and is its only replica, so no election is ever needed."""
        not_needed = Problem(ErrorCode.election_not_needed, "The leader is the only replica.")
        then({key: self._unknown_partition(key) or not_needed for key in paced(partitions or ())})

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, list[int] | None],
        then: Callable[[PartitionOutcomes], None],
        *,
        may_change_replication_factor: bool = True,
    ) -> None:
        """This broker is the only one, so the only valid target is the present replica: nothing moves."""
        then(
            {key: self._unknown_partition(key) or self._check_move(replicas) for key, replicas in paced(wanted.items())}
        )

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None, then: Callable[[Reassignments], None]
    ) -> None:
        then({})

    def _unknown_partition(self, key: TopicPartition) -> Problem | None:
        if self._partitions.find(*key) is not None:
            return None
        return Problem(ErrorCode.unknown_topic_or_partition, "The partition does not exist.")

    def _check_move(self, replicas: list[int] | None) -> Problem | None:
        if replicas is None:
            return Problem(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
        if not replicas:
            reason = "Empty replica list specified in partition reassignment."
        elif len(set(replicas)) < len(replicas):
            reason = f"Duplicate replica ids in partition reassignment replica list: {replicas}"
        elif replicas != [self._broker_id]:
            reason = f"Replica assignment has brokers that are not alive: {replicas}"
        else:
            return None
        return Problem(ErrorCode.invalid_replica_assignment, reason)

    # At once

    def create(self, wanted: NewTopic) -> Topic | Problem:
        return self.create_all([wanted])[0]

    def create_all(self, wanted: Sequence[NewTopic]) -> list[Topic | Problem]:
        """Create topics. A refused topic does not stop the others."""
        return run(self._create(wanted, _AT_ONCE))

    def is_coming(self, name: str) -> bool:
        """Whether the topic is being created."""
        return name in self._coming

    def _create(self, wanted: Sequence[NewTopic], terms: Terms) -> Steps[list[Topic | Problem]]:
        """Create topics, a step for each partition."""
        validate_only = terms.validate_only
        results: list[Topic | Problem] = []
        records: list[TopicRecord] = []
        partition_count = 0
        names: dict[str, str] = {}
        for number, topic in enumerate(wanted):
            if not number % _CHECKED_AT_ONCE:
                if number:
                    yield None
                # Other requests may have created topics meanwhile.
                names |= self._names()
            if topic.name in self._half_gone - self._going and not validate_only:
                run(self._abandon(topic.name))
            assignment = self._assign(topic, names)
            if isinstance(assignment, Problem):
                results.append(assignment)
                continue
            partition_count += len(assignment)
            if partition_count > MAX_PARTITIONS_PER_REQUEST:
                results.append(too_many_partitions(partition_count))
                continue
            if not validate_only and (problem := terms.charge(len(assignment))):
                results.append(problem)
                continue
            record = TopicRecord(topic.name, random_topic_id(), assignment, topic.overrides)
            records.append(record)
            if not validate_only:
                self._coming.add(record.name)
            results.append(Topic(record, TopicConfig(self._config, record.config), TopicCounters()))
            names[metric_name(topic.name)] = topic.name
        if validate_only or not records:
            return results
        try:
            yield from self._store.putting_topics(records)
        except OSError as error:
            self._coming.difference_update(record.name for record in records)
            return [result if isinstance(result, Problem) else _cannot_write(result.name, error) for result in results]
        opened = {}
        for record in records:
            opened[record.name] = yield from self._open_new_topic(record)
            self._coming.discard(record.name)
        return [result if isinstance(result, Problem) else opened[result.name] for result in results]

    def _names(self) -> dict[str, str]:
        """Return the topics that are there or coming, by their metric names."""
        names = {metric_name(name): name for name in self._coming}
        return names | {metric_name(topic.name): topic.name for topic in self._partitions.topics()}

    def create_all_by_default(self, names: Iterable[str]) -> dict[str, Topic | Problem]:
        """Create topics on first use, with the defaults, in one write."""
        wanted = [self._by_default(name) for name in names]
        return {topic.name: result for topic, result in zip(wanted, self.create_all(wanted), strict=True)}

    def begin_by_default(self, names: Sequence[str]) -> None:
        """The same in steps, some of them after this returns."""

        def steps() -> Steps[None]:
            yield from self._create([self._by_default(name) for name in names], _AT_ONCE)

        self._stepping.run(steps())

    def _by_default(self, name: str) -> NewTopic:
        plan = plan_of(name, self._config)
        if plan is None:
            return NewTopic(name)
        partition_count, replication_factor, overrides = plan.for_one_broker()
        return NewTopic(name, partition_count, replication_factor, config=overrides)

    def _open_new_topic(self, record: TopicRecord) -> Steps[Topic | Problem]:
        try:
            yield from self._partitions.open_topic(record, self._store.leader_epoch)
        except OSError as error:
            yield from self._abandon(record.name)
            return _cannot_write(record.name, error)
        topic = self._partitions.topic(record.name)
        assert topic is not None, "it was just opened"
        _logger.info("created topic %s with %d partitions", topic.name, topic.partition_count)
        for warning in topic_override_warnings(record.config):
            _logger.warning("topic %s: %s", topic.name, warning)
        self._coordinators.take_up(topic)
        return topic

    def _assign(self, wanted: NewTopic, names: Mapping[str, str]) -> Problem | dict[int, list[int]]:
        """Return the replicas of each partition of a new topic, or why it cannot be created beside those of `names`."""
        if problem := check_new_topic(wanted, names):
            return problem
        if wanted.name in self._half_gone or wanted.name in self._store.topics_marked_for_deletion():
            return marked_for_deletion(wanted.name)
        if wanted.assignment:
            return self._check_assignment(wanted.assignment, first=0)
        count, replication_factor = wanted.counts(self._config)
        if count <= 0:
            return Problem(ErrorCode.invalid_partitions, "Number of partitions must be larger than 0.")
        if count > MAX_PARTITIONS_PER_REQUEST:
            return too_many_partitions(count)
        if replication_factor <= 0:
            return Problem(ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0.")
        if replication_factor > 1:
            return Problem(
                ErrorCode.invalid_replication_factor,
                f"Replication factor: {replication_factor} larger than available brokers: 1.",
            )
        return {partition: [self._broker_id] for partition in range(count)}

    def _check_assignment(self, assignment: Mapping[int, list[int]], *, first: int) -> Problem | dict[int, list[int]]:
        if len(assignment) > MAX_PARTITIONS_PER_REQUEST:
            return too_many_partitions(len(assignment))
        if sorted(assignment) != list(range(first, first + len(assignment))):
            return Problem(
                ErrorCode.invalid_replica_assignment,
                f"The assignment must name the partitions from {first} on without gaps.",
            )
        for partition, replicas in assignment.items():
            if replicas != [self._broker_id]:
                return Problem(
                    ErrorCode.invalid_replica_assignment,
                    f"Partition {partition} is assigned to brokers {replicas}; the only broker is {self._broker_id}.",
                )
        return dict(sorted(assignment.items()))

    def grow(self, wanted: MorePartitions, terms: Terms = _AT_ONCE) -> Problem | None:
        name, total, assignments = wanted
        topic = self._partitions.topic(name)
        if topic is None:
            return unknown_topic(name)
        current = len(topic.partitions)
        if problem := check_growth(current, total):
            return problem
        if assignments is not None and len(assignments) != total - current:
            return Problem(
                ErrorCode.invalid_replica_assignment,
                f"{len(assignments)} assignments provided for {total - current} new partitions.",
            )
        added = self._check_assignment(
            dict(enumerate(assignments, current))
            if assignments is not None
            else {partition: [self._broker_id] for partition in range(current, total)},
            first=current,
        )
        if isinstance(added, Problem) or terms.validate_only:
            return added if isinstance(added, Problem) else None
        if problem := terms.charge(len(added)):
            return problem
        record = next(record for record in self._store.topics() if record.name == name)
        record = record._replace(assignment={**record.assignment, **added})
        try:
            self._store.put_topics([record])
            run(self._partitions.open_partitions(topic, record, self._store.leader_epoch))
        except OSError as error:
            _logger.error("cannot add partitions to topic %s: %s", name, error)
            return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
        return None

    def delete(self, name: str) -> Problem | None:
        return run(self._delete(name, free_of_charge))

    def _delete(self, name: str, charge: Charge) -> Steps[Problem | None]:
        """Delete a topic, a step for each partition."""
        topic = self._partitions.topic(name)
        if topic is None or name in self._marking:
            return UNKNOWN_TOPIC
        if not self._config.boolean("delete.topic.enable"):
            return DELETION_DISABLED
        if problem := charge(topic.partition_count):
            return problem
        try:
            self._marking.add(name)
            try:
                yield from self._store.marking_for_deletion(name)
            finally:
                self._marking.discard(name)
            yield from self._partitions.forget_topic(topic)
            self._coordinators.topic_deleted(name)
            self._half_gone.add(name)
            yield from self._remove(name)
        except OSError as error:
            _logger.error("cannot delete topic %s: %s; the next start tries again", name, error)
            return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
        _logger.info("deleted topic %s", name)
        return None

    def _remove(self, name: str) -> Steps[None]:
        self._going.add(name)
        try:
            if (yield from _remove_topic(self._partitions, self._store, name)):
                self._half_gone.discard(name)
        finally:
            self._going.discard(name)

    def _abandon(self, name: str) -> Steps[None]:
        """Delete a topic of which some folder could not be created or deleted."""
        self._half_gone.add(name)
        try:
            self._store.mark_for_deletion(name)
            yield from self._remove(name)
        except OSError as error:
            _logger.error("cannot take back topic %s: %s; the next start tries again", name, error)


def _cannot_write(topic: str, error: OSError) -> Problem:
    _logger.error("cannot create topic %s: %s", topic, error)
    return Problem(ErrorCode.kafka_storage_error, f"The broker could not write: {error.strerror}")
