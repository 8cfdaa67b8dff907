"""A disk that cannot be read: the client hears of it, at once, and the connection stays."""

from __future__ import annotations

import errno
from unittest.mock import patch

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log.errors import CorruptIndex
from highwater.broker.log.files import RealFiles
from highwater.kafka.records.batch import CorruptBatch
from tests.broker.handlers.harness import NodeHarness, Pending


def test_a_read_error_is_answered_to_a_fetch(node: NodeHarness) -> None:
    node.create_topic("t")
    node.produce("t", b"x")
    with patch.object(RealFiles, "pread", side_effect=OSError(errno.EIO, "Input/output error")):
        answer = node.fetch("t", 0, max_wait=500)
    assert answer.responses[0].partitions[0].error_code is ErrorCode.kafka_storage_error


def test_a_read_error_is_answered_to_a_parked_fetch(node: NodeHarness) -> None:
    node.create_topic("t")
    parked = node.fetch("t", 0, max_wait=500)
    assert isinstance(parked, Pending)
    node.produce("t", b"x")
    with patch.object(RealFiles, "pread", side_effect=OSError(errno.EIO, "Input/output error")):
        node.scheduler.run()
    assert parked.answer.responses[0].partitions[0].error_code is ErrorCode.kafka_storage_error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.EIO, "Input/output error"), ErrorCode.kafka_storage_error),
        (CorruptBatch("magic 0 is not 2"), ErrorCode.corrupt_message),
        (CorruptIndex("the entries do not rise"), ErrorCode.corrupt_message),
    ],
)
@pytest.mark.parametrize("timestamp", [-3, 0])
def test_damage_is_answered_to_a_lookup_by_time(
    node: NodeHarness, error: Exception, code: ErrorCode, timestamp: int
) -> None:
    node.create_topic("t")
    node.produce("t", b"x")
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    with patch("highwater.broker.log.segment.Segment.find_timestamp", side_effect=error):
        answer = node.ask(
            "list_offsets",
            7,
            replica_id=-1,
            topics=[{"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}],
        )
    assert answer.topics[0].partitions[0].error_code is code
