"""AlterPartition (KIP-497): the controller changes in-sync replicas at the request of leaders.

In Kafka's ZooKeeper mode this is KafkaController.processAlterPartition.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import LeaderAndIsr
from highwater.broker.controller.storage import Rounds, write_states
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol import cold

if TYPE_CHECKING:
    from highwater.broker.controller.term import Term

_logger = logging.getLogger(__name__)

_TOPIC_IDS_SINCE = 2
_BROKER_EPOCHS_SINCE = 3
_UNKNOWN_EPOCH = -1

Changes = dict[TopicPartition, tuple[LeaderAndIsr, Mapping[int, int]]]
"""The state that is wanted, and the epochs of the replicas that shall be in sync, where the leader sends them."""


def alter_partitions(term: Term, request: Any, version: int) -> Rounds[cold.Answer]:
    """The answer to a request; the brokers get the state of the partitions in it, whatever became of them."""
    broker = term.context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return {"error_code": ErrorCode.stale_broker_epoch}
    outcomes: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
    unknown: dict[UUID | None, list[int]] = {}
    accepted: dict[TopicPartition, LeaderAndIsr] = {}
    for key, (wanted, epochs) in _changes(term, request, version, unknown).items():
        outcome = _judge(term, key, wanted, epochs, version)
        if outcome is None:
            accepted[key] = wanted
        else:
            outcomes[key] = outcome
    written = yield from write_states(term.context, accepted)
    outcomes |= written.done
    outcomes |= dict.fromkeys(written.changed, ErrorCode.invalid_update_version)
    for key, reason in written.failed.items():
        _logger.error("cannot change the in-sync replicas of %s-%d: %s", *key, reason)
        outcomes[key] = ErrorCode.unknown_server_error
    term.batch.add_update_metadata(term.context.brokers, outcomes)
    term.batch.send()
    complete = [key for key in written.done if key in term.context.reassigning]
    if complete:
        term.submit(term.reassignments.maybe_complete(*complete))
    return _answer(term, outcomes, unknown)


def _changes(term: Term, request: Any, version: int, unknown: dict[UUID | None, list[int]]) -> Changes:
    changes: Changes = {}
    for topic in request.topics:
        name = term.context.topic_name(topic.topic_id) if version >= _TOPIC_IDS_SINCE else topic.topic_name
        if name is None:
            unknown[topic.topic_id] = [partition.partition_index for partition in topic.partitions]
            continue
        for partition in topic.partitions:
            if version >= _BROKER_EPOCHS_SINCE:
                epochs = {replica.broker_id: replica.broker_epoch for replica in partition.new_isr_with_epochs}
            else:
                epochs = dict.fromkeys(partition.new_isr, _UNKNOWN_EPOCH)
            wanted = LeaderAndIsr(
                request.broker_id,
                partition.leader_epoch,
                tuple(epochs),
                term.context.epoch,
                partition.partition_epoch,
                is_recovering=version > 0 and partition.leader_recovery_state == 1,
            )
            changes[name, partition.partition_index] = wanted, epochs
    return changes


def _judge(
    term: Term, key: TopicPartition, wanted: LeaderAndIsr, epochs: Mapping[int, int], version: int
) -> LeaderAndIsr | ErrorCode | None:
    """Why a change is refused, or the state that has it already; None if it is to be written."""
    current = term.context.leadership(key)
    if current is None:
        return ErrorCode.unknown_topic_or_partition
    if wanted.partition_epoch > current.partition_epoch or wanted.leader_epoch > current.leader_epoch:
        # The leader has a newer state than we do: another controller sent it.
        return ErrorCode.not_controller
    if wanted.leader_epoch < current.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if _is_equal(wanted, current):
        # Before the partition epochs are compared: the answer to an earlier request may have been lost.
        return current
    if wanted.partition_epoch < current.partition_epoch:
        return ErrorCode.invalid_update_version
    if wanted.is_recovering and (len(wanted.in_sync_replicas) > 1 or not current.is_recovering):
        return ErrorCode.invalid_request
    brokers = term.context.brokers
    for replica, epoch in epochs.items():
        # KIP-841; the epoch by KIP-903: a replica that started anew since it caught up may have lost what it had.
        if not term.context.is_live(replica) or epoch not in (_UNKNOWN_EPOCH, brokers[replica].epoch):
            return ErrorCode.ineligible_replica if version > 1 else ErrorCode.operation_not_attempted
    return None


def _is_equal(wanted: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    """LeaderAndIsr.equalsAllowStalePartitionEpoch."""
    return wanted._replace(partition_epoch=0, controller_epoch=0) == current._replace(
        partition_epoch=0, controller_epoch=0
    )


def _answer(
    term: Term, outcomes: Mapping[TopicPartition, LeaderAndIsr | ErrorCode], unknown: Mapping[UUID | None, list[int]]
) -> cold.Answer:
    topics: dict[str, list[cold.Answer]] = {}
    for (name, index), outcome in outcomes.items():
        if isinstance(outcome, LeaderAndIsr):
            partition: cold.Answer = {
                "partition_index": index,
                "leader_id": outcome.leader,
                "leader_epoch": outcome.leader_epoch,
                "isr": outcome.in_sync_replicas,
                "leader_recovery_state": int(outcome.is_recovering),
                "partition_epoch": outcome.partition_epoch,
            }
        else:
            partition = {"partition_index": index, "error_code": outcome}
        topics.setdefault(name, []).append(partition)
    known = [
        {
            "topic_name": name,
            "topic_id": term.context.topics[name].topic_id if name in term.context.topics else None,
            "partitions": partitions,
        }
        for name, partitions in topics.items()
    ]
    strangers = [
        {
            "topic_id": topic_id,
            "partitions": [
                {"partition_index": index, "error_code": ErrorCode.unknown_topic_id} for index in partitions
            ],
        }
        for topic_id, partitions in unknown.items()
    ]
    return {"topics": known + strangers}
