"""Every kind of fault on every API that it applies to, in the oldest and the newest version."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.faults import effects
from highwater.broker.faults.kinds import KINDS, has_throttle_time
from highwater.broker.faults.request import API_NAMES, CONNECT
from highwater.broker.handlers.shared.reply import CloseConnection
from highwater.kafka.protocol.apis import Api
from tests import faults_page
from tests.broker.faults.world import FaultyNode, codes, decoded, sample_frame
from tests.broker.handlers.harness import NodeHarness, request_frame, versions

PARAMETERS: dict[str, dict[str, Any]] = {
    "error": {"error": "POLICY_VIOLATION"},
    "error_after": {"error": "POLICY_VIOLATION"},
    "delay_before": {"ms": 500},
    "delay_after": {"ms": 500},
    "slow_bytes": {"bytes_per_s": 1000},
    "connection_limit": {"most": 1},
    "throttle": {"ms": 1234},
    "slow_fsync": {"ms": 1},
    "clock_jump": {"ms": -5000},
    "lower_versions": {"versions": {"Produce": 7}},
}
CASES = [(kind, name) for kind in KINDS.values() for name in API_NAMES if name in kind.apis]


def script_of(kind: str, api: str, **when: Any) -> str:
    then = {"kind": kind} | PARAMETERS.get(kind, {})
    return json.dumps({"rules": [{"when": {"api": api} | when, "then": then}]})


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeHarness]:
    node = NodeHarness(tmp_path_factory.mktemp("faults") / "log", num_partitions="1")
    node.create_topic("t")
    yield node
    node.close()


def test_every_kind_has_a_case_and_parameters_that_can_be_read() -> None:
    assert len(KINDS) >= 30
    assert {kind.name for kind, _ in CASES} == {name for name, kind in KINDS.items() if set(kind.apis) - {CONNECT}}
    assert len(CASES) > 700


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_fault_is_in_the_answer(shared_node: NodeHarness, kind: Any, name: str) -> None:
    api = API_NAMES[name]
    for version in {versions(api.name)[0], versions(api.name)[-1]}:
        node = FaultyNode(shared_node, script_of(kind.name, name))
        plain = FaultyNode(shared_node, "rules: []")
        frame = sample_frame(api, version)
        if kind.name == "throttle" and not has_throttle_time(api.name, version):
            assert node.injector.on_request(request_of(node, frame), 0) is None
            continue
        made = kind.make(node.injector.script.rules[0].values, request_of(node, frame))
        check_answer(node, plain, frame, api, version, made)
        (injected,) = node.injector.history
        assert (injected.kind, injected.api, injected.version) == (kind.name, name, version)


def request_of(node: FaultyNode, frame: bytes) -> Any:
    """The request that the rules see."""
    found: list[Any] = []
    on_request = node.injector.on_request
    node.injector.on_request = lambda request, now_ms: found.append(request)  # type: ignore[method-assign]
    node.connection.handle = lambda *_: None
    node.connection.dispatch(memoryview(frame), node.client, 0)
    node.injector.on_request = on_request  # type: ignore[method-assign]
    node.connection.handle = node.node.dispatcher.dispatch
    return found[0]


def check_answer(
    node: FaultyNode, plain: FaultyNode, frame: bytes, api: Api, version: int, made: tuple[effects.Effect, ...]
) -> None:
    effect = made[0]
    if isinstance(effect, effects.Drop):
        with pytest.raises(CloseConnection):
            node.send(frame)
        return
    if isinstance(effect, effects.Slow):
        node.send(frame)
        assert node.slow == [1000]
        return
    if isinstance(effect, effects.Delay):
        pending = node.begin(frame)
        node.node.scheduler.run(499)
        assert pending() is None
        node.node.scheduler.run(1)
        node.node.scheduler.run(1000)
        assert pending() is not None
        return
    answer = node.send(frame)
    if isinstance(effect, effects.Silence):
        assert answer is None
    elif isinstance(effect, effects.Fail | effects.Report):
        read_as = 0 if effect.error is ErrorCode.unsupported_version else version
        assert effect.error in set(codes(decoded(api, read_as, answer)))
        assert bool(node.hung_up) == (effects.HangUp() in made)
    elif isinstance(effect, effects.Cut):
        assert answer is not None
        assert len(answer) < int.from_bytes(answer[:4], "big") + 4
        assert node.hung_up
    elif isinstance(effect, effects.JumpClock):
        assert node.clock.moved_ms == -5000
    elif isinstance(effect, effects.MoveLogStart):
        assert node.moved
    elif isinstance(effect, effects.Spoil):
        assert answer != plain.send(frame)
    else:
        assert answer is not None


def test_a_throttle_time_is_in_the_answer(shared_node: NodeHarness) -> None:
    for name in KINDS["throttle"].apis:
        api = API_NAMES[name]
        answer = FaultyNode(shared_node, script_of("throttle", name)).send(sample_frame(api, api.max_version))
        assert decoded(api, api.max_version, answer).throttle_time.total_seconds() == 1.234, name


def test_an_error_stands_where_kafka_puts_it(shared_node: NodeHarness) -> None:
    def answer(api_name: str, version: int, error: str) -> Any:
        api = API_NAMES[api_name]
        script = json.dumps({"rules": [{"when": {"api": api_name}, "then": {"kind": "error", "error": error}}]})
        return decoded(api, version, FaultyNode(shared_node, script).send(sample_frame(api, version)))

    produced = answer("Produce", 11, "NOT_LEADER_OR_FOLLOWER").responses[0]
    assert (produced.name, produced.partition_responses[0].index) == ("t", 0)
    assert produced.partition_responses[0].error_code is ErrorCode.not_leader_or_follower
    assert produced.partition_responses[0].base_offset == -1
    fetched = answer("Fetch", 17, "FETCH_SESSION_ID_NOT_FOUND")
    assert (fetched.error_code, fetched.responses) == (ErrorCode.fetch_session_id_not_found, ())
    assert answer("Fetch", 17, "OFFSET_OUT_OF_RANGE").error_code is ErrorCode.none
    offsets = answer("OffsetFetch", 9, "NOT_COORDINATOR").groups[0]
    assert (offsets.group_id, offsets.error_code, offsets.topics) == ("t", ErrorCode.not_coordinator, ())
    in_older = answer("OffsetFetch", 7, "NOT_COORDINATOR")
    assert (in_older.error_code, in_older.topics) == (ErrorCode.not_coordinator, ())
    found = answer("FindCoordinator", 4, "COORDINATOR_NOT_AVAILABLE").coordinators[0]
    assert (found.key, found.node_id, found.error_code) == ("t", -1, ErrorCode.coordinator_not_available)
    added = answer("AddPartitionsToTxn", 3, "INVALID_TXN_STATE").results_by_topic_v3_and_below[0]
    assert (added.name, added.results_by_partition[0].partition_index) == ("t", 0)
    moved = answer("AlterReplicaLogDirs", 2, "LOG_DIR_NOT_FOUND").results[0]
    assert (moved.topic_name, moved.partitions[0].error_code) == ("t", ErrorCode.log_dir_not_found)
    users = answer("AlterUserScramCredentials", 0, "RESOURCE_NOT_FOUND").results
    assert [(each.user, each.error_code) for each in users] == [("t", ErrorCode.resource_not_found)] * 2
    quotas = answer("AlterClientQuotas", 1, "INVALID_REQUEST").entries[0]
    assert quotas.entity[0].entity_type == "t"
    members = answer("LeaveGroup", 5, "UNKNOWN_MEMBER_ID")
    assert (members.error_code, members.members[0].error_code) == (ErrorCode.none, ErrorCode.unknown_member_id)


def test_an_error_of_metadata_leaves_the_brokers(shared_node: NodeHarness) -> None:
    script = "rules: [{when: {topic: t}, then: {kind: error, error: UNKNOWN_TOPIC_OR_PARTITION}}]"
    api = API_NAMES["Metadata"]
    answer = decoded(api, 12, FaultyNode(shared_node, script).send(sample_frame(api, 12, topics=None)))
    assert [broker.port for broker in answer.brokers] == [9092]
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.unknown_topic_or_partition}


def test_a_request_is_handled_or_not_as_the_kind_says(node: NodeHarness) -> None:
    node.create_topic("t")
    frame = sample_frame(API_NAMES["Produce"], 9)

    def appended(kind: str) -> int:
        before = end_offset(node)
        faulty = FaultyNode(node, script_of(kind, "Produce"))
        with contextlib.suppress(CloseConnection):
            faulty.send(frame)
        return end_offset(node) - before

    handled = {kind: appended(kind) for kind in ("error", "drop_before", "black_hole", "not_leader")}
    assert set(handled.values()) == {0}
    handled = {kind: appended(kind) for kind in ("error_after", "drop_after", "no_answer", "garbage", "cut_answer")}
    assert set(handled.values()) == {1}
    assert appended("duplicate_request") == 2


def end_offset(node: NodeHarness) -> int:
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    return partition.log.log_end_offset


def test_answers_are_swapped(shared_node: NodeHarness) -> None:
    node = FaultyNode(shared_node, script_of("swap_answers", "Metadata", nth=1))
    first = node.begin(sample_frame(API_NAMES["Metadata"], 12))
    assert first() is None
    second = node.begin(sample_frame(API_NAMES["ApiVersions"], 0))
    assert len(decoded(API_NAMES["ApiVersions"], 0, first()).api_keys) > 30
    assert decoded(API_NAMES["Metadata"], 12, second()).brokers
    alone = FaultyNode(shared_node, script_of("swap_answers", "Metadata")).send(
        sample_frame(API_NAMES["Metadata"], 12), 1000
    )
    assert decoded(API_NAMES["Metadata"], 12, alone).brokers


def test_answers_are_swapped_when_the_first_comes_late(node: NodeHarness) -> None:
    node.create_topic("t")
    fetch, versions = API_NAMES["Fetch"], API_NAMES["ApiVersions"]
    faulty = FaultyNode(node, script_of("swap_answers", "Fetch"))
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [partition]}]
    first = faulty.begin(
        request_frame("fetch", 12, replica_id=-1, max_wait=500, min_bytes=1, session_epoch=-1, topics=topics)
    )
    second = faulty.begin(sample_frame(versions, 0))
    assert len(decoded(versions, 0, first()).api_keys) > 30
    assert second() is None
    node.scheduler.run(1000)
    assert decoded(fetch, 12, second()).error_code is ErrorCode.none


def test_an_answer_that_never_comes_is_not_swapped(node: NodeHarness) -> None:
    node.create_topic("t")
    faulty = FaultyNode(node, script_of("swap_answers", "Produce"))
    assert faulty.begin(sample_frame(API_NAMES["Produce"], 9, acks=0))() is not None
    versions = API_NAMES["ApiVersions"]
    assert decoded(versions, 0, faulty.begin(sample_frame(versions, 0))()).api_keys


def test_metadata_is_stale(node: NodeHarness) -> None:
    node.create_topic("t")
    api = API_NAMES["Metadata"]

    def topic(kind: str) -> Any:
        frame = sample_frame(api, 12, topics=None)
        answer = decoded(api, 12, FaultyNode(node, script_of(kind, "Metadata", topic="t")).send(frame))
        return next(topic for topic in answer.topics if topic.name == "t")

    assert topic("old_leader").partitions[0].leader_id == 1
    assert topic("leader_unknown").partitions[0].error_code is ErrorCode.leader_not_available
    assert topic("missing_topic").error_code is ErrorCode.unknown_topic_or_partition
    answer = FaultyNode(node, script_of("wrong_port", "Metadata")).send(sample_frame(api, 12))
    assert [broker.port for broker in decoded(api, 12, answer).brokers] == [1]


def test_advertised_versions_are_lower(shared_node: NodeHarness) -> None:
    api = API_NAMES["ApiVersions"]
    answer = decoded(
        api, 4, FaultyNode(shared_node, script_of("lower_versions", "ApiVersions")).send(sample_frame(api, 4))
    )
    assert {each.api_key: each.max_version for each in answer.api_keys}[0] == 7


def test_records_are_corrupt_or_missing(node: NodeHarness) -> None:
    node.create_topic("t")
    node.produce("t", b"value")
    api = API_NAMES["Fetch"]
    plain = FaultyNode(node, "rules: []").send(sample_frame(api, 11))
    corrupt = FaultyNode(node, script_of("corrupt_records", "Fetch")).send(sample_frame(api, 11))
    assert plain is not None
    assert corrupt is not None
    assert len(plain) == len(corrupt)
    assert plain != corrupt


def test_the_page_has_the_table_of_kinds() -> None:
    assert faults_page.PAGE.read_text("utf-8") == faults_page.page(), "docs/faults.md is stale; run: make docs"
