"""Quotas through the protocol: changing and describing them, and what produce and fetch say above them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.handlers.reply import Client
from highwater.broker.protocol.apis import FETCH, PRODUCE
from tests.broker.handlers.harness import LISTENER, NodeHarness, decode_answer, one_batch, request_frame


def alter(node: NodeHarness, entity: Mapping[str, str | None], **limits: float | None) -> Any:
    return ask_to_alter(node, entity, limits)


def ask_to_alter(
    node: NodeHarness, entity: Mapping[str, str | None], limits: Mapping[str, float | None], validate_only: bool = False
) -> Any:
    operations = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in limits.items()]
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    answer = node.ask(
        "alter_client_quotas", 1, entries=[{"entity": parts, "ops": operations}], validate_only=validate_only
    )
    return answer.entries[0]


def describe(node: NodeHarness, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    answer = node.ask(
        "describe_client_quotas",
        1,
        components=[{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components],
        strict=strict,
    )
    assert answer.error_code == ErrorCode.none, answer
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


def send(node: NodeHarness, name: str, version: int, **fields: Any) -> tuple[Any, list[int]]:
    """The answer, and for how long the connection is muted."""
    muted: list[int] = []
    frame = memoryview(bytearray(request_frame(name, version, **fields)))
    parts = node.dispatcher.dispatch(frame, Client(LISTENER, mute=muted.append))
    assert isinstance(parts, list)
    return decode_answer(name, version, parts), muted


def produce(node: NodeHarness, size_bytes: int, version: int = 9) -> tuple[int, list[int]]:
    answer, muted = send(
        node,
        "produce",
        version,
        acks=1,
        timeout=1000,
        topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": one_batch(b"x" * size_bytes)}]}],
    )
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none
    return int(answer.throttle_time.total_seconds() * 1000), muted


def test_quotas_are_kept_as_kafkas_znodes_and_outlive_a_restart(make_node: Callable[..., NodeHarness]) -> None:
    node = make_node()
    assert not alter(node, {"client_id": "a/b <c>"}, producer_byte_rate=1024.0).error_code
    assert not alter(node, {"client_id": None}, consumer_byte_rate=5.0).error_code
    assert not alter(node, {"user": "ann", "client_id": None}, producer_byte_rate=7.0).error_code
    path = node.log_directory.path / "embedded-metadata.json"
    tree = json.loads(path.read_text())
    assert tree["/config/clients/a%2Fb%20%3Cc%3E"] == {"version": 1, "config": {"producer_byte_rate": "1024"}}
    assert tree["/config/clients/<default>"] == {"version": 1, "config": {"consumer_byte_rate": "5"}}
    assert tree["/config/users/ann/clients/<default>"] == {"version": 1, "config": {"producer_byte_rate": "7"}}
    before = describe(node)
    again = type(node.store)(node.store._files, node.log_directory.path, node.store.cluster_id)
    assert dict(again.client_quotas()) == dict(node.store.client_quotas())
    assert before == {
        (("client-id", "a/b <c>"),): {"producer_byte_rate": 1024.0},
        (("client-id", None),): {"consumer_byte_rate": 5.0},
        (("user", "ann"), ("client-id", None)): {"producer_byte_rate": 7.0},
    }
    assert not alter(node, {"client_id": None}, consumer_byte_rate=None).error_code
    assert "/config/clients/<default>" not in json.loads(path.read_text())


def test_filters(node: NodeHarness) -> None:
    both = (("user", "ann"), ("client-id", "a"))
    alter(node, {"client_id": "a"}, producer_byte_rate=1.0)
    alter(node, {"client_id": None}, producer_byte_rate=2.0)
    alter(node, {"user": "ann", "client_id": "a"}, producer_byte_rate=3.0)
    assert set(describe(node, ("client-id", 0, "a"))) == {(("client-id", "a"),), both}
    assert set(describe(node, ("client-id", 0, "a"), strict=True)) == {(("client-id", "a"),)}
    assert set(describe(node, ("client-id", 1, None))) == {(("client-id", None),)}
    assert set(describe(node, ("client-id", 2, None))) == {(("client-id", "a"),), (("client-id", None),), both}
    assert set(describe(node, ("user", 2, None), ("client-id", 2, None), strict=True)) == {both}
    assert describe(node, ("ip", 2, None)) == {}
    assert describe(node, strict=True) == {}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("shoe-size", 2, None)], ErrorCode.unsupported_version),
        ([("user", 2, None), ("user", 2, None)], ErrorCode.invalid_request),
        ([("user", 0, None)], ErrorCode.invalid_request),
        ([("user", 9, None)], ErrorCode.invalid_request),
        ([("user", 2, None), ("ip", 2, None)], ErrorCode.invalid_request),
    ],
)
def test_bad_filters(node: NodeHarness, components: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    wanted = [{"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components]
    assert node.ask("describe_client_quotas", 0, components=wanted, strict=False).error_code == code


@pytest.mark.parametrize(
    ("entity", "limits", "said"),
    [
        ({}, {"producer_byte_rate": 1.0}, "empty client quota entity"),
        ({"client_id": ""}, {"producer_byte_rate": 1.0}, "Empty client-id"),
        ({"shoe_size": "44"}, {"producer_byte_rate": 1.0}, "shoe-size"),
        ({"ip": "192.0.2.1"}, {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": -1.0}, "at least 0"),
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": 2.0**31}, "at most 2147483647"),
        ({"ip": "192.0.2.1"}, {"connection_creation_rate": 1.5}, "whole number"),
        ({"ip": "no address"}, {"connection_creation_rate": 1.0}, "no address is not an IP address"),
        ({"ip": "192.0.2.1", "user": "u"}, {"connection_creation_rate": 1.0}, "ip goes with no other"),
        ({"client_id": "a"}, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        ({"client_id": "a"}, {"producer_byte_rate": -1.0}, "greater than 0"),
        ({"client_id": "a"}, {"producer_byte_rate": 1.5}, "whole number"),
        ({"client_id": "a"}, {"producer_byte_rate": float("nan")}, "greater than 0"),
        ({"client_id": "a"}, {"producer_byte_rate": float("inf")}, "at most"),
        ({"client_id": "a"}, {"request_percentage": 10.0}, "does not enforce request_percentage"),
        ({"client_id": "a"}, {"speed": 10.0}, "Invalid configuration key speed"),
    ],
)
def test_bad_changes_change_nothing(
    node: NodeHarness, entity: dict[str, str | None], limits: dict[str, float | None], said: str
) -> None:
    answer = ask_to_alter(node, entity, limits)
    assert answer.error_code == ErrorCode.invalid_request
    assert said in answer.error_message
    assert describe(node) == {}


def test_addresses_have_quotas_of_their_own(make_node: Callable[..., NodeHarness]) -> None:
    node = make_node()
    for ip, rate in (("192.0.2.1", 5.0), ("2001:DB8::0:1", 0.0), ("::ffff:192.0.2.7", 7.0), (None, 100.0)):
        assert not alter(node, {"ip": ip}, connection_creation_rate=rate).error_code
    assert not node.node.quotas.is_active, "nothing of a client's requests is limited"
    told = {
        (("ip", "192.0.2.1"),): {"connection_creation_rate": 5.0},
        (("ip", "2001:db8::1"),): {"connection_creation_rate": 0.0},
        (("ip", "192.0.2.7"),): {"connection_creation_rate": 7.0},
        (("ip", None),): {"connection_creation_rate": 100.0},
    }
    assert describe(node) == describe(node, ("ip", 2, None)) == describe(node, ("ip", 2, None), strict=True) == told
    assert describe(node, ("ip", 1, None)) == {(("ip", None),): {"connection_creation_rate": 100.0}}
    assert describe(node, ("ip", 0, "192.0.2.1")) == {(("ip", "192.0.2.1"),): {"connection_creation_rate": 5.0}}
    assert describe(node, ("user", 2, None)) == describe(node, strict=True) == {}
    tree = json.loads((node.log_directory.path / "embedded-metadata.json").read_text())
    assert tree["/config/ips/2001%3Adb8%3A%3A1"] == {"version": 1, "config": {"connection_creation_rate": "0"}}
    again = type(node.store)(node.store._files, node.log_directory.path, node.store.cluster_id)
    assert dict(again.client_quotas()) == dict(node.store.client_quotas())
    quotas = node.node.quotas
    assert [quotas.connected("2001:db8::1", 0), quotas.connected("192.0.2.1", 0)] == [1000, 0]
    for ip in ("192.0.2.1", "2001:db8::1", "192.0.2.7", None):
        assert not alter(node, {"ip": ip}, connection_creation_rate=None).error_code
    assert describe(node) == {}
    assert quotas.connected("2001:db8::1", 0) == 0


def test_a_dry_run_changes_nothing(node: NodeHarness) -> None:
    assert not ask_to_alter(node, {"client_id": "a"}, {"producer_byte_rate": 1.0}, validate_only=True).error_code
    assert describe(node) == {}
    assert not node.node.quotas.is_active


def test_a_producer_above_its_quota_is_told_and_muted(node: NodeHarness) -> None:
    node.create_topic("t")
    alter(node, {"client_id": "test"}, producer_byte_rate=1000.0)
    assert produce(node, 5_000) == (0, [])
    throttle_ms, muted = produce(node, 10_000)
    assert 5_000 < throttle_ms < 6_000
    assert muted == [throttle_ms]
    assert node.node.counters.produce_throttle_ms == throttle_ms
    node.clock.advance_ms(11_000)
    assert produce(node, 10) == (0, [])


def test_a_consumer_above_its_quota_gets_no_records_until_its_time_has_come(node: NodeHarness) -> None:
    node.create_topic("t")
    node.produce("t", b"x" * 8_000)
    alter(node, {"client_id": "test"}, consumer_byte_rate=1000.0)
    wanted = {"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}
    request = {"replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    answer, muted = send(node, "fetch", 11, **request, topics=[wanted])
    assert answer.responses[0].partitions[0].records
    assert muted == []
    answer, muted = send(node, "fetch", 11, **request, topics=[wanted])
    assert answer.responses == ()
    assert muted == [answer.throttle_time.total_seconds() * 1000]
    node.clock.advance_ms(11_000)
    answer, muted = send(node, "fetch", 11, **request, topics=[wanted])
    assert answer.responses[0].partitions[0].records
    assert muted == []


def test_what_is_counted(node: NodeHarness) -> None:
    node.create_topic("t")
    batch = one_batch(b"a", b"b", b"c")
    node.produce_records("t", batch)
    node.produce_records("t", b"rubbish")
    node.produce("nowhere", b"a")
    node.fetch("t", 0)
    node.fetch("t", 99)
    counters = node.node.counters
    topic = counters.topics["t"]
    assert (topic.messages_in, topic.bytes_in, topic.bytes_out) == (3, len(batch), len(batch))
    assert (topic.produces, topic.failed_produces, topic.fetches, topic.failed_fetches) == (2, 1, 2, 1)
    assert set(counters.topics) == {"t"}
    assert counters.all_topics().failed_produces == 2
    assert sum(counters.requests[PRODUCE].requests_by_version) == 3
    assert counters.requests[PRODUCE].errors[ErrorCode.unknown_topic_or_partition] == 1
    assert counters.requests[FETCH].errors == {ErrorCode.offset_out_of_range: 1}
    node.ask("delete_topics", 4, topic_names=["t", "nowhere"], timeout=1000)
    assert "t" not in counters.topics
    assert counters.all_topics().messages_in == 3


def test_errors_of_answers_are_counted_by_api_now_or_later(node: NodeHarness) -> None:
    node.ask("metadata", 4, topics=[{"name": "nowhere"}], allow_auto_topic_creation=False)
    node.ask("delete_topics", 4, topic_names=["nowhere"], timeout=1000)
    pending = node.ask("delete_groups", 1, groups_names=["nobody"])
    assert pending is not None
    errors = {counters.name: counters.errors for counters in node.node.counters.requests.values() if counters.errors}
    assert errors["Metadata"] == {ErrorCode.unknown_topic_or_partition: 1}
    assert errors["DeleteTopics"] == {ErrorCode.unknown_topic_or_partition: 1}
    assert sum(errors["DeleteGroups"].values()) == 1
