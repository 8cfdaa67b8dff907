"""Tests that a request which gives way all the time has the answer of one that is handled at once."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker import turns
from highwater.broker.handlers.shared.reply import Client
from highwater.broker.topics.administration import Terms
from highwater.kafka.pacing import takes_turns
from highwater.kafka.protocol.apis import ONE_STEP_ITEMS_MAX
from highwater.kafka.protocol.primitives import MAX_BYTES, MalformedRequestError, TooManyItemsError
from highwater.kafka.protocol.problem import Problem
from highwater.kafka.records import record_times
from highwater.kafka.records.batch import Codec
from highwater.kafka.records.record import Record, encode_batch, unfolded_records
from tests.broker.handlers.harness import LISTENER, NodeHarness, Pending, request_frame

NAMES = [f"n{number}" for number in range(300)]
OFFSETS = {"partition_index": 0, "timestamp": 5, "current_leader_epoch": -1}
FETCHED = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
REQUESTS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "metadata": ("metadata", 8, {"topics": [{"name": name} for name in NAMES], "allow_auto_topic_creation": False}),
    "list_offsets": (
        "list_offsets",
        6,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": name, "partitions": [OFFSETS]} for name in ["t", *NAMES]],
        },
    ),
    "describe_configs": (
        "describe_configs",
        3,
        {"resources": [{"resource_type": 2, "resource_name": n, "configuration_keys": None} for n in ["t", *NAMES]]},
    ),
    "delete_topics": ("delete_topics", 5, {"topic_names": NAMES, "timeout": 1000}),
    "describe_groups": ("describe_groups", 4, {"groups": NAMES, "include_authorized_operations": False}),
    "fetch": (
        "fetch",
        11,
        {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "topics": [{"topic": "t", "partitions": [FETCHED] * 200}],
        },
    ),
}


def in_turns(node: NodeHarness, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], Any]) -> Any:
    """Return the answer to a request that gives way as often as it may, and that it did."""
    with monkeypatch.context() as patched:
        patched.setattr(turns, "SLICE_NS", 0)
        pending = ask()
        assert isinstance(pending, Pending), "it did not give way"
        assert pending.answer is None
        node.scheduler.run()
    answer: Any = pending.answer
    assert answer is not None
    return answer


@pytest.mark.parametrize("name", REQUESTS)
def test_the_answer_is_the_same(node: NodeHarness, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    node.create_topic("t")
    node.produce("t", b"a", b"b")
    api, version, fields = REQUESTS[name]
    at_once = node.ask(api, version, **fields)
    assert in_turns(node, monkeypatch, lambda: node.ask(api, version, **fields)) == at_once


def test_a_batch_is_opened_in_turns(node: NodeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    node.create_topic("compacted", cleanup_policy="compact")
    records = [Record(b"v", b"k", node.clock.now_ms()) for _ in range(1000)]
    batch = bytes(encode_batch(records, codec=Codec.ZSTD))
    answer = in_turns(node, monkeypatch, lambda: node.produce_records("compacted", batch))
    assert answer.responses[0].partition_responses[0].base_offset == 0
    partition = node.node.partitions.find("compacted", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 1000


def test_what_one_request_has_opened_is_limited(node: NodeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.kafka.records.produced.MAX_RECORDS", 30)
    node.create_topic("compacted", partitions=2, cleanup_policy="compact")
    batch = bytes(encode_batch([Record(b"v", b"k", node.clock.now_ms()) for _ in range(20)]))
    data = [{"index": index, "records": batch} for index in (0, 1)]
    answer = node.ask(
        "produce", 9, acks=1, timeout=1000, topic_data=[{"name": "compacted", "partition_data": data}]
    ).responses[0]
    first, second = answer.partition_responses
    assert first.error_code.name == "none"
    assert second.error_code.name == "invalid_record"
    assert "more than the 30 that are opened at once" in second.error_message


def test_changes_that_are_made_in_one_step_are_limited(node: NodeHarness) -> None:
    resources = [{"resource_type": 2, "resource_name": "t", "configs": []}] * (ONE_STEP_ITEMS_MAX + 1)
    with pytest.raises(TooManyItemsError, match="more than 10,000 items in all; send them in parts"):
        node.ask("alter_configs", 1, resources=resources, validate_only=False)


def test_a_message_does_not_quote_a_text_that_no_answer_could_hold(node: NodeHarness) -> None:
    operation = {"key": "k" * 60_000, "value": 1.0, "remove": False}
    entry = {"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": [operation]}
    (answer,) = node.ask("alter_client_quotas", 1, entries=[entry], validate_only=False).entries
    assert answer.error_message.startswith("Invalid configuration key kkk")
    assert len(answer.error_message) < 3000


def test_a_malformed_request_is_not_in_memory_until_the_next_collection(node: NodeHarness) -> None:
    whole = request_frame("list_offsets", 6, replica_id=-1, isolation_level=0, topics=[{"name": "t", "partitions": []}])
    frame = bytearray(whole[:-3])
    gc.disable()
    try:
        with contextlib.suppress(MalformedRequestError):
            node.dispatcher.dispatch(memoryview(frame), Client(LISTENER))
            pytest.fail("the request is malformed")
        frame.clear()  # BufferError: something refers to the frame
    finally:
        gc.enable()


def test_bytes_that_are_copied_in_one_step_are_limited(node: NodeHarness) -> None:
    half = b"x" * (MAX_BYTES // 2)

    def ask(*subscriptions: bytes) -> Any:
        protocols = [{"name": f"p{number}", "metadata": each} for number, each in enumerate(subscriptions)]
        fields = {"session_timeout": 10_000, "protocol_type": "consumer", "member_id": "unknown"}
        return node.ask("join_group", 0, group_id="g", protocols=protocols, **fields)

    assert ask(half, half).error_code
    with pytest.raises(MalformedRequestError, match="more than 8,388,608 bytes in all"):
        ask(half, half, b"x")


def test_a_compressed_batch_with_a_doubtful_header_is_opened_in_turns(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some kilobytes may take a second to decompress, as 50,000 members of gzip do."""
    node.create_topic("t")
    batch = bytes(encode_batch([Record(b"v", b"k", 1)], codec=Codec.GZIP))
    opened: list[bool] = []

    def noting(*arguments: Any, **options: Any) -> Any:
        opened.append(takes_turns())
        return unfolded_records(*arguments, **options)

    monkeypatch.setattr(record_times, "unfolded_records", noting)
    assert not node.produce_records("t", batch).error_code
    assert opened == [True]
    current = bytes(encode_batch([Record(b"v", b"k", node.clock.now_ms())], codec=Codec.GZIP))
    assert not node.produce_records("t", current).error_code
    assert opened == [True]


