"""Topics of a lone broker that come and go in slices: what others see and may do in between."""

from __future__ import annotations

import errno
import gc
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker import slices
from highwater.broker.log.files import RealFiles
from highwater.broker.replica.partition import Partition
from tests.broker.handlers.harness import NodeHarness, Pending
from tests.broker.told_thread import ToldThread

NONE = ErrorCode.none


@pytest.fixture(autouse=True)
def one_step_in_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_NS", 0)


def create(node: NodeHarness, name: str, partitions: int) -> Any:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    return node.ask("create_topics", 7, topics=[topic], timeout=1000, validate_only=False)


def delete(node: NodeHarness, *names: str) -> Any:
    return node.ask("delete_topics", 4, topic_names=list(names), timeout=1000)


def metadata(node: NodeHarness, name: str) -> Any:
    return node.ask("metadata", 4, topics=[{"name": name}], allow_auto_topic_creation=True).topics[0]


def completed(node: NodeHarness, pending: Any) -> Any:
    assert isinstance(pending, Pending)
    assert pending.waits
    node.scheduler.run()
    return pending.answer


def test_a_topic_that_is_coming_is_not_there_yet_and_its_name_is_taken(node: NodeHarness) -> None:
    coming = create(node, "large.topic", 9)
    assert metadata(node, "large.topic").error_code is ErrorCode.leader_not_available, "which clients ask again after"
    for name, error in (
        ("large.topic", ErrorCode.topic_already_exists),
        ("large_topic", ErrorCode.invalid_topic_exception),
    ):
        assert create(node, name, 1).topics[0].error_code is error
    assert delete(node, "large.topic").responses[0].error_code is ErrorCode.unknown_topic_or_partition
    small = create(node, "small", 1)
    answer = completed(node, coming)
    assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (NONE, 9)
    assert small.answer.topics[0].error_code is NONE
    assert len(metadata(node, "large.topic").partitions) == 9


def test_a_topic_that_is_going_is_unknown_and_its_name_is_not_free_yet(node: NodeHarness) -> None:
    completed(node, create(node, "t", 9))
    before = node.node.partitions.topic("t")
    assert before is not None
    going = delete(node, "t")
    assert node.node.partitions.topic("t") is None
    refused = create(node, "t", 1).topics[0]
    assert refused.error_code is ErrorCode.topic_already_exists
    assert "marked for deletion" in refused.error_message
    assert delete(node, "t").responses[0].error_code is ErrorCode.unknown_topic_or_partition
    assert completed(node, going).responses[0].error_code is NONE
    assert not [name for name, _ in node.log_directory.logs if name == "t"]
    completed(node, create(node, "t", 2))
    after = node.node.partitions.topic("t")
    assert after is not None
    assert after.topic_id != before.topic_id
    assert len(after.partitions) == 2


class Disk(ToldThread):
    """Waits with what is done aside."""

    def __init__(self, node: NodeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._node = node
        monkeypatch.setattr(node.topics._stepping, "_run_aside", self.run_aside)

    def go_on(self) -> None:
        while not self.is_idle:
            super().go_on()
            self._node.scheduler.run()


def test_others_meet_a_topic_while_the_disk_writes_that_it_comes_or_goes(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(node, monkeypatch)
    coming = create(node, "t", 9)
    node.scheduler.run()
    assert create(node, "t", 1).topics[0].error_code is ErrorCode.topic_already_exists
    assert delete(node, "t").responses[0].error_code is ErrorCode.unknown_topic_or_partition
    assert metadata(node, "t").error_code is ErrorCode.leader_not_available
    disk.go_on()
    assert coming.answer.topics[0].error_code is NONE
    going = delete(node, "t")
    node.scheduler.run()
    assert len(metadata(node, "t").partitions) == 9, "it is there until the disk has the mark"
    assert delete(node, "t").responses[0].error_code is ErrorCode.unknown_topic_or_partition
    assert create(node, "t", 1).topics[0].error_code is ErrorCode.topic_already_exists
    disk.go_on()
    assert going.answer.responses[0].error_code is NONE
    assert not [name for name, _ in node.log_directory.logs if name == "t"]


def test_a_topic_that_cannot_be_written_is_refused_and_its_name_is_free(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(node, monkeypatch)
    coming = create(node, "t", 9)
    with monkeypatch.context() as patch:
        patch.setattr(RealFiles, "sync", broken)
        disk.go_on()
    assert coming.answer.topics[0].error_code is ErrorCode.kafka_storage_error
    again = create(node, "t", 9)
    disk.go_on()
    assert again.answer.topics[0].error_code is NONE


def broken(files: RealFiles, descriptor: int) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_deleted_topic_gives_its_memory_back_in_slices_and_without_the_collector(node: NodeHarness) -> None:
    """The collector looks at what lives long almost never, and then at all of it in one piece."""
    completed(node, create(node, "none.else.has.this", 9))
    gc.collect()
    gc.disable()
    try:
        assert partitions_in_memory("none.else.has.this") == 9
        going = delete(node, "none.else.has.this")
        assert partitions_in_memory("none.else.has.this") == 8, "one step"
        completed(node, going)
        assert partitions_in_memory("none.else.has.this") == 0
    finally:
        gc.enable()


def partitions_in_memory(topic: str) -> int:
    return sum(isinstance(each, Partition) and each.topic == topic for each in gc.get_objects())


@pytest.mark.parametrize("is_going", [False, True])
def test_a_broker_that_stops_in_between_finishes_at_its_next_start(tmp_path: Path, is_going: bool) -> None:
    node = NodeHarness(tmp_path / "log")
    pending = create(node, "t", 9)
    if is_going:
        completed(node, pending)
        pending = delete(node, "t")
    node.close()
    node.scheduler.run()
    assert pending.waits, "what is left of the work is not done in closed directories"
    again = NodeHarness(tmp_path / "log")
    topic = again.node.partitions.topic("t")
    if is_going:
        assert topic is None
        assert not again.log_directory.logs
    else:
        assert topic is not None
        assert len(topic.partitions) == 9
    again.close(clean=False)
