"""ElectLeaders: the preferred leaders, or leaders that are not in sync."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.requests.answered import RETRIED, Answered, by_topic, text_of

PREFERRED: Final = 0
UNCLEAN: Final = 1


def elect_leaders(kind: int, partitions: Iterable[TopicPartition], timeout_ms: int) -> Request[Answered]:
    def read(answer: Any) -> Answered:
        errors = {
            (each.topic, one.partition_id): text_of(one.error_code, one.error_message)
            for each in answer.replica_election_results
            for one in each.partition_result
            if one.error_code is not ErrorCode.election_not_needed
        }
        # A controller that is none any more says so of each partition.
        codes = {one.error_code for each in answer.replica_election_results for one in each.partition_result}
        is_elsewhere = answer.error_code in RETRIED or (bool(codes) and codes <= RETRIED)
        return Answered(is_elsewhere, text_of(answer.error_code), errors)

    topics = [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic(partitions).items()]
    fields = {"election_type": kind, "topic_partitions": topics, "timeout": timeout_ms}
    return cold_request("elect_leaders", 1, 2, fields, read)
