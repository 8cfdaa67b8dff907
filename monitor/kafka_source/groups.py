"""Groups of a coordinator with their members, read by hand. Pure.

ListGroups v3 to v5: v4 + state, v5 + type (KIP-848). DescribeGroups v5. ConsumerGroupDescribe v0 for groups of KIP-848.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any, Final, NamedTuple

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.primitives import Decoder, MalformedRequestError
from highwater.monitor.model import Member

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_CONSUMER_PROTOCOLS: Final = ("consumer", "")
"""The empty one is of groups that only commit: their consumers chose partitions with assign()."""
_LIST_STATES_FROM: Final = 4
_LIST_TYPES_FROM: Final = 5
_DESCRIBE_VERSION: Final = 5


class ListedGroup(NamedTuple):
    name: str
    state: str
    """Empty from brokers that do not say."""
    kind: str


class ListedGroups(NamedTuple):
    error_code: int
    groups: list[ListedGroup]
    """Groups of consumers; those of Kafka Connect and the like have no commits."""


def list_groups() -> Request[ListedGroups]:
    return Request(
        "list_groups", 3, 5, lambda version: cold.encode_request("list_groups", version, {}), _decode_list_groups
    )


def _decode_list_groups(decoder: Decoder, version: int) -> ListedGroups:
    decoder.int32()  # throttle time
    error_code = decoder.int16()
    groups = []
    for _ in range(decoder.array_length()):
        name, protocol = decoder.string(), decoder.string()
        state = decoder.string() if version >= _LIST_STATES_FROM else ""
        kind = (decoder.string().lower() if version >= _LIST_TYPES_FROM else "") or CLASSIC
        decoder.skip_tags()
        if kind != CLASSIC or protocol in _CONSUMER_PROTOCOLS:
            groups.append(ListedGroup(name, state, kind))
    return ListedGroups(error_code, groups)


class DescribedGroup(NamedTuple):
    error_code: int
    state: str
    assignor: str
    members: tuple[Member, ...]


def describe_groups(groups: Collection[str]) -> Request[dict[str, DescribedGroup]]:
    """Return a request that describes classic groups."""
    fields = {"groups": tuple(groups), "include_authorized_operations": False}
    return Request(
        "describe_groups",
        _DESCRIBE_VERSION,
        _DESCRIBE_VERSION,
        lambda version: cold.encode_request("describe_groups", version, fields),
        _decode_describe_groups,
    )


def _decode_describe_groups(decoder: Decoder, version: int) -> dict[str, DescribedGroup]:
    decoder.int32()  # throttle time
    found = {}
    for _ in range(decoder.array_length()):
        error_code, name, state = decoder.int16(), decoder.string(), decoder.string()
        _, assignor = decoder.string(), decoder.string()
        members = tuple([_member(decoder) for _ in range(decoder.array_length())])
        decoder.int32()  # authorized operations
        decoder.skip_tags()
        found[name] = DescribedGroup(error_code, state, assignor, members)
    return found


def _member(decoder: Decoder) -> Member:
    member_id, instance_id = decoder.string(), decoder.nullable_string() or ""
    client_id, host = decoder.string(), decoder.string()
    decoder.nullable_bytes()  # its subscription
    assignment = decoder.nullable_bytes()
    decoder.skip_tags()
    return Member(member_id, client_id, _host(host), instance_id, assigned_to(assignment) if assignment else ())


def assigned_to(assignment: memoryview) -> tuple[TopicPartition, ...]:
    """Read a ConsumerProtocolAssignment; empty for one of another protocol, as members may write what they like."""
    decoder = Decoder(assignment)
    found = []
    try:
        decoder.int16()  # version
        for _ in range(decoder.array_length()):
            topic = decoder.string()
            found += [(topic, partition) for partition in decoder.int32_array() or ()]
    except (MalformedRequestError, struct.error):
        return ()
    return tuple(sorted(found))


def consumer_group_describe(groups: Collection[str]) -> Request[dict[str, DescribedGroup]]:
    """Return a request that describes groups of KIP-848."""

    def read(answer: Any) -> dict[str, DescribedGroup]:
        return {
            each.group_id: DescribedGroup(
                each.error_code.value,
                each.group_state,
                each.assignor_name,
                tuple([_consumer_member(member) for member in each.members]),
            )
            for each in answer.groups
        }

    return cold_request("consumer_group_describe", 0, 0, {"group_ids": tuple(groups)}, read)


def _consumer_member(member: Any) -> Member:
    assigned, target = _partitions(member.assignment), _partitions(member.target_assignment)
    return Member(
        member.member_id,
        member.client_id,
        _host(member.client_host),
        member.instance_id or "",
        tuple(sorted(assigned)),
        tuple(sorted(target - assigned)),
    )


def _partitions(assignment: Any) -> set[TopicPartition]:
    return {(topic.topic_name, partition) for topic in assignment.topic_partitions for partition in topic.partitions}


def _host(text: str) -> str:
    """Kafka writes the slash of Java's addresses before it."""
    return text.removeprefix("/")
