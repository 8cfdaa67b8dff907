"""Creates, grows and deletes topics of a cluster, like Kafka's ZkAdminManager and AdminZkClient.

A change is written to ZooKeeper, where the controller sees and executes it; the answer waits until this
broker has received the outcome (UpdateMetadata), or until the time is up. Only the broker that is the
controller does this; other brokers answer NOT_CONTROLLER.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler
from highwater.broker.cluster import znodes
from highwater.broker.cluster.metadata import MetadataCache
from highwater.broker.cluster.state import NO_LEADER, ReplicaAssignment
from highwater.broker.cluster.zookeeper import (
    Check,
    Children,
    Create,
    Exists,
    Get,
    Multi,
    Set,
    ZooKeeperError,
)
from highwater.broker.cluster.zookeeper import (
    NodeData as Znode,
)
from highwater.broker.controller.assignment import assign_replicas, check_assignment
from highwater.broker.controller.context import ControllerContext
from highwater.broker.controller.departures import when_departed
from highwater.broker.controller.storage import ControllerMoved, Rounds, ask, children, write
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.config import BrokerConfig, TopicConfig, topic_override_warnings
from highwater.broker.topics.administration import (
    DELETION_DISABLED,
    MAX_PARTITIONS_PER_REQUEST,
    NOT_CONTROLLER,
    UNKNOWN_TOPIC,
    Charge,
    CreatedTopic,
    ElectionType,
    MorePartitions,
    NewTopic,
    Outcomes,
    PartitionOutcomes,
    Reassignment,
    Reassignments,
    Terms,
    check_growth,
    check_new_topic,
    free_of_charge,
    marked_for_deletion,
    too_many_partitions,
    unknown_topic,
)
from highwater.broker.topics.topic import random_topic_id
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.topic_names import metric_name, topic_name_problem

if TYPE_CHECKING:
    from highwater.broker.controller.controller import Controller

_logger = logging.getLogger(__name__)

_TIMED_OUT: Final = Problem(ErrorCode.request_timed_out, "The request timed out.")


class ClusterAdministration:
    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        cluster: MetadataCache,
        controller: Controller,
        random: Random,
    ) -> None:
        """`random` selects the first broker of an assignment."""
        self._config = config
        self._scheduler = scheduler
        self._cluster = cluster
        self._controller = controller
        self._random = random

    @property
    def is_controller(self) -> bool:
        return self._controller.is_active

    # Creation

    def create_topics(
        self, wanted: Sequence[NewTopic], terms: Terms, then: Callable[[list[CreatedTopic | Problem]], None]
    ) -> None:
        submit = partial(self._submit_creation, wanted, terms, then)
        names = {topic.name for topic in wanted}
        when_departed(names, lambda: self._controller.context, self._scheduler, terms.timeout_ms, submit)

    def _submit_creation(
        self,
        wanted: Sequence[NewTopic],
        terms: Terms,
        then: Callable[[list[CreatedTopic | Problem]], None],
        timeout_ms: int,
    ) -> None:
        """timeout_ms: what is left of that of the terms."""

        def written(results: list[CreatedTopic | Problem]) -> None:
            made = [result for result in results if isinstance(result, CreatedTopic) and result.topic_id is not None]

            def answer() -> None:
                then([_TIMED_OUT if result in made and not self._has_leaders(result) else result for result in results])

            self._wait(lambda: all(map(self._has_leaders, made)), timeout_ms, answer)

        moved: list[CreatedTopic | Problem] = [NOT_CONTROLLER] * len(wanted)
        self._controller.submit(lambda term: self._create(term.context, wanted, terms), written, if_moved=moved)

    def _create(
        self, context: ControllerContext, wanted: Sequence[NewTopic], terms: Terms
    ) -> Rounds[list[CreatedTopic | Problem]]:
        named = [topic.name for topic in wanted if topic_name_problem(topic.name) is None]
        topics, marked, *configs = yield from ask(
            [
                Children(metadata_tree.TOPICS),
                Children(metadata_tree.DELETE_TOPICS),
                *(Exists(metadata_tree.topic_config_path(name)) for name in named),
            ]
        )
        names = {metric_name(name): name for name in children(metadata_tree.TOPICS, topics)}
        to_delete = set(children(metadata_tree.DELETE_TOPICS, marked))
        with_config = {
            name for name, found in zip(named, configs, strict=True) if not isinstance(found, ZooKeeperError)
        }
        results: list[CreatedTopic | Problem] = []
        assignments: dict[str, dict[int, list[int]]] = {}
        for topic in wanted:
            if topic.name in to_delete:
                results.append(marked_for_deletion(topic.name))
                continue
            assignment = check_new_topic(topic, names) or self._assign(topic)
            if isinstance(assignment, Problem):
                results.append(assignment)
                continue
            count = sum(map(len, assignments.values())) + len(assignment)
            if count > MAX_PARTITIONS_PER_REQUEST:
                results.append(too_many_partitions(count))
                continue
            if not terms.validate_only and (problem := terms.charge(len(assignment))):
                results.append(problem)
                continue
            assignments[topic.name] = assignment
            names[metric_name(topic.name)] = topic.name
            results.append(
                CreatedTopic(
                    topic.name,
                    None if terms.validate_only else random_topic_id(),
                    len(assignment),
                    len(assignment[0]),
                    TopicConfig(self._config, topic.overrides),
                )
            )
        if not terms.validate_only:
            created = [result for result in results if isinstance(result, CreatedTopic)]
            failed = yield from _write_topics(context, created, assignments, with_config)
            results = [
                failed.get(result.name, result) if isinstance(result, CreatedTopic) else result for result in results
            ]
        return results

    def _assign(self, wanted: NewTopic) -> Problem | dict[int, list[int]]:
        if wanted.assignment:
            return check_assignment(wanted.assignment)
        count, replication_factor = wanted.counts(self._config)
        if count > MAX_PARTITIONS_PER_REQUEST:
            return too_many_partitions(count)
        return assign_replicas(self._racks(), count, replication_factor, self._random)

    def _racks(self) -> dict[int, str | None]:
        return {broker.broker_id: broker.rack for broker in self._cluster.brokers()}

    def _has_leaders(self, topic: CreatedTopic) -> bool:
        known = self._cluster.topic(topic.name)
        return known is not None and known.topic_id == topic.topic_id and self._led(topic.name, topic.partition_count)

    def _led(self, name: str, count: int) -> bool:
        return all(
            (partition := self._cluster.partition(name, index)) is not None and partition.leader != NO_LEADER
            for index in range(count)
        )

    # Growth

    def add_partitions(self, wanted: Sequence[MorePartitions], terms: Terms, then: Callable[[Outcomes], None]) -> None:
        def written(results: Outcomes) -> None:
            if terms.validate_only:
                then(results)
                return
            grown = [topic for topic, problem in zip(wanted, results, strict=True) if problem is None]

            def answer() -> None:
                then(
                    [
                        _TIMED_OUT if problem is None and not self._led(topic.name, topic.total) else problem
                        for topic, problem in zip(wanted, results, strict=True)
                    ]
                )

            self._wait(lambda: all(self._led(topic.name, topic.total) for topic in grown), terms.timeout_ms, answer)

        moved: Outcomes = [NOT_CONTROLLER] * len(wanted)
        self._controller.submit(lambda term: self._grow_all(term.context, wanted, terms), written, if_moved=moved)

    def _grow_all(self, context: ControllerContext, wanted: Sequence[MorePartitions], terms: Terms) -> Rounds[Outcomes]:
        results: dict[str, Problem | None] = {}
        left = list(wanted)
        while left:
            found = yield from ask([Get(znodes.topic_path(topic.name)) for topic in left])
            writes: dict[str, Set] = {}
            for topic, znode in zip(left, found, strict=True):
                # What was charged in the round before is not charged again.
                is_free = terms.validate_only or topic.name in results
                change = self._grow(context, topic, znode, free_of_charge if is_free else terms.charge)
                results[topic.name] = change if isinstance(change, Problem) else None
                if not isinstance(change, Problem) and not terms.validate_only:
                    writes[topic.name] = change
            outcomes = dict(zip(writes, (yield from write(context, list(writes.values()))), strict=True))
            # The topic was changed meanwhile: read it again.
            left = [topic for topic in left if outcomes.get(topic.name) is ZooKeeperError.BAD_VERSION]
            for name, outcome in outcomes.items():
                if isinstance(outcome, ZooKeeperError):
                    results[name] = _zookeeper_refused(outcome)
        return [results[topic.name] for topic in wanted]

    def _grow(self, context: ControllerContext, wanted: MorePartitions, znode: Any, charge: Charge) -> Problem | Set:
        name, total, assignments = wanted
        if not isinstance(znode, Znode):
            return unknown_topic(name)
        if context.is_to_be_deleted(name):
            return Problem(ErrorCode.invalid_topic_exception, "The topic is queued for deletion.")
        try:
            topic_id, present = znodes.read(znode.data, znodes.parse_assigned_topic)
        except ValueError as error:
            return Problem(ErrorCode.unknown_server_error, f"{znodes.topic_path(name)}: {error}")
        if any(assignment.is_being_reassigned for assignment in present.values()):
            return Problem(
                ErrorCode.reassignment_in_progress,
                f"A partition reassignment is in progress for the topic '{name}'.",
            )
        current = len(present)
        if problem := check_growth(current, total):
            return problem
        added = self._assign_more(present, total - current, assignments)
        if isinstance(added, Problem):
            return added
        if problem := charge(len(added)):
            return problem
        grown = {**present, **{index: ReplicaAssignment(tuple(replicas)) for index, replicas in added.items()}}
        value = znodes.encode(znodes.assigned_topic_value(topic_id or context.topics[name].topic_id, grown))
        return Set(znodes.topic_path(name), value, znode.stat.version)

    def _assign_more(
        self, present: Mapping[int, ReplicaAssignment], count: int, assignments: list[list[int]] | None
    ) -> Problem | dict[int, list[int]]:
        racks = self._racks()
        first = present[0].replicas
        if assignments is None:
            line = sorted(racks)
            start = next((place for place, broker in enumerate(line) if broker >= first[0]), 0)
            return assign_replicas(racks, count, len(first), start, first_partition=len(present))
        unknown = {broker for replicas in assignments for broker in replicas} - racks.keys()
        if unknown:
            reason = f"Unknown broker(s) in replica assignment: {_listed(sorted(unknown))}."
        elif len(assignments) != count:
            reason = f"Increasing the number of partitions by {count} but {len(assignments)} assignments provided."
        elif twice := next((replicas for replicas in assignments if len(set(replicas)) < len(replicas)), None):
            reason = f"Duplicate brokers not allowed in replica assignment: {_listed(twice)}."
        elif uneven := next((replicas for replicas in assignments if len(replicas) != len(first)), None):
            reason = (
                "Inconsistent replication factor between partitions, "
                f"partition 0 has {len(first)} while {_listed(uneven)} are {len(uneven)}."
            )
        elif [] in assignments:
            reason = "Cannot have replication factor of 0."
        else:
            return dict(enumerate(assignments, len(present)))
        return Problem(ErrorCode.invalid_replica_assignment, reason)

    # Deletion

    def delete_topics(self, names: Sequence[str], terms: Terms, then: Callable[[Outcomes], None]) -> None:
        def written(results: Outcomes) -> None:
            marked = {name for name, problem in zip(names, results, strict=True) if problem is None}

            def answer() -> None:
                there = {name for name in marked if self._cluster.topic(name) is not None}
                then([_TIMED_OUT if name in there else problem for name, problem in zip(names, results, strict=True)])

            self._wait(lambda: all(self._cluster.topic(name) is None for name in marked), terms.timeout_ms, answer)

        moved: Outcomes = [NOT_CONTROLLER] * len(names)
        self._controller.submit(lambda term: self._mark(term.context, names, terms.charge), written, if_moved=moved)

    def _mark(self, context: ControllerContext, names: Sequence[str], charge: Charge) -> Rounds[Outcomes]:
        if not self._config.boolean("delete.topic.enable"):
            return [DELETION_DISABLED] * len(names)
        refused: dict[str, Problem] = {}
        known = []
        for name in dict.fromkeys(names):
            topic = self._cluster.topic(name)
            if topic is None:
                refused[name] = UNKNOWN_TOPIC
            elif problem := charge(len(topic.partitions)):
                refused[name] = problem
            else:
                known.append(name)
        results = yield from write(context, [Create(znodes.delete_topic_path(name)) for name in known])
        outcomes = dict(zip(known, results, strict=True))
        # A second request for the same deletion waits for the first one.
        for name, outcome in outcomes.items():
            if isinstance(outcome, ZooKeeperError) and outcome is not ZooKeeperError.NODE_EXISTS:
                refused[name] = _zookeeper_refused(outcome)
        return [refused.get(name) for name in names]

    # Elections and reassignments

    def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None,
        election_type: ElectionType,
        timeout_ms: int,
        then: Callable[[PartitionOutcomes], None],
    ) -> None:
        wanted = self._all_partitions() if partitions is None else list(dict.fromkeys(partitions))

        def elected(outcomes: Mapping[TopicPartition, int | Problem]) -> None:
            leaders = {key: outcome for key, outcome in outcomes.items() if not isinstance(outcome, Problem)}

            def is_told(key: TopicPartition) -> bool:
                partition = self._cluster.partition(*key)
                return partition is not None and partition.leader == leaders[key]

            def answer() -> None:
                results: dict[TopicPartition, Problem | None] = {
                    key: outcome
                    for key, outcome in outcomes.items()
                    if isinstance(outcome, Problem)
                    and (partitions is not None or outcome.error_code is not ErrorCode.election_not_needed)
                }
                then(results | {key: None if is_told(key) else _TIMED_OUT for key in leaders})

            self._wait(lambda: all(map(is_told, leaders)), timeout_ms, answer)

        self._controller.elect_leaders(wanted, election_type, elected)

    def _all_partitions(self) -> list[TopicPartition]:
        return [(topic.name, index) for topic in self._cluster.topics() for index in topic.partitions]

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, list[int] | None],
        then: Callable[[PartitionOutcomes], None],
        *,
        may_change_replication_factor: bool = True,
    ) -> None:
        self._controller.alter_reassignments(wanted, then, may_change_replication_factor)

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None, then: Callable[[Reassignments], None]
    ) -> None:
        context = self._controller.context
        if context is None:
            then(NOT_CONTROLLER)
            return
        keys: Iterable[TopicPartition] = sorted(context.reassigning) if partitions is None else partitions
        then(
            {
                key: Reassignment(*map(list, found.assignment))
                for key in keys
                if (found := context.get(key)) is not None and found.assignment.is_being_reassigned
            }
        )

    def _wait(self, is_done: Callable[[], bool], timeout_ms: int, then: Callable[[], None]) -> None:
        """Call `then` when the metadata of this broker shows the change, or when the time is up."""
        if timeout_ms <= 0 or is_done():
            then()
            return

        def look() -> None:
            if is_done():
                finish()

        def finish() -> None:
            timer.cancel()
            stop_looking()
            then()

        timer = self._scheduler.call_later(timeout_ms, finish)
        stop_looking = self._cluster.when_changed(look)


def _write_topics(
    context: ControllerContext,
    topics: Sequence[CreatedTopic],
    assignments: Mapping[str, Mapping[int, list[int]]],
    with_config: set[str],
) -> Rounds[dict[str, Problem]]:
    """Write each topic and its settings in one transaction, so that an existing topic keeps its settings."""
    transactions = []
    for topic in topics:
        path, config = (
            metadata_tree.topic_config_path(topic.name),
            znodes.encode(metadata_tree.config_value(topic.config.overrides)),
        )
        value = metadata_tree.topic_value(_id_of(topic), assignments[topic.name])
        transactions.append(
            _fenced(
                context,
                Set(path, config) if topic.name in with_config else Create(path, config),
                Create(znodes.topic_path(topic.name), znodes.encode(value)),
            )
        )
    results = yield from ask(transactions)
    failed = {
        topic.name: outcome
        for topic, result in zip(topics, results, strict=True)
        if (outcome := _failure(result)) is not None
    }
    # After a broken connection the transaction is sent again, and may find the topic that it created.
    found = yield from ask([Get(znodes.topic_path(name)) for name in failed])
    there = dict(zip(failed, found, strict=True))
    problems = {}
    for topic in topics:
        if topic.name in failed and _topic_id(there[topic.name]) != topic.topic_id:
            problems[topic.name] = (
                Problem(ErrorCode.topic_already_exists, f"Topic '{topic.name}' already exists.")
                if isinstance(there[topic.name], Znode)
                else _zookeeper_refused(failed[topic.name])
            )
            continue
        _logger.info(
            "created topic %s with %d partitions of %d replicas",
            topic.name,
            topic.partition_count,
            topic.replication_factor,
        )
        for warning in topic_override_warnings(topic.config.overrides, is_of_a_cluster=True):
            _logger.warning("topic %s: %s", topic.name, warning)
    return problems


def _id_of(topic: CreatedTopic) -> UUID:
    assert topic.topic_id is not None, "what is only to be validated is not written"
    return topic.topic_id


def _topic_id(znode: Any) -> UUID | None:
    return znodes.read(znode.data, znodes.parse_assigned_topic)[0] if isinstance(znode, Znode) else None


def _fenced(context: ControllerContext, *requests: Create | Set) -> Multi:
    return Multi((Check(metadata_tree.CONTROLLER_EPOCH, context.epoch_version), *requests))


def _failure(result: Any) -> ZooKeeperError | None:
    """Return why a transaction of `_fenced` failed, or None. Raises ControllerMoved."""
    if isinstance(result, ZooKeeperError):
        return result
    check, *outcomes = result
    if check is not None and check is not ZooKeeperError.ROLLED_BACK:
        raise ControllerMoved("another controller was elected")
    failures = [outcome for outcome in outcomes if isinstance(outcome, ZooKeeperError)]
    return next((failure for failure in failures if failure is not ZooKeeperError.ROLLED_BACK), None)


def _zookeeper_refused(error: ZooKeeperError) -> Problem:
    return Problem(ErrorCode.unknown_server_error, f"ZooKeeper did not take it: {error.value}")


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))
