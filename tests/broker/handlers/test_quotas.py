"""Quotas through the protocol: changing and describing them, and what produce and fetch say above them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker import turns
from highwater.broker.handlers.dispatch import UNTIMED
from highwater.broker.handlers.shared.reply import Client
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import APIS, FETCH, PRODUCE
from highwater.kafka.protocol.primitives import Decoder
from tests.broker.handlers.harness import LISTENER, NodeHarness, decode_answer, one_batch, request_frame, versions


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
    assert parts is None or isinstance(parts, list)
    return None if parts is None else decode_answer(name, version, parts), muted


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
        ({"client_id": "a"}, {"request_percentage": 0.0}, "greater than 0"),
        ({"client_id": "a"}, {"controller_mutation_rate": float("inf")}, "greater than 0"),
        ({"ip": "192.0.2.1"}, {"request_percentage": 1.0}, "Invalid configuration key request_percentage"),
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
    assert not node.node.quotas.limits_bytes, "nothing of a client's requests is limited"
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
    assert not node.node.quotas.limits_bytes


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


def test_numbers_that_need_not_be_whole_are_written_as_kafka_writes_them(node: NodeHarness) -> None:
    assert not alter(node, {"user": "ann"}, request_percentage=50.5, controller_mutation_rate=10.0).error_code
    tree = json.loads((node.log_directory.path / "embedded-metadata.json").read_text())
    written = {"request_percentage": "50.5", "controller_mutation_rate": "10.0"}
    assert tree["/config/users/ann"] == {"version": 1, "config": written}
    assert describe(node) == {(("user", "ann"),): {"request_percentage": 50.5, "controller_mutation_rate": 10.0}}


@pytest.fixture
def slow_node(node: NodeHarness, monkeypatch: pytest.MonkeyPatch) -> NodeHarness:
    """Each time that it is looked at, the clock has moved by a second: a request takes three or four."""
    clock = node.clock
    monotonic_ns = clock.monotonic_ns

    def later() -> int:
        clock.advance_ms(1000)
        return monotonic_ns()

    monkeypatch.setattr(node.dispatcher, "_monotonic_ns", later)
    monkeypatch.setattr(turns, "SLICE_NS", 10**15)
    return node


def test_requests_that_take_too_much_time_are_held_up(slow_node: NodeHarness) -> None:
    slow_node.create_topic("t")
    slow_node.produce("t", b"x" * 100)
    assert not alter(slow_node, {"client_id": "test"}, request_percentage=1.0).error_code
    fetch = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}],
    }
    answer, muted = send(slow_node, "fetch", 11, **fetch)
    assert answer.responses[0].partitions[0].records
    assert muted == []
    answer, muted = send(slow_node, "fetch", 11, **fetch)
    assert answer.responses == ()
    assert [answer.throttle_time.total_seconds(), *muted] == [1, 1000]
    assert produce(slow_node, 5) == (1000, [1000])
    assert send(slow_node, "produce", 9, acks=0, timeout=1000, topic_data=[]) == (None, [1000])
    for name, version, fields in (
        ("metadata", 4, {"topics": [], "allow_auto_topic_creation": False}),
        ("list_groups", 4, {"states_filter": []}),
        ("create_topics", 2, {"topics": [], "timeout": 1000, "validate_only": False}),
    ):
        answer, muted = send(slow_node, name, version, **fields)
        assert [answer.throttle_time.total_seconds(), *muted] == [1, 1000], name
    assert slow_node.node.counters.request_throttle_ms == 6000
    answer, muted = send(slow_node, "fetch", 11, **(fetch | {"replica_id": 7}))
    assert (answer.throttle_time.total_seconds(), muted) == (0, []), "a follower is never held up"


@pytest.mark.parametrize("name", sorted(api.name for key, api in APIS.items() if key not in UNTIMED))
def test_the_answer_of_each_api_that_is_timed_can_have_a_throttle_time(name: str) -> None:
    newest = versions(name)[-1]
    answer = cold.encode_response(name, newest, {"throttle_time": 7})
    flexible = cold.response_type(name, newest).__flexible__
    decoded = cold.decode_response(name, newest, Decoder(memoryview(answer), flexible=flexible))
    assert decoded.throttle_time.total_seconds() == 0.007


def create(node: NodeHarness, name: str, version: int, partitions: int, **fields: Any) -> tuple[Any, list[int]]:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    return send(node, "create_topics", version, topics=[topic], timeout=1000, **({"validate_only": False} | fields))


def test_topics_above_the_rate_of_a_client_are_refused_or_delayed(node: NodeHarness) -> None:
    assert not alter(node, {"client_id": "test"}, controller_mutation_rate=2.0).error_code
    answer, muted = create(node, "one", 7, 23)
    assert (answer.topics[0].error_code, answer.throttle_time.total_seconds(), muted) == (ErrorCode.none, 0, [])
    answer, muted = create(node, "two", 7, 1)
    assert answer.topics[0].error_code == ErrorCode.throttling_quota_exceeded
    assert answer.topics[0].error_message == "The throttling quota has been exceeded."
    assert [answer.throttle_time.total_seconds(), *muted] == [0.5, 500]
    assert node.node.partitions.topic("two") is None
    answer, muted = create(node, "one", 7, 1)
    assert answer.topics[0].error_code == ErrorCode.topic_already_exists, "other errors come first"
    answer, muted = create(node, "two", 7, 1, validate_only=True)
    assert (answer.topics[0].error_code, muted) == (ErrorCode.none, [])
    answer, muted = create(node, "old", 5, 1)
    assert answer.topics[0].error_code == ErrorCode.none
    assert [answer.throttle_time.total_seconds(), *muted] == [1.0, 1000]

    more = {"topics": [{"name": "old", "count": 3, "assignments": None}], "timeout": 1000, "validate_only": False}
    answer, muted = send(node, "create_partitions", 3, **more)
    assert (answer.results[0].error_code, muted) == (ErrorCode.throttling_quota_exceeded, [1000])
    node.clock.advance_ms(1_000)
    answer, muted = send(node, "create_partitions", 3, **more)
    assert (answer.results[0].error_code, muted) == (ErrorCode.none, [])
    answer, muted = send(node, "delete_topics", 6, topics=[{"name": "one"}], timeout=1000)
    assert (answer.responses[0].error_code, muted) == (ErrorCode.throttling_quota_exceeded, [1000])
    assert node.node.partitions.topic("one") is not None
    answer, muted = send(node, "delete_topics", 4, topic_names=["one"], timeout=1000)
    assert (answer.responses[0].error_code, muted) == (ErrorCode.none, [12_500])
    assert node.node.counters.mutation_throttle_ms == 500 + 1000 + 1000 + 1000 + 12_500


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
