"""Transactions that are open in partitions, and what coordinators know of them (KIP-664). Pure.

DescribeProducers v0, read by hand, as a partition may have had many producers: a producer is [id i64, epoch i32,
    last sequence i32, last timestamp i64, coordinator epoch i32, start offset of its open transaction i64 or -1].
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder
from highwater.monitor.model import OpenTransaction

MOST_PARTITIONS: Final = 100
"""That are asked for in one tick."""
_MOST_OF_PARTITION: Final = 10
"""Those that began first: they hold the others up."""
_PRODUCER: Final = struct.Struct(">qiiqiq")
_NO_TRANSACTION: Final = -1
_UNKNOWN_TIME: Final = -1
PROBE: Final = "highwater-monitor-asks-for-its-rights"
"""A transactional id that nobody has. Coordinators leave out of their lists what the monitor's user may not see, and
do not say so; they refuse this one if there may be such ids."""


class OpenProducer(NamedTuple):
    """A producer with an open transaction in a partition."""

    start_offset: int
    producer_id: int
    producer_epoch: int
    last_written_ms: int


class Producers(NamedTuple):
    error_code: int
    message: str
    open: tuple[OpenProducer, ...]
    """The first ones, in the order of their start offsets."""


def describe_producers(partitions: Mapping[str, Collection[int]]) -> Request[dict[TopicPartition, Producers]]:
    """Return a request for the producers of one leader's partitions."""
    topics = [{"name": topic, "partition_indexes": tuple(numbers)} for topic, numbers in partitions.items()]

    def encode(version: int) -> bytes:
        return cold.encode_request("describe_producers", version, {"topics": topics})

    return Request("describe_producers", 0, 0, encode, _decode_producers)


def _decode_producers(decoder: Decoder, version: int) -> dict[TopicPartition, Producers]:
    decoder.int32()  # throttle time
    found = {}
    fields, skip_tags = decoder.fields, decoder.skip_tags
    for _ in range(decoder.array_length()):
        topic = decoder.string()
        for _ in range(decoder.array_length()):
            number, error_code, message = decoder.int32(), decoder.int16(), decoder.nullable_string() or ""
            opened = []
            for _ in range(decoder.array_length(_PRODUCER.size)):
                producer_id, epoch, _, last_written_ms, _, start_offset = fields(_PRODUCER)
                skip_tags()
                if start_offset != _NO_TRANSACTION:
                    opened.append(OpenProducer(start_offset, producer_id, epoch, last_written_ms))
            skip_tags()
            found[topic, number] = Producers(error_code, message, tuple(sorted(opened)[:_MOST_OF_PARTITION]))
        skip_tags()
    return found


class ListedTransactions(NamedTuple):
    error_code: int
    transactional_ids: dict[int, str]
    """Transactional ids by producer id."""


def list_transactions(producer_ids: Iterable[int]) -> Request[ListedTransactions]:
    """Return a request that lists one coordinator's transactions."""

    def read(answer: Any) -> ListedTransactions:
        listed = {each.producer_id: each.transactional_id for each in answer.transaction_states}
        return ListedTransactions(answer.error_code.value, listed)

    fields = {"state_filters": (), "producer_id_filters": tuple(sorted(producer_ids))}
    return cold_request("list_transactions", 0, 0, fields, read)


class DescribedTransaction(NamedTuple):
    error_code: int
    producer_id: int
    state: str
    timeout_ms: int
    started_ms: int | None
    partitions: frozenset[TopicPartition]


def describe_transactions(transactional_ids: Iterable[str]) -> Request[dict[str, DescribedTransaction]]:
    """Return a request that describes one coordinator's transactions."""

    def read(answer: Any) -> dict[str, DescribedTransaction]:
        return {each.transactional_id: _described(each) for each in answer.transaction_states}

    return cold_request("describe_transactions", 0, 0, {"transactional_ids": tuple(transactional_ids)}, read)


def _described(each: Any) -> DescribedTransaction:
    started = each.transaction_start_time
    return DescribedTransaction(
        each.error_code.value,
        each.producer_id,
        each.transaction_state,
        cold.milliseconds(each.transaction_timeout),
        None if started == _UNKNOWN_TIME else started,
        frozenset((topic.topic, number) for topic in each.topics for number in topic.partitions),
    )


class CoordinatorTransactions(NamedTuple):
    """What one coordinator said of some producers."""

    node_id: int
    listed: Mapping[int, str]
    described: Mapping[str, DescribedTransaction]


def is_whole(coordinator: CoordinatorTransactions) -> bool:
    """Whether it described every transactional id that it listed, or no longer has it."""
    told = (ErrorCode.none.value, ErrorCode.transactional_id_not_found.value)
    described = [coordinator.described.get(name) for name in coordinator.listed.values()]
    return all(each is not None and each.error_code in told for each in described)


def may_see_all(described: Mapping[str, DescribedTransaction]) -> bool:
    """Whether the answer for PROBE shows that the monitor's user may see every transactional id."""
    probe = described.get(PROBE)
    return probe is not None and probe.error_code != ErrorCode.transactional_id_authorization_failed.value


def unknown_to(
    producers: Mapping[TopicPartition, Producers], coordinators: Collection[CoordinatorTransactions]
) -> set[TopicPartition]:
    """Partitions with a transaction that no coordinator has: to be looked at again, as it may just have ended."""
    return {
        key
        for key, found in producers.items()
        if any(_coordinated(key, each, coordinators)[1] is None for each in found.open)
    }


def open_transactions(
    producers: Mapping[TopicPartition, Producers],
    coordinators: Collection[CoordinatorTransactions],
    still: Mapping[TopicPartition, Producers],
    *,
    is_complete: bool,
) -> tuple[OpenTransaction, ...]:
    """Join what leaders and coordinators said.

    still: what leaders said of the partitions of `unknown_to` after the coordinators had answered. is_complete: all
    coordinators answered, and said all that they know.
    """
    made = []
    for key, found in sorted(producers.items()):
        for each in found.open:
            listed, described = _coordinated(key, each, coordinators)
            is_known: bool | None = True if described is not None else None
            if described is None and is_complete and key in still:
                if each.start_offset not in _starts(still[key], each.producer_id):
                    continue  # it ended while it was asked for
                is_known = False
            made.append(
                OpenTransaction(
                    *key,
                    each.start_offset,
                    each.producer_id,
                    each.producer_epoch,
                    each.last_written_ms,
                    is_known,
                    "" if listed is None else listed.listed[each.producer_id],
                    None if listed is None else listed.node_id,
                    "" if described is None else described.state,
                    None if described is None else described.timeout_ms,
                    None if described is None else described.started_ms,
                )
            )
    return tuple(made)


def _coordinated(
    key: TopicPartition, producer: OpenProducer, coordinators: Collection[CoordinatorTransactions]
) -> tuple[CoordinatorTransactions | None, DescribedTransaction | None]:
    """The coordinator that lists the producer, and its transaction if this partition is in it."""
    listing = None
    for each in coordinators:
        name = each.listed.get(producer.producer_id)
        if name is None:
            continue
        listing = each
        described = each.described.get(name)
        if described is not None and described.producer_id == producer.producer_id and key in described.partitions:
            return each, described
    return listing, None


def _starts(producers: Producers, producer_id: int) -> AbstractSet[int]:
    return {each.start_offset for each in producers.open if each.producer_id == producer_id}
