"""ListPartitionReassignments: the moves of replicas that are under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.requests.answered import RETRIED, text_of


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
    error_code: ErrorCode
    message: str
    moves: Mapping[TopicPartition, Move]

    @property
    def is_elsewhere(self) -> bool:
        """Another broker is the controller by now."""
        return self.error_code in RETRIED

    @property
    def error(self) -> str:
        return text_of(self.error_code, self.message)


def list_partition_reassignments(timeout_ms: int) -> Request[Moves]:
    def read(answer: Any) -> Moves:
        moves = {
            (topic.name, each.partition_index): Move(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }
        return Moves(answer.error_code, answer.error_message or "", moves)

    return cold_request("list_partition_reassignments", 0, 0, {"timeout": timeout_ms, "topics": None}, read)
