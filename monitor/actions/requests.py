"""The requests of actions and their answers as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.requests.answered import RETRIED, Answered, by_topic, text_of

SET: Final = 0
DELETE: Final = 1
_NO_MEMBER: Final = -1


def offset_commit(group: str, offsets: Mapping[TopicPartition, int]) -> Request[Answered]:
    """Return a commit that names no member: a coordinator accepts it only while the group has no members."""

    def read(answer: Any) -> Answered:
        codes = {(each.name, one.partition_index): one.error_code for each in answer.topics for one in each.partitions}
        is_elsewhere = bool(codes) and set(codes.values()) <= RETRIED
        return Answered(is_elsewhere, "", {key: text_of(code) for key, code in codes.items()})

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
        for topic, numbers in by_topic(offsets).items()
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
            (int(each.resource_type), each.resource_name): text_of(each.error_code, each.error_message)
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
