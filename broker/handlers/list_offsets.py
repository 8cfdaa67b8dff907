"""ListOffsets: v0-v11 (key 2)

Behaviour:
* Timestamp -2 asks for the log start offset, -1 for the end that the reader may read, -3 for the record of the largest
  timestamp (KIP-734), -4 for the earliest offset that is not tiered (KIP-405), which is the log start offset here.
* Timestamp -5 asks for the latest offset that is tiered (KIP-1005), -6 for the earliest that waits to be tiered
  (KIP-1023). No record is tiered: offset -1, timestamp -1.
* Any other negative timestamp: UNSUPPORTED_VERSION for the partition, as Kafka answers.
* A timestamp later than every record that the reader may read: offset -1, timestamp -1.
* A partition named twice: INVALID_REQUEST for it, except in v0, where each is answered.
* Only the leader answers, except to tools, whose replica id is -2. For followers the end is the log end offset.
* A damaged log: CORRUPT_MESSAGE; a disk that cannot be read: KAFKA_STORAGE_ERROR.
* A new leader may not know the high watermark of its predecessor yet: OFFSET_NOT_AVAILABLE for the end and for offsets
  that may be above it, LEADER_NOT_AVAILABLE up to v4 (KIP-207).

Versions: v0 returns up to the requested number of offsets, the newest first: the segments' base offsets, and the end.
Kafka uses segments whose files were last modified before the timestamp; this broker uses offsets up to the first record
that is not before it, as a copied file has the time of the copy. v2 brings the isolation level, v4 the leader epoch,
checked as in Fetch; v7 brings -3, v8 -4, v9 -5, v11 -6; v10 brings a time-out for tiered records, which is not used.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.log.errors import CorruptIndex
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.topics.refusal import refusal
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.fetch import READ_COMMITTED
from highwater.kafka.records.batch import CorruptBatch

_logger = logging.getLogger(__name__)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
DEBUGGING_REPLICA_ID: Final = -2

_SPECIAL_FROM: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    read_committed = context.version >= 2 and request.isolation_level == READ_COMMITTED
    named = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)

    def answer(topic: str, wanted: Any) -> Answer:
        index = {"partition_index": wanted.partition_index}
        if named[topic, wanted.partition_index] > 1 and context.version >= 1:
            return index | _error(ErrorCode.invalid_request)
        partition = node.partitions.find(topic, wanted.partition_index)
        if partition is None:
            return index | _error(refusal(node.partitions, node.cluster, topic, wanted.partition_index))
        return index | _answer(partition, wanted, request.replica_id, read_committed, context.version)

    return {
        "topics": [
            {"name": topic.name, "partitions": [answer(topic.name, wanted) for wanted in topic.partitions]}
            for topic in request.topics
        ]
    }


def _answer(partition: Partition, wanted: Any, replica_id: int, read_committed: bool, version: int) -> Answer:
    leader_epoch = wanted.current_leader_epoch if version >= 4 else -1
    if error := partition.check_leader_epoch(leader_epoch, needs_leader=replica_id != DEBUGGING_REPLICA_ID):
        answer = _error(error)
    else:
        answer = _look_up(partition, wanted.timestamp, replica_id, read_committed, version)
    if version >= 1:
        return answer
    offsets = [] if "error_code" in answer else _up_to(partition, answer["offset"])
    return {
        "error_code": answer.get("error_code", ErrorCode.none),
        "old_style_offsets": offsets[: max(wanted.max_num_offsets, 0)],
    }


def _up_to(partition: Partition, found: int) -> list[int]:
    """Return the offsets of v0 up to `found`, the newest first; all of them if it is -1: no record is late enough."""
    log = partition.log
    end = partition.high_watermark
    begins = [max(offset, log.log_start_offset) for offset in log.segment_base_offsets]
    last = end if found == -1 else found
    offsets = {offset for offset in begins if offset <= last} | ({end} if last == end else set())
    return sorted(offsets, reverse=True)


def _look_up(partition: Partition, timestamp_ms: int, replica_id: int, read_committed: bool, version: int) -> Answer:
    if timestamp_ms < 0 and _SPECIAL_FROM.get(timestamp_ms, version + 1) > version:
        return _error(ErrorCode.unsupported_version)
    log = partition.log
    end_offset = partition.last_stable_offset if read_committed else partition.high_watermark
    is_unsure = replica_id < 0 and not partition.has_caught_up_with_consumers
    unsure = ErrorCode.offset_not_available if version >= 5 else ErrorCode.leader_not_available
    if replica_id >= 0:
        end_offset = log.log_end_offset
    if timestamp_ms == LATEST:
        if is_unsure:
            return _error(unsure)
        return {"timestamp": -1, "offset": end_offset, "leader_epoch": partition.leader_epoch}
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return _found(partition, -1, log.log_start_offset)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _found(partition, -1, -1)
    try:
        found = (
            log.max_timestamp() if timestamp_ms == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp_ms, end_offset)
        )
    except (OSError, CorruptBatch, CorruptIndex) as damage:
        _logger.error("cannot look up a timestamp in %s-%d: %s", partition.topic, partition.index, damage)
        return _error(ErrorCode.kafka_storage_error if isinstance(damage, OSError) else ErrorCode.corrupt_message)
    if found is None or found[1] >= end_offset:
        if is_unsure:
            return _error(unsure)
        return {"timestamp": -1, "offset": -1, "leader_epoch": -1}
    return _found(partition, *found)


def _found(partition: Partition, timestamp_ms: int, offset: int) -> Answer:
    epoch = -1 if offset == -1 else partition.epoch_of(offset)
    return {"timestamp": timestamp_ms, "offset": offset, "leader_epoch": epoch}


def _error(error_code: ErrorCode) -> Answer:
    return {"error_code": error_code, "timestamp": -1, "offset": -1, "leader_epoch": -1}
