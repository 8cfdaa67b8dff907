"""Requests that no group could take, by Apache Kafka 4.4's testConsumerHeartbeatRequestValidation."""

from __future__ import annotations

from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.group.consumer.events import HeartbeatRequest
from highwater.broker.group.consumer.heartbeat import refusal
from tests.broker.group.consumer.partitions import partitions

JOIN: Final = HeartbeatRequest("m", 0, rebalance_timeout_ms=1000, topics=frozenset("a"), owned={})
INVALID, REGEX = ErrorCode.invalid_request, ErrorCode.invalid_regular_expression


def asked(group_id: str = "g", version: int = 1, **fields: Any) -> ErrorCode | None:
    answer = refusal(group_id, JOIN._replace(**fields), version, ("uniform", "range"))
    assert answer is None or answer.error_message
    return None if answer is None else answer.error_code


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, None),
        ({"group_id": ""}, INVALID),
        ({"instance_id": ""}, INVALID),
        ({"rack_id": ""}, INVALID),
        ({"member_id": ""}, INVALID),
        ({"member_id": "", "version": 0}, None),
        ({"member_id": "", "version": 0, "member_epoch": 1}, INVALID),
        ({"member_id": "", "version": 0, "member_epoch": -1}, INVALID),
        ({"member_epoch": -3}, INVALID),
        ({"member_epoch": -2}, INVALID),
        ({"member_epoch": -2, "instance_id": "i"}, None),
        ({"member_epoch": -1}, None),
        ({"rebalance_timeout_ms": -1}, INVALID),
        ({"rebalance_timeout_ms": -1, "member_epoch": 1}, None),
        ({"owned": None}, INVALID),
        ({"owned": partitions("a:1")}, INVALID),
        ({"owned": partitions("a:1"), "member_epoch": 1}, None),
        ({"topics": None}, INVALID),
        ({"topics": None, "member_epoch": 1}, None),
        ({"topics": None, "regex": "a.*"}, None),
        ({"topics": frozenset(), "regex": ""}, None),
        ({"assignor": "range"}, None),
        ({"assignor": "best"}, ErrorCode.unsupported_assignor),
        ({"regex": "["}, REGEX),
        ({"regex": "(a)\\1"}, REGEX),
        ({"regex": "(?=a)"}, REGEX),
        ({"regex": "\ud800"}, REGEX),
        ({"member_id": "m" * 40_000}, INVALID),
        ({"regex": "r" * 40_000}, INVALID),
        ({"topics": frozenset(map(str, range(10_000)))}, None),
        ({"topics": frozenset(map(str, range(10_001)))}, INVALID),
    ],
)
def test_a_request_is_looked_at(fields: dict[str, Any], error: ErrorCode | None) -> None:
    assert asked(**fields) is error