def test_a_refusal_is_audited_in_turns_after_its_client_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeHarness(tmp_path, authorizer_class_name="kafka.security.authorizer.AclAuthorizer", super_users="User:a")
    node.user = "a"
    steps: list[int] = []
    audit = node.node.audit
    assert audit is not None
    refused = audit.refused

    def noting(*arguments: Any) -> None:
        steps.append(step)
        refused(*arguments)

    monkeypatch.setattr(audit, "refused", noting)
    monkeypatch.setattr(turns, "SLICE_NS", 0)
    step = 0
    waiting: list[Callable[[], None]] = []
    missing = Problem(ErrorCode.unknown_topic_or_partition, "there is no such topic")

    def later(names: Sequence[str], terms: Terms, then: Callable[[list[Problem]], None]) -> None:
        waiting.append(lambda: then([missing] * len(names)))

    monkeypatch.setattr(node.topics, "delete_topics", later)
    pending = node.ask("delete_topics", 5, topic_names=NAMES, timeout=1000)
    node.scheduler.run()
    pending.cancel()
    waiting[0]()
    while node.scheduler._soon:
        step += 1
        node.scheduler._soon.pop(0)()
    assert len(steps) == len(NAMES)
    assert len(set(steps)) > len(NAMES) // 2
    node.close()
