"""The dispatcher of a broker with faults gives the same bytes as one without, where no rule hits."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.broker.handlers.shared.reply import CloseConnection, PendingResponse
from highwater.kafka.protocol.apis import APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from highwater.kafka.protocol.primitives import MalformedRequestError
from tests.broker.faults.world import FaultyNode, sample_frame
from tests.broker.handlers.harness import NodeHarness, versions

FRAMES = [
    sample_frame(api, version)
    for api in APIS.values()
    if api.key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE)
    # Random ids, or the log directory, are in these answers.
    and api.name not in ("create_topics", "join_group", "metadata", "describe_cluster", "describe_log_dirs")
    for version in versions(api.name)
]


def answers(path: Path, script: str | None) -> list[bytes | None]:
    # Ids of fetch sessions are random.
    slots = {"max_incremental_fetch_session_cache_slots": "0"}
    node = NodeHarness(path, num_partitions="1", auto_create_topics_enable="false", **slots)
    try:
        faulty = FaultyNode(node, script or "rules: []")
        if script is None:
            faulty.connection.dispatch = node.dispatcher.dispatch  # type: ignore[method-assign]
        return [faulty.send(frame) for frame in FRAMES]
    finally:
        node.close(clean=False)


def test_no_script_and_scripts_that_hit_nothing_give_the_same_bytes(tmp_path: Path) -> None:
    plain = answers(tmp_path / "plain", None)
    assert sum(answer is not None for answer in plain) > 150
    assert answers(tmp_path / "empty", "rules: []") == plain
    other = "rules: [{when: {client_id: nobody, topic: x}, then: {kind: drop_before}}]"
    assert answers(tmp_path / "other", other) == plain


def test_what_is_no_request_is_refused_as_without_faults(node: NodeHarness) -> None:
    faulty = FaultyNode(node, "rules: [{then: {kind: black_hole}}]")
    for frame in (b"", b"\x00\x00\x00\x63\x00\x00\x00\x01\xff\xff", sample_frame(APIS[8], 2)[:20]):
        with pytest.raises(MalformedRequestError):
            node.send(frame)
        if len(frame) < 20:
            with pytest.raises(MalformedRequestError):
                faulty.send(frame)


def test_a_produce_without_an_answer_ends_its_connection(node: NodeHarness) -> None:
    node.create_topic("t")
    faulty = FaultyNode(node, "rules: [{when: {api: Produce}, then: {kind: not_leader}}]")
    with pytest.raises(CloseConnection):
        faulty.send(sample_frame(APIS[0], 9, acks=0))


def test_a_client_that_leaves_ends_what_waits(node: NodeHarness) -> None:
    faulty = FaultyNode(node, "rules: [{then: {kind: delay_before, ms: 1000}}]")
    reply = faulty.connection.dispatch(memoryview(sample_frame(APIS[3], 12)), faulty.client, 0)
    assert isinstance(reply, PendingResponse)
    reply.deferred.cancel()
    assert node.scheduler.pending_timers == 0
