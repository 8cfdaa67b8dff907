"""What a controller or a coordinator answered to a change, as texts for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from highwater.common.topic_partition import TopicPartition
from highwater.kafka.client.request import error_text

RETRIED: Final = frozenset(
    {
        ErrorCode.not_controller,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    }
)
"""Another broker is the controller or the coordinator by now, or it is just starting."""


class Answered(NamedTuple):
    is_elsewhere: bool
    """Whether all that failed is in RETRIED."""
    error: str
    """The error of the whole request; empty if there is none."""
    errors: Mapping[TopicPartition, str]
    """The error of each partition, empty if it was done; partitions that needed nothing are left out."""


def text_of(code: ErrorCode, message: str | None = None) -> str:
    return "" if code is ErrorCode.none else error_text(code, message)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
