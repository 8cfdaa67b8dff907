"""Client telemetry through the dispatcher (KIP-714): subscriptions, pushes, and the topic that they are written to."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import UNKNOWN_SOFTWARE, Client
from highwater.broker.settings import metadata_tree
from highwater.broker.telemetry.instances import text_of_id
from highwater.broker.topics.internal_topic import CLIENT_METRICS_TOPIC
from highwater.kafka.protocol.apis import TELEMETRY_APIS
from highwater.kafka.records.batch import Codec, headers
from highwater.kafka.records.compress import compress
from highwater.kafka.records.record import decode_batch
from tests.broker.handlers.harness import LISTENER, NodeHarness, versions
from tests.broker.handlers.test_alter_configs import DELETE, SET, described, incrementally, wholly
from tests.broker.telemetry.payloads import pushed

CLIENT_METRICS = 16
IN_A_SUBSCRIPTION, DEFAULT = 7, 5
INTERVAL_MS = 60_000


def subscribe(node: NodeHarness, name: str = "all", metrics: str = "*", **more: str) -> None:
    changes = {"metrics": metrics, "interval.ms": str(INTERVAL_MS), **more}
    answer = incrementally(node, CLIENT_METRICS, name, *((key, SET, value) for key, value in changes.items()))
    assert answer.error_code == ErrorCode.none, answer.error_message


def connect(node: NodeHarness, software: str = "librdkafka", version: str = "2.12.1") -> Client:
    """Go on over a connection that says what it runs."""
    node.connection = Client(LISTENER, "10.0.0.7")
    node.connection.port = 51234
    node.ask("api_versions", 4, client_software_name=software, client_software_version=version)
    return node.connection


def get(node: NodeHarness, instance_id: uuid.UUID | None = None) -> Any:
    return node.ask("get_telemetry_subscriptions", 0, client_instance_id=instance_id)


def push(node: NodeHarness, subscription: Any, metrics: bytes | None = None, **fields: Any) -> ErrorCode:
    wanted = {
        "client_instance_id": subscription.client_instance_id,
        "subscription_id": subscription.subscription_id,
        "terminating": False,
        "compression_type": Codec.NONE,
        "metrics": pushed() if metrics is None else metrics,
    }
    error_code: ErrorCode = node.ask("push_telemetry", 0, **(wanted | fields)).error_code
    return error_code


def written(node: NodeHarness) -> list[tuple[bytes | None, bytes | None, dict[str, str]]]:
    """The key, value and headers of each record of the topic."""
    node.scheduler.run(500)
    partition = node.node.partitions.find(CLIENT_METRICS_TOPIC, 0)
    if partition is None:
        return []
    chunk = partition.log.read(0, 1 << 20, end_offset=partition.log.log_end_offset)
    assert not isinstance(chunk, ErrorCode)
    return [
        (record.key, record.value, {name: (text or b"").decode() for name, text in record.headers})
        for position, header in headers(chunk)
        for record in decode_batch(memoryview(chunk)[position:], header)
    ]


@pytest.mark.parametrize("is_on", [True, False])
def test_the_apis_are_told_while_the_feature_is_on(make_node: Callable[..., NodeHarness], is_on: bool) -> None:
    node = make_node(highwater_client_telemetry=str(is_on).lower())
    answer = node.ask("api_versions", 4, client_software_name="a", client_software_version="1")
    told = {entry.api_key for entry in answer.api_keys}
    assert (set(TELEMETRY_APIS) <= told, told.isdisjoint(TELEMETRY_APIS)) == (is_on, not is_on)
    subscription = get(node)
    expected = ErrorCode.none if is_on else ErrorCode.unsupported_version
    assert subscription.error_code == expected
    assert push(node, subscription, client_instance_id=uuid.uuid4()) == (
        ErrorCode.unknown_subscription_id if is_on else ErrorCode.unsupported_version
    )


def test_what_a_client_said_of_its_software_is_kept(node: NodeHarness) -> None:
    assert Client(LISTENER).software_name == UNKNOWN_SOFTWARE
    client = connect(node)
    assert (client.software_name, client.software_version) == ("librdkafka", "2.12.1")


def test_a_client_is_asked_for_what_it_matches(node: NodeHarness) -> None:
    connect(node)
    subscribe(node, match="client_software_name=librdkafka,client_id=test,client_source_port=51234")
    answer = get(node)
    assert answer.error_code == ErrorCode.none
    assert answer.client_instance_id is not None
    assert answer.requested_metrics == ("*",)
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    assert answer.push_interval.total_seconds() * 1000 == INTERVAL_MS
    assert answer.telemetry_max_bytes == 1_048_576
    assert answer.delta_temporality
    connect(node, software="apache-kafka-java")
    assert get(node).requested_metrics == ()


def test_a_push_is_written_with_what_is_known_of_the_client(node: NodeHarness) -> None:
    connect(node)
    subscribe(node)
    subscription = get(node)
    payload = pushed(client_rack="a")
    metrics = compress(Codec.ZSTD, payload)
    assert push(node, subscription, metrics, compression_type=Codec.ZSTD, terminating=True) == ErrorCode.none
    ((key, value, headers),) = written(node)
    assert (key, value) == (text_of_id(subscription.client_instance_id).encode(), payload)
    assert headers == {
        "client_instance_id": text_of_id(subscription.client_instance_id),
        "client_id": "test",
        "client_software_name": "librdkafka",
        "client_software_version": "2.12.1",
        "client_source_address": "10.0.0.7",
        "client_source_port": "51234",
        "principal": "ANONYMOUS",
        "push_interval_ms": str(INTERVAL_MS),
        "is_terminating": "true",
        "broker_id": "0",
    }
    assert node.node.telemetry.publishing.written == 1


def test_a_push_says_how_long_the_broker_itself_took_of_late(node: NodeHarness) -> None:
    subscribe(node)
    node.create_topic("t")
    produce = node.node.counters.requests[0].total

    def told() -> str | None:
        assert push(node, get(node)) == ErrorCode.none
        return written(node)[-1][2].get("broker_produce_latency_ms")

    assert told() is None
    for duration_ns in (1_000_000, 2_000_000):
        produce.observe(duration_ns)
    assert told() is None, "the window is not over"
    node.clock.advance_ms(10_000)
    assert told() == "1.5"
    node.clock.advance_ms(10_000)
    produce.observe(4_000_000)
    assert told() == "4"
    node.clock.advance_ms(10_000)
    assert told() is None, "nobody produced"


def test_pushes_of_many_clients_are_one_batch(node: NodeHarness) -> None:
    subscribe(node)
    for _ in range(3):
        assert push(node, get(node)) == ErrorCode.none
    assert len(written(node)) == 3
    assert node.node.partitions.find(CLIENT_METRICS_TOPIC, 0).log.log_end_offset == 3  # type: ignore[union-attr]
    assert push(node, get(node)) == ErrorCode.none
    assert len(written(node)) == 4


def test_a_push_of_nothing_is_taken_and_not_written(node: NodeHarness) -> None:
    subscribe(node)
    assert push(node, get(node), b"") == ErrorCode.none
    assert written(node) == []


def test_only_brokers_write_to_the_topic(node: NodeHarness) -> None:
    subscribe(node)
    push(node, get(node))
    written(node)
    assert node.produce(CLIENT_METRICS_TOPIC, b"forged").error_code == ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ErrorCode.invalid_request, {"client_instance_id": None}),
        (ErrorCode.unsupported_compression_type, {"compression_type": 9}),
        (ErrorCode.telemetry_too_large, {"metrics": bytes(1_048_577)}),
        (ErrorCode.telemetry_too_large, {"metrics": bytes(100_000_000)}),
        (
            ErrorCode.telemetry_too_large,
            {"metrics": compress(Codec.ZSTD, bytes(9 << 20)), "compression_type": Codec.ZSTD},
        ),
        (ErrorCode.invalid_record, {"metrics": b"garbage"}),
        (ErrorCode.invalid_record, {"metrics": b"garbage", "compression_type": Codec.GZIP}),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
def test_what_is_wrong_has_its_error_code_and_one_log_line(
    node: NodeHarness, caplog: pytest.LogCaptureFixture, error: ErrorCode, fields: dict[str, Any]
) -> None:
    subscribe(node)
    connect(node)
    caplog.set_level(logging.WARNING)
    caplog.clear()
    for _ in range(3):
        assert push(node, get(node), **fields) == error
    (line,) = caplog.messages
    assert error.name.upper() in line
    assert "at 10.0.0.7" in line
    assert len(line) < 300
    assert written(node) == []
    node.clock.advance_ms(60_000)
    assert push(node, get(node), **fields) == error
    assert len(caplog.messages) == 2


def test_a_refused_payload_can_be_followed_by_a_good_one(node: NodeHarness) -> None:
    subscribe(node)
    subscription = get(node)
    assert push(node, subscription, b"garbage") == ErrorCode.invalid_record
    assert push(node, subscription) == ErrorCode.throttling_quota_exceeded
    node.clock.advance_ms(INTERVAL_MS)
    assert push(node, subscription) == ErrorCode.none


def test_an_instance_goes_with_its_connection(node: NodeHarness) -> None:
    subscribe(node)
    client = connect(node)
    subscription = get(node)
    push(node, subscription)
    assert len(node.node.telemetry.instances) == 1
    client.disconnect()
    assert len(node.node.telemetry.instances) == 0


def test_a_change_of_subscriptions_is_heard_at_once(node: NodeHarness) -> None:
    subscription = get(node)
    assert subscription.requested_metrics == ()
    subscribe(node)
    assert push(node, subscription) == ErrorCode.unknown_subscription_id
    again = get(node, subscription.client_instance_id)
    assert (again.error_code, again.requested_metrics) == (ErrorCode.none, ("*",))
    assert push(node, again) == ErrorCode.none


@pytest.mark.parametrize("version", versions("list_config_resources"))
def test_subscriptions_are_listed_while_they_have_settings(node: NodeHarness, version: int) -> None:
    subscribe(node, "b")
    subscribe(node, "a")
    fields = {"resource_types": [CLIENT_METRICS]} if version >= 1 else {}
    answer = node.ask("list_config_resources", version, **fields)
    assert [each.resource_name for each in answer.config_resources] == ["a", "b"]
    wholly(node, CLIENT_METRICS, "a")
    for name in ("metrics", "interval.ms"):
        incrementally(node, CLIENT_METRICS, "b", (name, DELETE, None))
    assert node.ask("list_config_resources", version, **fields).config_resources == ()


def test_settings_are_described_with_their_sources(node: NodeHarness) -> None:
    subscribe(node)
    assert described(node, CLIENT_METRICS, "all") == {
        "metrics": ("*", IN_A_SUBSCRIPTION, False),
        "interval.ms": (str(INTERVAL_MS), IN_A_SUBSCRIPTION, False),
        "match": ("", DEFAULT, False),
    }
    assert described(node, CLIENT_METRICS, "none", "interval.ms") == {"interval.ms": ("300000", DEFAULT, False)}


def test_a_list_is_appended_to(node: NodeHarness) -> None:
    subscribe(node, metrics="a.")
    incrementally(node, CLIENT_METRICS, "all", ("metrics", 2, "b.,c."))
    incrementally(node, CLIENT_METRICS, "all", ("metrics", 3, "a."))
    assert described(node, CLIENT_METRICS, "all", "metrics")["metrics"][0] == "b.,c."


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("", ("metrics", SET, "*"), ErrorCode.invalid_request),
        ("all", ("metric", SET, "*"), ErrorCode.invalid_request),
        ("all", ("interval.ms", SET, "1"), ErrorCode.invalid_request),
        ("all", ("match", SET, "client_id=("), ErrorCode.invalid_config),
    ],
)
def test_wrong_settings_are_refused_and_change_nothing(
    node: NodeHarness, name: str, change: tuple[str, int, str], error: ErrorCode
) -> None:
    assert incrementally(node, CLIENT_METRICS, name, change).error_code == error
    assert node.ask("list_config_resources", 0).config_resources == ()


def test_an_empty_name_is_not_described(node: NodeHarness) -> None:
    resource = {"resource_type": CLIENT_METRICS, "resource_name": "", "configuration_keys": None}
    (result,) = node.ask("describe_configs", 4, resources=[resource]).results
    assert result.error_code == ErrorCode.invalid_request


def test_stored_settings_that_cannot_be_used_are_said(node: NodeHarness, caplog: pytest.LogCaptureFixture) -> None:
    """A newer broker may have written them."""
    subscribe(node, "good")
    path = metadata_tree.own_config_path(metadata_tree.CLIENT_METRICS_CONFIGS, "bad")
    node.store.change_configs({path: lambda _: {"future": "1"}}, lambda _: None)
    assert "subscription bad to client metrics is not used: Unknown client metrics configuration" in caplog.text
    assert get(node).requested_metrics == ("*",)
