"""Settings of groups (resource type 32, KIP-848): set, described, listed, kept, and in force at the next heartbeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.broker.group.asking import GroupHarness
from tests.broker.handlers.harness import NodeHarness

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT, ASSIGNMENT = (
    f"consumer.{name}.ms" for name in ("session.timeout", "heartbeat.interval", "assignment.interval")
)
OF_GROUP, OF_BROKER, DEFAULT = 8, 4, 5


def alter(node: NodeHarness, name: str, *changes: tuple[str, int, str | None], **fields: Any) -> Any:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": GROUP, "resource_name": name, "configs": configs}
    (answer,) = node.ask("incremental_alter_configs", 1, resources=[resource], **fields).responses
    return answer


def described(node: NodeHarness, name: str) -> dict[str, tuple[str, int]]:
    resource = {"resource_type": GROUP, "resource_name": name, "configuration_keys": None}
    (result,) = node.ask("describe_configs", 4, resources=[resource]).results
    assert result.error_code == ErrorCode.none
    return {entry.name: (entry.value, entry.config_source) for entry in result.configs}


def listed(node: NodeHarness, *types: int) -> list[tuple[str, int]]:
    answer = node.ask("list_config_resources", 1, resource_types=types)
    return [(resource.resource_name, resource.resource_type) for resource in answer.config_resources]


def interval_told(node: GroupHarness, group_id: str = "g") -> float:
    answer = node.beat("m", group=group_id)
    assert answer.error_code == ErrorCode.none
    return float(answer.heartbeat_interval.total_seconds())


def test_a_group_has_settings_of_its_own(node: NodeHarness) -> None:
    """Also one that does not exist; what it does not have is the broker's."""
    assert alter(node, "a / g", (HEARTBEAT, SET, "10000")).error_code == ErrorCode.none
    assert described(node, "a / g") == {
        SESSION: ("45000", DEFAULT),
        HEARTBEAT: ("10000", OF_GROUP),
        ASSIGNMENT: ("1000", DEFAULT),
    }
    assert described(node, "other")[HEARTBEAT] == ("5000", DEFAULT)
    assert listed(node, GROUP) == [("a / g", GROUP)]
    assert ("a / g", GROUP) in listed(node)
    assert alter(node, "a / g", (HEARTBEAT, DELETE, None)).error_code == ErrorCode.none
    assert listed(node, GROUP) == []


def test_they_are_in_force_at_the_next_heartbeat_and_after_a_restart(tmp_path: Path) -> None:
    node = GroupHarness(tmp_path / "log")
    node.find()
    assert interval_told(node) == 5
    alter(node, "g", (HEARTBEAT, SET, "10000"))
    assert (interval_told(node), interval_told(node, "other")) == (10, 5)
    node.close()
    node = GroupHarness(tmp_path / "log")
    assert (interval_told(node), interval_told(node, "other")) == (10, 5)
    alter(node, "g", (HEARTBEAT, DELETE, None))
    assert interval_told(node) == 5
    node.close()


def test_a_session_of_the_groups_own_length(tmp_path: Path) -> None:
    node = GroupHarness(tmp_path / "log")
    node.find()
    alter(node, "g", (SESSION, SET, "60000"))
    node.beat("m")
    node.advance(59_999)
    assert node.beat("m", 1).error_code == ErrorCode.none
    node.advance(60_000)
    assert node.beat("m", 1).error_code == ErrorCode.unknown_member_id
    node.close()


@pytest.mark.parametrize(
    ("changes", "error", "word"),
    [
        ([(HEARTBEAT, SET, "4999")], ErrorCode.invalid_config, "between 5000 and 15000"),
        ([(SESSION, SET, "60001")], ErrorCode.invalid_config, "between 45000 and 60000"),
        ([(ASSIGNMENT, SET, "-1")], ErrorCode.invalid_config, "below the least"),
        ([(SESSION, SET, "soon")], ErrorCode.invalid_config, "not a whole number"),
        ([("share.session.timeout.ms", SET, "45000")], ErrorCode.invalid_config, "Unknown group config name"),
        ([(SESSION, SET, None)], ErrorCode.invalid_request, "Null value"),
        ([(SESSION, APPEND, "1")], ErrorCode.invalid_config, "append is not allowed"),
    ],
)
def test_what_cannot_be_is_refused(
    node: NodeHarness, changes: list[tuple[str, int, str | None]], error: ErrorCode, word: str
) -> None:
    answer = alter(node, "g", *changes)
    assert answer.error_code == error
    assert word in answer.error_message
    assert listed(node, GROUP) == []


def test_a_group_needs_a_name(node: NodeHarness) -> None:
    assert alter(node, "", (SESSION, SET, "50000")).error_code == ErrorCode.invalid_request
    resource = {"resource_type": GROUP, "resource_name": "", "configuration_keys": None}
    (result,) = node.ask("describe_configs", 4, resources=[resource]).results
    assert result.error_code == ErrorCode.invalid_request


def test_nothing_is_kept_that_is_only_validated(node: NodeHarness) -> None:
    assert alter(node, "g", (SESSION, SET, "50000"), validate_only=True).error_code == ErrorCode.none
    assert alter(node, "g", (SESSION, SET, "1"), validate_only=True).error_code == ErrorCode.invalid_config
    assert listed(node, GROUP) == []
