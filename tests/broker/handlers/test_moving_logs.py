"""AlterReplicaLogDirs: what is asked for, what is shown of it, and that it happens while the partition is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.log import moving
from highwater.broker.server.log_mover import LogMover
from highwater.kafka.records.record import decode_batch
from tests.broker.handlers.harness import NodeHarness, versions


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeHarness]:
    node = NodeHarness(tmp_path / "a", [tmp_path / "b"])
    yield node
    node.close(clean=False)


def ask(node: NodeHarness, path: Path | str, topic: str = "t", partition: int = 0, version: int = 2) -> ErrorCode:
    wanted = {"path": str(path), "topics": [{"name": topic, "partitions": [partition]}]}
    (result,) = node.ask("alter_replica_log_dirs", version, dirs=[wanted]).results
    assert result.topic_name == topic
    assert result.partitions[0].partition_index == partition
    code: ErrorCode = result.partitions[0].error_code
    return code


def places(node: NodeHarness) -> dict[str, tuple[int, int, bool]]:
    """(size, lag, whether it is yet to be) of the one partition, by directory."""
    return {
        Path(result.log_dir).name: (entry.partition_size, entry.offset_lag, entry.is_future_key)
        for result in node.ask("describe_log_dirs", 4, topics=None).results
        for topic in result.topics
        for entry in topic.partitions
    }


def move_all(node: NodeHarness, in_between: Callable[[], None] = lambda: None) -> None:
    async def run_in_thread(work: Callable[[], None]) -> None:
        work()
        in_between()

    def on_failure(error: OSError, directory: Any) -> None:
        raise error

    asyncio.run(LogMover(node.node, run_in_thread, on_failure).move_what_is_due())


def produce(node: NodeHarness, count: int = 1) -> None:
    for _ in range(count):
        assert node.produce("t", b"x" * 1000, acks=-1).error_code == ErrorCode.none


def read(node: NodeHarness) -> int:
    """How many records there are, read from the first to the last."""
    log = node.node.partitions.find("t", 0).log  # type: ignore[union-attr]
    offset = 0
    while offset < log.log_end_offset:
        records = bytes(node.fetch("t", offset).responses[0].partitions[0].records)
        assert decode_batch(records)[0].offset == offset
        offset += 1
    return offset


@pytest.mark.parametrize("version", versions("alter_replica_log_dirs"))
def test_a_partition_moves_while_it_is_used(
    node: NodeHarness, tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "ROUND_BYTES", 300_000)
    node.create_topic("t", segment_bytes="50000")
    produce(node, 600)
    assert ask(node, tmp_path / "b", version=version) == ErrorCode.none
    size = places(node)["a"][0]
    assert places(node) == {"a": (size, 0, False), "b": (0, 600, True)}
    seen = []

    def in_between() -> None:
        produce(node)
        seen.append(places(node))

    move_all(node, in_between)
    assert any(0 < place["b"][0] < place["a"][0] and place["b"][2] for place in seen if "b" in place)
    (place,) = places(node).items()
    assert (place[0], place[1][1:]) == ("b", (0, False))
    assert read(node) == 600 + len(seen)
    produce(node)
    assert node.node.partitions.take_purge()
    node.close()
    again = NodeHarness(tmp_path / "a", [tmp_path / "b"])
    assert read(again) == 601 + len(seen)
    again.close()


def test_refusals(node: NodeHarness, tmp_path: Path) -> None:
    node.create_topic("t")
    assert ask(node, tmp_path / "elsewhere") == ErrorCode.log_dir_not_found
    assert ask(node, tmp_path / "b", topic="other") == ErrorCode.unknown_topic_or_partition
    assert ask(node, tmp_path / "b", partition=1) == ErrorCode.unknown_topic_or_partition
    node.create_topic("x" * 249)
    assert ask(node, tmp_path / "b", topic="x" * 249) == ErrorCode.invalid_topic_exception
    node.node.partitions.fail_directory(node.log_directories.all[1])
    assert ask(node, tmp_path / "b") == ErrorCode.kafka_storage_error


def test_a_move_is_called_off_by_asking_for_where_the_partition_is(
    node: NodeHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "LAST_BYTES", 0)
    node.create_topic("t")
    produce(node, 3)
    assert ask(node, tmp_path / "b") == ErrorCode.none
    move_all(node, lambda: None if ask(node, tmp_path / "a") == ErrorCode.none else pytest.fail("refused"))
    assert list(places(node)) == ["a"]
    assert not [path for path in (tmp_path / "b").iterdir() if path.name.endswith("-future")]
    assert read(node) == 3


def test_a_log_is_not_moved_to_a_directory_that_fails_meanwhile(
    node: NodeHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may fail for another partition, and take what is copied to it without a complaint."""
    monkeypatch.setattr(moving, "LAST_BYTES", 0)
    node.create_topic("t")
    produce(node, 3)
    ask(node, tmp_path / "b")

    def fail() -> None:
        node.node.partitions.fail_directory(node.log_directories.all[1])

    move_all(node, fail)
    assert node.node.partitions.moves == {}
    assert node.log_directories.all[0].logs["t", 0].directory.parent == tmp_path / "a"
    assert read(node) == 3


def test_a_topic_that_is_deleted_takes_its_move_along(
    node: NodeHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "LAST_BYTES", 0)
    node.create_topic("t")
    produce(node, 3)
    ask(node, tmp_path / "b")
    move_all(node, lambda: node.topics.delete("t") and None)
    assert (node.node.partitions.moves, places(node)) == ({}, {})
    assert not [path for path in (tmp_path / "b").iterdir() if path.name.endswith("-future")]


def test_a_move_that_a_restart_interrupts_begins_anew(node: NodeHarness, tmp_path: Path) -> None:
    node.create_topic("t")
    produce(node, 3)
    ask(node, tmp_path / "b")
    (move,) = node.node.partitions.moves.values()
    move.begin()
    node.close(clean=False)
    again = NodeHarness(tmp_path / "a", [tmp_path / "b"])
    assert places(again)["b"] == (0, 3, True)
    move_all(again)
    assert places(again)["b"][1:] == (0, False)
    assert read(again) == 3
    again.close()
