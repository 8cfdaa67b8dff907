"""Asks the leader of a partition where its log starts and ends (ListOffsets)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.peers import Peer, PeerFailure, ask
from highwater.common.topic_partition import TopicPartition
from highwater.kafka.protocol.apis import LIST_OFFSETS

_VERSION: Final = 7
_EARLIEST: Final = -2
_LATEST: Final = -1


def ask_for_log_bounds(
    peer: Peer,
    key: TopicPartition,
    then: Callable[[tuple[int, int] | ErrorCode], None],
    *,
    leader_epoch: int,
    broker_id: int,
    timeout_ms: int,
) -> None:
    """Call back once with (start offset, end offset) of the log in this leader epoch, or with the first error."""
    topic, index = key
    found: dict[int, int] = {}
    has_failed = False

    def answered(timestamp: int, answer: Any | PeerFailure) -> None:
        nonlocal has_failed
        error_code, offset = _offset_in(answer)
        if has_failed:
            return
        if error_code:
            has_failed = True
            then(error_code)
            return
        found[timestamp] = offset
        if len(found) == 2:
            then((found[_EARLIEST], found[_LATEST]))

    for timestamp in (_EARLIEST, _LATEST):
        partition = {"partition_index": index, "current_leader_epoch": leader_epoch, "timestamp": timestamp}
        request = {"replica_id": broker_id, "topics": [{"name": topic, "partitions": [partition]}]}
        ask(peer, LIST_OFFSETS, _VERSION, request, partial(answered, timestamp), timeout_ms=timeout_ms)


def _offset_in(answer: Any | PeerFailure) -> tuple[ErrorCode, int]:
    """Return (error, offset) of the one partition in an answer."""
    if isinstance(answer, PeerFailure):
        return ErrorCode.network_exception, -1
    for topic in answer.topics:
        for partition in topic.partitions:
            return partition.error_code, partition.offset
    return ErrorCode.unknown_server_error, -1
