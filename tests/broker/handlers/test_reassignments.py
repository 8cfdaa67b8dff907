"""Moving partitions where there is one broker; electing leaders."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import NodeHarness, versions


@pytest.mark.parametrize("version", versions("elect_leaders"))
def test_no_election_is_ever_needed(node: NodeHarness, version: int) -> None:
    node.create_topic("t", 2)
    wanted = [{"topic": "t", "partitions": [1, 2]}]
    (result,) = node.ask("elect_leaders", version, topic_partitions=wanted, timeout=1000).replica_election_results
    assert [(entry.partition_id, entry.error_code) for entry in result.partition_result] == [
        (1, ErrorCode.election_not_needed),
        (2, ErrorCode.unknown_topic_or_partition),
    ]
    assert node.ask("elect_leaders", version, topic_partitions=None, timeout=1000).replica_election_results == ()


def test_no_partition_is_moving(node: NodeHarness) -> None:
    answer = node.ask("list_partition_reassignments", 0, topics=None, timeout=1000)
    assert (answer.error_code, answer.topics) == (ErrorCode.none, ())


@pytest.mark.parametrize("version", versions("alter_partition_reassignments"))
@pytest.mark.parametrize(
    ("topic", "replicas", "error"),
    [
        ("t", [0], ErrorCode.none),
        ("t", None, ErrorCode.no_reassignment_in_progress),
        ("t", [], ErrorCode.invalid_replica_assignment),
        ("t", [0, 0], ErrorCode.invalid_replica_assignment),
        ("t", [1], ErrorCode.invalid_replica_assignment),
        ("t", [0, 1], ErrorCode.invalid_replica_assignment),
        ("other", [0], ErrorCode.unknown_topic_or_partition),
    ],
)
def test_a_partition_can_only_be_where_it_is(
    node: NodeHarness, version: int, topic: str, replicas: list[int] | None, error: ErrorCode
) -> None:
    node.create_topic("t")
    wanted: dict[str, Any] = {"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}
    rule = {"allow_replication_factor_change": False} if version >= 1 else {}
    answer = node.ask("alter_partition_reassignments", version, topics=[wanted], timeout=1000, **rule)
    assert answer.error_code == ErrorCode.none
    assert getattr(answer, "allow_replication_factor_change", False) is False
    (told,) = answer.responses
    assert (told.name, told.partitions[0].error_code) == (topic, error)
    assert (told.partitions[0].error_message is None) == (error is ErrorCode.none)
