"""The requests of actions and their answers as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request, error_text

PREFERRED: Final = 0
UNCLEAN: Final = 1
SET: Final = 0
DELETE: Final = 1
_GROUP: Final = 0
_NO_MEMBER: Final = -1
_RETRIED: Final = (
    ErrorCode.not_controller,
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
)


class Answered(NamedTuple):
    is_elsewhere: bool
    """Another broker is the controller or the coordinator by now, or it is just starting."""
    error: str
    """The error of the whole request; empty if there is none."""
    errors: Mapping[TopicPartition, str]
    """The error of each partition, empty if it was done; partitions that needed nothing are left out."""


def _text(code: ErrorCode, message: str | None = None) -> str:
    return "" if code is ErrorCode.none else error_text(code, message)


def elect_leaders(kind: int, partitions: Sequence[TopicPartition], timeout_ms: int) -> Request[Answered]:
    def read(answer: Any) -> Answered:
        errors = {
            (each.topic, one.partition_id): _text(one.error_code, one.error_message)
            for each in answer.replica_election_results
            for one in each.partition_result
            if one.error_code is not ErrorCode.election_not_needed
        }
        # A controller that is none any more says so of each partition.
        codes = {one.error_code for each in answer.replica_election_results for one in each.partition_result}
        is_elsewhere = answer.error_code in _RETRIED or (bool(codes) and codes <= set(_RETRIED))
        return Answered(is_elsewhere, _text(answer.error_code), errors)

    topics = [{"topic": topic, "partitions": numbers} for topic, numbers in _by_topic(partitions).items()]
    fields = {"election_type": kind, "topic_partitions": topics, "timeout": timeout_ms}
    return cold_request("elect_leaders", 1, 2, fields, read)


def alter_partition_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> Request[Answered]:
    """None ends the move of a partition: it stays where it was."""

    def read(answer: Any) -> Answered:
        errors = {
            (each.name, one.partition_index): _text(one.error_code, one.error_message)
            for each in answer.responses
            for one in each.partitions
        }
        return Answered(answer.error_code in _RETRIED, _text(answer.error_code, answer.error_message), errors)

    topics = [
        {
            "name": topic,
            "partitions": [{"partition_index": number, "replicas": replicas[topic, number]} for number in numbers],
        }
        for topic, numbers in _by_topic(tuple(replicas)).items()
    ]
    return cold_request("alter_partition_reassignments", 0, 0, {"timeout": timeout_ms, "topics": topics}, read)


def offset_commit(group: str, offsets: Mapping[TopicPartition, int]) -> Request[Answered]:
    """Return a commit that names no member: a coordinator accepts it only while the group has no members."""

    def read(answer: Any) -> Answered:
        codes = {(each.name, one.partition_index): one.error_code for each in answer.topics for one in each.partitions}
        is_elsewhere = bool(codes) and set(codes.values()) <= set(_RETRIED)
        return Answered(is_elsewhere, "", {key: _text(code) for key, code in codes.items()})

    def entry(topic: str, number: int) -> dict[str, Any]:
        offset = offsets[topic, number]
        return {
            "partition_index": number,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }

    topics = [
        {"name": topic, "partitions": [entry(topic, number) for number in numbers]}
        for topic, numbers in _by_topic(tuple(offsets)).items()
    ]
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": _NO_MEMBER,
        "member_id": "",
        "group_instance_id": None,
        "topics": topics,
    }
    return cold_request("offset_commit", 5, 8, fields, read)


Resource = tuple[int, str]
"""Its type and its name, as in DescribeConfigs."""
Settings = Mapping[str, str | None]
"""None resets a setting to its default."""


def incremental_alter_configs(
    resources: Mapping[Resource, Settings], *, is_trial: bool
) -> Request[dict[Resource, str]]:
    """The answer has the error of each resource, empty if it was done.

    is_trial: the broker says whether it would, and changes nothing.
    """

    def read(answer: Any) -> dict[Resource, str]:
        return {
            (int(each.resource_type), each.resource_name): _text(each.error_code, each.error_message)
            for each in answer.responses
        }

    def entry(name: str, value: str | None) -> dict[str, Any]:
        return {"name": name, "config_operation": DELETE if value is None else SET, "value": value}

    fields = {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [entry(setting, value) for setting, value in settings.items()],
            }
            for (kind, name), settings in resources.items()
        ],
        "validate_only": is_trial,
    }
    return cold_request("incremental_alter_configs", 0, 1, fields, read)


class Move(NamedTuple):
    """A move of one partition that is under way."""

    replicas: tuple[int, ...]
    """All that it has now, those that it gets and those that it loses too."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def origin(self) -> list[int]:
        return [each for each in self.replicas if each not in self.adding]

    @property
    def target(self) -> list[int]:
        return [each for each in self.replicas if each not in self.removing]


class Moves(NamedTuple):
    is_elsewhere: bool
    error: str
    moves: Mapping[TopicPartition, Move]


def list_moves(timeout_ms: int) -> Request[Moves]:
    def read(answer: Any) -> Moves:
        moves = {
            (topic.name, each.partition_index): Move(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }
        return Moves(answer.error_code in _RETRIED, _text(answer.error_code, answer.error_message), moves)

    return cold_request("list_partition_reassignments", 0, 0, {"timeout": timeout_ms, "topics": None}, read)


class Coordinator(NamedTuple):
    error: str
    is_starting: bool
    host: str
    port: int


def find_coordinator(group: str) -> Request[Coordinator]:
    def read(answer: Any) -> Coordinator:
        is_starting = answer.error_code in _RETRIED
        return Coordinator(_text(answer.error_code, answer.error_message), is_starting, answer.host, answer.port)

    return cold_request("find_coordinator", 1, 3, {"key": group, "key_type": _GROUP}, read)


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
