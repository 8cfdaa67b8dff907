"""Retention of a running broker: a process looks at the records where headers may be wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from highwater.broker.log.files import RealFiles
from highwater.broker.server.log_keeper import LogKeeper
from highwater.broker.server.worker_process import WorkerEnded, WorkerProcess
from highwater.kafka.records.batch import HEADER, Codec, read_header, update_crc
from highwater.kafka.records.record import Record, encode_batch
from tests.broker.handlers.harness import NodeHarness
from tests.broker.log.building import append

HOUR_MS = 3_600_000


async def run_here(work: Callable[[], None]) -> None:
    work()


def fill(node: NodeHarness, topic: str, *times: int, max_timestamp_ms: int, is_damaged: bool = False) -> None:
    """Two segments of one batch each, as another version of the broker may have written them."""
    log = node.create_topic(topic, retention_ms="60000", segment_bytes="200").partitions[0].log
    for _ in range(2):
        batch = encode_batch([Record(b"x" * 60, None, each) for each in times], codec=Codec.ZSTD)
        HEADER.pack_into(batch, 0, *read_header(batch)._replace(max_timestamp_ms=max_timestamp_ms))
        if is_damaged:
            batch[61:] = bytes(len(batch) - 61)
        update_crc(batch, 0, len(batch))
        append(log, batch)


def keeper_of(node: NodeHarness) -> LogKeeper:
    """Its partitions have no unreplicated records."""
    for partition in node.node.partitions.live():
        partition.high_watermark = partition.log.log_end_offset
    return LogKeeper(node.node, RealFiles(), run_here, lambda error, directory: None)


def starts(node: NodeHarness) -> dict[str, int]:
    return {topic: log.log_start_offset for (topic, _), log in node.log_directory.logs.items()}


def test_what_goes_by_age_is_looked_at(node: NodeHarness, caplog: pytest.LogCaptureFixture) -> None:
    now_ms = time.time_ns() // 1_000_000
    node.clock.jump_ms(now_ms - node.clock.now_ms())
    old_ms = now_ms - HOUR_MS
    fill(node, "hidden", old_ms, now_ms, max_timestamp_ms=old_ms)
    fill(node, "old", old_ms, old_ms, max_timestamp_ms=old_ms)
    fill(node, "damaged", old_ms, max_timestamp_ms=old_ms, is_damaged=True)
    keeper = keeper_of(node)
    asyncio.run(keeper.delete_expired())
    assert starts(node) == {"hidden": 0, "old": 4, "damaged": 0}
    (line,) = [message for message in caplog.messages if "cannot be looked at" in message]
    assert line.startswith(
        f"{node.log_directory.path}/damaged-0/00000000000000000000.log cannot be looked at: zstd data"
    )
    assert line.endswith("; it stays until retention.ms has passed since its last write")
    node.clock.jump_ms(62_000)
    asyncio.run(keeper.delete_expired())
    node.clock.jump_ms(1)
    asyncio.run(keeper.delete_expired())
    assert starts(node) == {"hidden": 4, "old": 4, "damaged": 2}


def test_without_a_process_nothing_goes_on_the_word_of_a_header(
    node: NodeHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask(worker: WorkerProcess, order: object) -> dict[str, object]:
        raise WorkerEnded("no process can be started: Too many open files")

    monkeypatch.setattr(WorkerProcess, "ask", ask)
    now_ms = time.time_ns() // 1_000_000
    node.clock.jump_ms(now_ms - node.clock.now_ms())
    fill(node, "old", now_ms - HOUR_MS, max_timestamp_ms=now_ms - HOUR_MS)
    asyncio.run(keeper_of(node).delete_expired())
    assert starts(node) == {"old": 0}
    assert "no process can be started: Too many open files; it stays" in caplog.text
