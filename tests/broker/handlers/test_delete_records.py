"""DeleteRecords: where logs start afterwards, what is refused, and when the answer comes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker.handlers.harness import NodeHarness, Pending


def delete(node: NodeHarness, topic: str, offset: int, partition: int = 0, version: int = 2) -> Any:
    answer = node.ask(
        "delete_records",
        version,
        topics=[{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}],
        timeout=1000,
    )
    return answer if isinstance(answer, Pending) else _only(answer)


def _only(answer: Any) -> Any:
    return answer.topics[0].partitions[0]


def test_records_before_the_offset_are_gone_for_readers_and_after_a_restart(node: NodeHarness) -> None:
    node.create_topic("t")
    for value in (b"a", b"b", b"c"):
        node.produce("t", value)
    for version in (0, 1, 2):
        answer = delete(node, "t", 2, version=version)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 2)
    assert delete(node, "t", 1).low_watermark == 2
    fetched = node.fetch("t", 1).responses[0].partitions[0]
    assert fetched.error_code is ErrorCode.offset_out_of_range
    assert delete(node, "t", -1).low_watermark == 3
    checkpoint = node.log_directory.path / "log-start-offset-checkpoint"
    assert checkpoint.read_text() == "0\n1\nt 0 3\n"


def test_what_cannot_be_deleted_is_refused(node: NodeHarness) -> None:
    node.create_topic("t")
    node.create_topic("compacted", cleanup_policy="compact")
    node.produce("t", b"a")
    for topic, offset, error in (
        ("t", 2, ErrorCode.offset_out_of_range),
        ("t", -2, ErrorCode.offset_out_of_range),
        ("absent", 0, ErrorCode.unknown_topic_or_partition),
        ("compacted", 0, ErrorCode.policy_violation),
        ("__consumer_offsets", 0, ErrorCode.invalid_topic_exception),
    ):
        refused = delete(node, topic, offset)
        assert (refused.error_code, refused.low_watermark) == (error, -1)


def test_the_answer_waits_for_the_checkpoint_and_tells_when_it_fails(node: NodeHarness) -> None:
    node.create_topic("t")
    node.produce("t", b"a")
    waiting: list[Callable[[OSError | None], None]] = []
    node.replace(storage=replace(node.node.storage, request_checkpoint=waiting.append))
    pending = delete(node, "t", 1)
    assert pending.answer is None
    waiting.pop()(OSError(errno.EIO, "Input/output error"))
    assert _only(pending.answer).error_code is ErrorCode.kafka_storage_error
