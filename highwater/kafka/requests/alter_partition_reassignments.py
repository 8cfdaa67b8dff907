"""AlterPartitionReassignments: begins moves of replicas, or ends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.requests.answered import RETRIED, Answered, by_topic, text_of


def alter_partition_reassignments(
    replicas: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> Request[Answered]:
    """None ends the move of a partition: it stays where it was."""

    def read(answer: Any) -> Answered:
        errors = {
            (each.name, one.partition_index): text_of(one.error_code, one.error_message)
            for each in answer.responses
            for one in each.partitions
        }
        return Answered(answer.error_code in RETRIED, text_of(answer.error_code, answer.error_message), errors)

    topics = [
        {
            "name": topic,
            "partitions": [{"partition_index": number, "replicas": replicas[topic, number]} for number in numbers],
        }
        for topic, numbers in by_topic(replicas).items()
    ]
    return cold_request("alter_partition_reassignments", 0, 0, {"timeout": timeout_ms, "topics": topics}, read)
