"""What was set takes effect, whoever set it: here as if another broker, a tool or another version had."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from highwater.broker.settings.metadata_tree import broker_config_path, topic_config_path
from tests.broker.handlers.harness import NodeHarness


def put(harness: NodeHarness, path: str, **config: str) -> None:
    outcome: list[Any] = []
    settings = {name.replace("_", "."): text for name, text in config.items()}
    harness.node.store.change_configs({path: lambda _: settings}, outcome.append)
    assert outcome == [{path: None}]


def test_of_a_topic(node: NodeHarness) -> None:
    topic = node.create_topic("t")
    put(node, topic_config_path("t"), segment_bytes="5000", min_insync_replicas="2")
    assert topic.config.overrides == {"segment.bytes": "5000", "min.insync.replicas": "2"}
    assert topic.partitions[0].log.config.segment_bytes == 5000
    put(node, topic_config_path("t"))
    assert topic.config.overrides == {}


def test_of_this_broker_and_of_all_and_of_none_else(node: NodeHarness) -> None:
    topic = node.create_topic("t")
    put(node, broker_config_path(""), log_segment_bytes="6000", max_connections="9")
    put(node, broker_config_path(str(node.node.broker_id)), log_segment_bytes="7000")
    put(node, broker_config_path(str(node.node.broker_id + 1)), log_segment_bytes="8000")
    assert topic.partitions[0].log.config.segment_bytes == 7000
    assert node.node.config.integer("max.connections") == 9


def test_what_cannot_be_in_force_is_said_and_left_alone(node: NodeHarness, caplog: pytest.LogCaptureFixture) -> None:
    topic = node.create_topic("t")
    caplog.set_level(logging.WARNING)
    put(node, topic_config_path("t"), retention_ms="5", no_such="1", segment_bytes="many")
    put(node, broker_config_path(""), max_connections="9", listeners="PLAINTEXT://:1")
    assert topic.config.overrides == {"retention.ms": "5"}
    assert node.node.config.integer("max.connections") == 9
    told = [record.getMessage() for record in caplog.records]
    assert [message.split(": ")[0] for message in told] == ["topic t", "topic t", "all brokers"]


def test_throttled_replicas(node: NodeHarness) -> None:
    node.create_topic("t")
    throttles = node.node.replication_throttles
    put(node, topic_config_path("t"), leader_replication_throttled_replicas=f"0:{node.node.broker_id}")
    assert throttles.leader.is_throttled("t", 0)
    put(node, broker_config_path(""), leader_replication_throttled_rate="1000")
    assert throttles.leader.bytes_per_second == 1000
    put(node, topic_config_path("t"))
    assert not throttles.leader.is_active
