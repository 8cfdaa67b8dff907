"""A partition as its leader sees it: what readers and producers may know, and when, over restarts too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from highwater.broker.replica.waiters import FetchWaiter
from tests.broker.handlers.harness import NodeHarness, Pending


def test_a_parked_fetch_wakes_for_records_that_the_flush_before_left_behind(
    make_node: Callable[..., NodeHarness],
) -> None:
    node = make_node()
    node.create_topic("t", flush_messages="1")
    node.produce("t", b"first")
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    ticket = partition.log.begin_flush()
    assert ticket is not None
    node.produce("t", b"second")
    ticket.sync()
    partition.log.complete_flush(ticket)
    partition.flushed()
    assert partition.high_watermark == 1

    fetch = node.fetch("t", 1, max_wait=500)
    assert isinstance(fetch, Pending)
    node.flush()
    node.scheduler.run()
    assert not fetch.waits


def test_fetches_that_wait_are_answered_in_the_order_in_which_they_came(node: NodeHarness) -> None:
    """In any other order, a history of the simulation would not be the same in every process."""
    node.create_topic("t")
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    answered: list[int] = []
    for number in range(20):
        waits_in = [partition.waiters(for_followers=False)]
        FetchWaiter(waits_in, 1, 500, node.scheduler, partial(answered.append, number))
    node.produce("t", b"record")
    node.scheduler.run()
    assert answered == list(range(20))


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_records_that_a_crash_left_unflushed_are_flushed_before_anybody_hears_of_them(
    tmp_path: Path, is_idempotent: bool
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if is_idempotent else {}
    node = NodeHarness(tmp_path / "log")
    node.create_topic("t", flush_messages="1")
    assert isinstance(node.produce("t", b"x", **producer), Pending)
    node.close(clean=False)

    node = NodeHarness(tmp_path / "log")
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)
    again = node.produce("t", b"x", **producer)
    assert isinstance(again, Pending)
    assert partition.log.flush_is_due(0)
    node.wanted_flushes.append(partition)
    node.flush()
    node.scheduler.run()
    assert again.answer.responses[0].partition_responses[0].base_offset == (0 if is_idempotent else 1)
    assert partition.high_watermark == partition.log.log_end_offset
    node.close(clean=False)


@pytest.mark.parametrize("has_records", [False, True])
def test_a_reader_who_came_to_the_end_in_a_run_that_wrote_nothing_stays_there(
    tmp_path: Path, has_records: bool
) -> None:
    """Were its epoch unknown to the next run, the reader would go back to where auto.offset.reset says."""
    node = NodeHarness(tmp_path / "log")
    node.create_topic("t")
    if has_records:
        node.produce("t", b"x")
    node.close()
    node = NodeHarness(tmp_path / "log")
    node.close()
    node = NodeHarness(tmp_path / "log")
    partition = node.node.partitions.find("t", 0)
    assert partition is not None
    end = partition.log.log_end_offset
    silent_epoch = partition.leader_epoch - 1
    assert partition.end_of_epoch(silent_epoch) == (silent_epoch - 1 if has_records else silent_epoch, end)
    assert partition.end_of_epoch(partition.leader_epoch + 1) == (-1, -1)
    node.produce("t", b"y")
    assert partition.end_of_epoch(silent_epoch)[1] == end
    node.close(clean=False)
