"""The requests of the client and the answers to them as values: bytes out, bytes in, no sockets. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.protocol.primitives import error_code_of
from highwater.kafka.requests.broker_error import LEFT_OUT, BrokerError
from highwater.kafka.requests.broker_error import error_of as _error
from highwater.kafka.requests.list_offsets import ListedOffsets
from highwater.kafka.requests.list_offsets import list_offsets as list_offsets_of
from highwater.pipeline.kafka.model import (
    Appended,
    Cluster,
    CommittedOffset,
    Edge,
    ListedOffset,
    PartitionMetadata,
    Producer,
    Topic,
)

_NO_GENERATION: Final = -1
_TIMESTAMP_MAX: Final = 2**63 - 1


def metadata(topics: Collection[str] | None) -> Request[Cluster]:
    """Ask for the metadata of these topics, or of all. Does not create topics."""
    fields = {
        "topics": None if topics is None else [{"name": name} for name in sorted(topics)],
        "allow_auto_topic_creation": False,
    }

    def read(answer: Any) -> Cluster:
        return Cluster(
            answer.cluster_id,
            {each.node_id: (each.host, each.port) for each in answer.brokers},
            {each.name: _topic(each) for each in answer.topics if each.name is not None},
        )

    return cold_request("metadata", 4, 12, fields, read)


def _topic(answer: Any) -> Topic:
    partitions = {
        each.partition_index: PartitionMetadata(
            each.leader_id if each.leader_id >= 0 else None, getattr(each, "leader_epoch", -1)
        )
        for each in answer.partitions
    }
    return Topic(
        answer.name, getattr(answer, "topic_id", None), answer.is_internal, partitions, _error(answer.error_code)
    )


def list_offsets(
    wanted: Mapping[TopicPartition, tuple[Edge | int, int]], *, read_committed: bool
) -> Request[ListedOffsets]:
    """`wanted`: (edge or time in ms, leader epoch or −1) of partitions with one leader.

    A time up to 0 is no bound: it lists the first offset, also of a record without a time.
    """
    rows = {
        topic: [(number, epoch, _timestamp(at)) for number, (at, epoch) in partitions.items()]
        for topic, partitions in _by_topic(wanted).items()
    }
    return list_offsets_of(rows, read_committed=read_committed)


def listed(answer: ListedOffsets, of: TopicPartition) -> ListedOffset | BrokerError:
    found = answer.get(of[0], {}).get(of[1])
    if found is None:
        return LEFT_OUT
    return _error(error_code_of(found.error_code)) or ListedOffset(
        found.offset if found.offset >= 0 else None, found.timestamp_ms, found.leader_epoch
    )


def _timestamp(at: Edge | int) -> int:
    """Kafka gives negative timestamps meanings of their own, and adds to them with each version."""
    if not isinstance(at, Edge):
        if at > 0:
            return min(at, _TIMESTAMP_MAX)
        at = Edge.EARLIEST
    return at.value


Value = TypeVar("Value")


def _by_topic(partitions: Mapping[TopicPartition, Value]) -> dict[str, dict[int, Value]]:
    found: defaultdict[str, dict[int, Value]] = defaultdict(dict)
    for (topic, partition), value in sorted(partitions.items(), key=lambda item: item[0]):
        found[topic][partition] = value
    return found


PartitionErrors = dict[TopicPartition, BrokerError]
"""The errors of the partitions that failed."""


def offset_commit(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> Request[PartitionErrors]:
    """Commit offsets for a group without members."""
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": _NO_GENERATION,
        "topics": _committed(offsets),
    }

    def read(answer: Any) -> PartitionErrors:
        return _errors(offsets, answer.topics)

    return cold_request("offset_commit", 5, 8, fields, read)


def _committed(offsets: Mapping[TopicPartition, CommittedOffset]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": each.offset,
                    "committed_leader_epoch": each.leader_epoch,
                    "committed_metadata": each.metadata,
                }
                for partition, each in partitions.items()
            ],
        }
        for topic, partitions in _by_topic(offsets).items()
    ]


def _errors(asked: Collection[TopicPartition], topics: Any) -> PartitionErrors:
    codes = {(topic.name, each.partition_index): each.error_code for topic in topics for each in topic.partitions}
    found = {each: _error(codes[each]) if each in codes else LEFT_OUT for each in asked}
    return {partition: error for partition, error in found.items() if error is not None}


def offset_fetch(
    group: str, partitions: Collection[TopicPartition] | None, *, require_stable: bool
) -> Request[dict[TopicPartition, CommittedOffset | BrokerError] | BrokerError]:
    """None asks for all partitions with a committed offset. Partitions without one are not in the answer.

    `require_stable`: UNSTABLE_OFFSET_COMMIT while a transaction with offsets of the group is open (KIP-447).
    """
    topics = None
    if partitions is not None:
        named = _by_topic(dict.fromkeys(partitions))
        topics = [{"name": topic, "partition_indexes": list(numbers)} for topic, numbers in named.items()]

    def read(answer: Any) -> dict[TopicPartition, CommittedOffset | BrokerError] | BrokerError:
        if error := _error(answer.error_code):
            return error
        return {
            (topic.name, each.partition_index): _error(each.error_code)
            or CommittedOffset(each.committed_offset, each.metadata or "", each.committed_leader_epoch)
            for topic in answer.topics
            for each in topic.partitions
            if each.committed_offset >= 0 or each.error_code is not ErrorCode.none
        }

    fields: dict[str, Any] = {"group_id": group, "topics": topics, "require_stable": require_stable}
    return cold_request("offset_fetch", 7 if require_stable else 5, 7, fields, read)


def init_producer_id(
    transactional_id: str | None, transaction_timeout_ms: int, known: Producer | None = None
) -> Request[Producer | BrokerError]:
    """Ends what an earlier producer with the transactional id left open, and fences that producer.

    `known`: fails with PRODUCER_FENCED if another has the transactional id by now (KIP-360).
    """

    def read(answer: Any) -> Producer | BrokerError:
        return _error(answer.error_code) or Producer(answer.producer_id, answer.producer_epoch)

    fields = {
        "transactional_id": transactional_id,
        "transaction_timeout": transaction_timeout_ms,
        "producer_id": -1 if known is None else known.producer_id,
        "producer_epoch": -1 if known is None else known.epoch,
    }
    return cold_request("init_producer_id", 0 if known is None else 3, 4, fields, read)


def add_partitions_to_txn(
    transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
) -> Request[PartitionErrors]:
    topics = [
        {"name": topic, "partitions": list(numbers)} for topic, numbers in _by_topic(dict.fromkeys(partitions)).items()
    ]
    fields = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": topics,
    }

    def read(answer: Any) -> PartitionErrors:
        codes = {
            (topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        found = {each: _error(codes[each]) if each in codes else LEFT_OUT for each in partitions}
        return {partition: error for partition, error in found.items() if error is not None}

    return cold_request("add_partitions_to_txn", 0, 3, fields, read)


def add_offsets_to_txn(transactional_id: str, producer: Producer, group: str) -> Request[BrokerError | None]:
    return cold_request(
        "add_offsets_to_txn", 0, 3, _of_transaction(transactional_id, producer) | {"group_id": group}, _error_of
    )


def _of_transaction(transactional_id: str, producer: Producer) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
    }


def _error_of(answer: Any) -> BrokerError | None:
    return _error(answer.error_code)


def txn_offset_commit(
    transactional_id: str, producer: Producer, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> Request[PartitionErrors]:
    fields = {
        **_of_transaction(transactional_id, producer),
        "group_id": group,
        "generation_id": _NO_GENERATION,
        "topics": _committed(offsets),
    }

    def read(answer: Any) -> PartitionErrors:
        return _errors(offsets, answer.topics)

    return cold_request("txn_offset_commit", 0, 3, fields, read)


def end_txn(transactional_id: str, producer: Producer, *, commit: bool) -> Request[BrokerError | None]:
    fields = _of_transaction(transactional_id, producer) | {"committed": commit}
    return cold_request("end_txn", 0, 3, fields, _error_of)


def produce(
    batches: Mapping[TopicPartition, bytes], *, transactional_id: str | None, timeout_ms: int
) -> Request[dict[TopicPartition, Appended | BrokerError]]:
    """A batch for each of these partitions of one leader, acknowledged by all in-sync replicas."""
    fields = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": timeout_ms,
        "topic_data": [
            {
                "name": topic,
                "partition_data": [{"index": partition, "records": batch} for partition, batch in partitions.items()],
            }
            for topic, partitions in _by_topic(batches).items()
        ],
    }

    def read(answer: Any) -> dict[TopicPartition, Appended | BrokerError]:
        found: dict[TopicPartition, Appended | BrokerError] = dict.fromkeys(batches, LEFT_OUT)
        for topic in answer.responses:
            for each in topic.partition_responses:
                found[topic.name, each.index] = _error(
                    each.error_code, getattr(each, "error_message", None)
                ) or Appended(each.base_offset, each.log_append_time)
        return found

    return cold_request("produce", 3, 9, fields, read)
