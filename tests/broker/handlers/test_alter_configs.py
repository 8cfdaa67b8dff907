"""Changing settings while the broker runs: what is accepted, when it takes effect, and that a restart keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.log.files import RealFiles
from highwater.kafka.records.batch import TimestampType
from tests.broker.handlers.harness import NodeHarness, versions

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def incrementally(
    node: NodeHarness, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1, **fields: Any
) -> Any:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": configs}
    (response,) = node.ask("incremental_alter_configs", version, resources=[resource], **fields).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response


def wholly(node: NodeHarness, kind: int, name: str, version: int = 2, **configs: str | None) -> Any:
    entries = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}
    (response,) = node.ask("alter_configs", version, resources=[resource]).responses
    return response


def described(node: NodeHarness, kind: int, name: str, *keys: str) -> dict[str, tuple[str | None, int, bool]]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    (result,) = node.ask("describe_configs", 4, resources=[resource]).results
    assert result.error_code == ErrorCode.none
    return {entry.name: (entry.value, entry.config_source, entry.read_only) for entry in result.configs}


def test_a_refusal_names_what_has_no_settings_here(node: NodeHarness) -> None:
    kind = 99
    asked = node.ask(
        "describe_configs",
        4,
        resources=[{"resource_type": kind, "resource_name": "x", "configuration_keys": None}],
    ).results[0]
    for answer in (asked, incrementally(node, kind, "x", ("key", SET, "1")), wholly(node, kind, "x", key="1")):
        assert answer.error_code == ErrorCode.invalid_request
        assert answer.error_message.startswith("Resource type 99 is not supported: this broker has settings of topics")


@pytest.mark.parametrize("version", versions("incremental_alter_configs"))
def test_a_topics_settings_take_effect_with_the_next_append(node: NodeHarness, version: int) -> None:
    topic = node.create_topic("t", flush_messages="10")
    assert node.produce("t", b"x" * 500).error_code == ErrorCode.none
    answer = incrementally(
        node, TOPIC, "t", ("max.message.bytes", SET, "400"), ("flush.messages", DELETE, None), version=version
    )
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    assert node.produce("t", b"x" * 500).error_code == ErrorCode.message_too_large
    assert topic.config.overrides == {"max.message.bytes": "400"}
    assert described(node, TOPIC, "t", "max.message.bytes", "flush.messages") == {
        "max.message.bytes": ("400", 1, False),
        "flush.messages": ("9223372036854775807", 5, False),
    }
    incrementally(node, TOPIC, "t", ("min.insync.replicas", SET, "2"), version=version)
    assert node.produce("t", b"x", acks=-1).error_code == ErrorCode.not_enough_replicas


@pytest.mark.parametrize("version", versions("alter_configs"))
def test_the_older_request_replaces_all_settings(node: NodeHarness, version: int) -> None:
    topic = node.create_topic("t", flush_messages="10", segment_bytes="1000")
    assert wholly(node, TOPIC, "t", version, message_timestamp_type="LogAppendTime").error_code == ErrorCode.none
    assert topic.config.overrides == {"message.timestamp.type": "LogAppendTime"}
    assert topic.partitions[0].log.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert wholly(node, TOPIC, "t", version).error_code == ErrorCode.none
    assert topic.config.overrides == {}


def test_lists_grow_and_shrink_from_what_is_in_force(node: NodeHarness) -> None:
    topic = node.create_topic("t")
    assert incrementally(node, TOPIC, "t", ("cleanup.policy", APPEND, "compact")).error_code == ErrorCode.none
    assert topic.config.overrides == {"cleanup.policy": "delete,compact"}
    assert incrementally(node, TOPIC, "t", ("cleanup.policy", APPEND, "compact")).error_code == ErrorCode.none
    assert incrementally(node, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")).error_code == ErrorCode.none
    assert topic.config.overrides == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("changes", "error_code", "word"),
    [
        ([("no.such", SET, "1")], ErrorCode.invalid_config, "no.such"),
        ([("segment.bytes", SET, "1")], ErrorCode.invalid_config, "segment.bytes"),
        ([("segment.bytes", SET, "many")], ErrorCode.invalid_config, "many"),
        ([("segment.bytes", SET, None)], ErrorCode.invalid_request, "segment.bytes"),
        ([("segment.bytes", APPEND, "5")], ErrorCode.invalid_config, "append"),
        ([("segment.bytes", 9, "5")], ErrorCode.invalid_request, "9"),
        ([("flush.ms", SET, "5"), ("flush.ms", DELETE, None)], ErrorCode.invalid_request, "duplicate"),
        ([("flush.ms", SET, "5"), ("no.such", SET, "1")], ErrorCode.invalid_config, "no.such"),
    ],
)
def test_what_is_refused_changes_nothing(
    node: NodeHarness, changes: list[tuple[str, int, str | None]], error_code: ErrorCode, word: str
) -> None:
    topic = node.create_topic("t", flush_messages="3")
    answer = incrementally(node, TOPIC, "t", *changes)
    assert answer.error_code == error_code
    assert word in answer.error_message
    assert topic.config.overrides == {"flush.messages": "3"}


def test_resources_that_cannot_be_altered(node: NodeHarness) -> None:
    node.create_topic("t")
    for kind, name, error_code in (
        (TOPIC, "nowhere", ErrorCode.unknown_topic_or_partition),
        (BROKER, "7", ErrorCode.invalid_request),
        (16, "0", ErrorCode.invalid_request),
    ):
        assert incrementally(node, kind, name, ("flush.ms", SET, "5")).error_code == error_code
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": []}
    answer = node.ask("incremental_alter_configs", 1, resources=[resource, resource])
    assert [response.error_code for response in answer.responses] == [ErrorCode.invalid_request] * 2


def test_nothing_changes_when_only_validated(node: NodeHarness) -> None:
    topic = node.create_topic("t")
    assert incrementally(node, TOPIC, "t", ("flush.ms", SET, "5"), validate_only=True).error_code == ErrorCode.none
    assert incrementally(node, BROKER, "", ("message.max.bytes", SET, "5"), validate_only=True).error_code == 0
    assert topic.config.overrides == {}
    assert node.config.integer("message.max.bytes") == 1_048_588


def test_the_brokers_settings_are_the_defaults_of_topics(make_node: Callable[..., NodeHarness]) -> None:
    node = make_node(message_max_bytes="900")
    node.create_topic("own", max_message_bytes="800")
    node.create_topic("t")
    assert incrementally(node, BROKER, "", ("message.max.bytes", SET, "300")).error_code == ErrorCode.none
    assert node.produce("t", b"x" * 500).error_code == ErrorCode.message_too_large
    assert node.produce("own", b"x" * 500).error_code == ErrorCode.none
    assert incrementally(node, BROKER, "0", ("message.max.bytes", SET, "700")).error_code == ErrorCode.none
    assert node.produce("t", b"x" * 500).error_code == ErrorCode.none
    node.create_topic("later")
    assert node.produce("later", b"x" * 800).error_code == ErrorCode.message_too_large

    assert described(node, BROKER, "0", "message.max.bytes") == {"message.max.bytes": ("700", 2, False)}
    assert described(node, BROKER, "") == {"message.max.bytes": ("300", 3, False)}
    assert described(node, TOPIC, "t", "max.message.bytes") == {"max.message.bytes": ("700", 2, False)}
    resource = {"resource_type": TOPIC, "resource_name": "own", "configuration_keys": ["max.message.bytes"]}
    (result,) = node.ask("describe_configs", 4, resources=[resource], include_synonyms=True).results
    assert [(s.name, s.value, s.source) for s in result.configs[0].synonyms] == [
        ("max.message.bytes", "800", 1),
        ("message.max.bytes", "700", 2),
        ("message.max.bytes", "300", 3),
        ("message.max.bytes", "900", 4),
        ("message.max.bytes", "1048588", 5),
    ]
    for name in ("0", ""):
        assert incrementally(node, BROKER, name, ("message.max.bytes", DELETE, None)).error_code == ErrorCode.none
    assert described(node, BROKER, "0", "message.max.bytes") == {"message.max.bytes": ("900", 4, False)}


def test_limits_of_a_running_broker(node: NodeHarness) -> None:
    told: list[int] = []
    node.config.when_changed.append(lambda: told.append(node.config.integer("max.connections")))
    for value in ("7", "9"):
        assert incrementally(node, BROKER, "0", ("max.connections", SET, value)).error_code == ErrorCode.none
    refused = incrementally(node, BROKER, "0", ("max.connections", SET, "-1"))
    assert refused.error_code == ErrorCode.invalid_config
    assert told == [7, 9]
    assert described(node, BROKER, "0", "max.connections") == {"max.connections": ("9", 2, False)}


def test_what_a_running_broker_cannot_change(node: NodeHarness) -> None:
    for name, error_code in (
        ("num.partitions", ErrorCode.invalid_request),
        ("log.roll.hours", ErrorCode.invalid_request),
        ("listeners", ErrorCode.invalid_request),
        ("no.such", ErrorCode.invalid_config),
    ):
        answer = incrementally(node, BROKER, "0", (name, SET, "5"))
        assert answer.error_code == error_code
        assert name in answer.error_message
    assert described(node, BROKER, "0", "num.partitions") == {"num.partitions": ("1", 5, True)}


def test_a_restart_keeps_what_was_set(node: NodeHarness) -> None:
    node.create_topic("t")
    incrementally(node, TOPIC, "t", ("segment.bytes", SET, "5000"))
    incrementally(node, BROKER, "", ("log.roll.ms", SET, "1000"))
    incrementally(node, BROKER, "0", ("log.roll.ms", SET, "2000"))
    again = EmbeddedMetadataStore(RealFiles(), node.log_directory.path, node.log_directory.cluster_id)
    assert again.broker_configs() == {"": {"log.roll.ms": "1000"}, "0": {"log.roll.ms": "2000"}}
    assert [topic.config for topic in again.topics()] == [{"segment.bytes": "5000"}]


def test_a_key_store_where_it_is_already_is_read_again_and_nothing_is_stored(
    make_node: Callable[..., NodeHarness],
) -> None:
    node = make_node(ssl_keystore_location="/keys/all.pem", listener_name_inside_ssl_keystore_location="/keys/in")
    asked: list[Callable[[str | None], None]] = []
    general, own = "ssl.keystore.location", "listener.name.inside.ssl.keystore.location"

    def alter(*changes: tuple[str, int, str | None], answer: str | None = None, **fields: Any) -> tuple[Any, Any]:
        asked.clear()

        def read_again(then: Callable[[str | None], None]) -> None:
            asked.append(then)
            then(answer)

        node.config.read_stores_again = read_again
        response = incrementally(node, BROKER, "0", *changes, **fields)
        return response.error_code, response.error_message

    retention = ("log.retention.ms", SET, "1000")
    assert alter((general, SET, "/keys/all.pem"), retention) == (ErrorCode.none, None)
    assert len(asked) == 1
    assert node.store.broker_configs() == {"0": {"log.retention.ms": "1000"}}
    for name, place in ((own, "/keys/in"), ("listener.name.other.ssl.keystore.location", "/keys/all.pem")):
        assert alter((name, SET, place)) == (ErrorCode.none, None)
        assert len(asked) == 1
    refused = alter((own, SET, "/keys/in"), ("log.retention.ms", SET, "5"), answer="listener INSIDE: no usable key")
    assert refused == (ErrorCode.invalid_request, "listener INSIDE: no usable key")
    assert alter((own, SET, "/keys/in"), validate_only=True) == (ErrorCode.none, None)
    assert asked == []
    code, message = alter((general, SET, "/keys/other.pem"))
    assert (code, "Cannot update these configs dynamically: ssl.keystore.location" in message) == (
        ErrorCode.invalid_request,
        True,
    )
    assert asked == []
    assert node.store.broker_configs() == {"0": {"log.retention.ms": "1000"}}
