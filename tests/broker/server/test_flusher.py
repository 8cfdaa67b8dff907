"""The flusher with logs that count their syncs."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any, cast

import pytest

from highwater.broker.server.flusher import Flusher


class Ticket:
    def __init__(self, log: Log) -> None:
        self._log = log

    def sync(self) -> None:
        self._log.syncs += 1
        if self._log.error is not None:
            raise self._log.error

    @property
    def is_synced(self) -> bool:
        return not self._log.disk_is_full


class Log:
    def __init__(self) -> None:
        self.syncs = 0
        self.completed = 0
        self.error: OSError | None = None
        self.begin_error: OSError | None = None
        self.has_something = True
        self.disk_is_full = False

    def begin_flush(self) -> Ticket | None:
        if self.begin_error is not None:
            raise self.begin_error
        return Ticket(self) if self.has_something else None

    def complete_flush(self, ticket: Ticket) -> None:
        self.completed += 1


class FakePartition:
    topic = "t"
    index = 0

    def __init__(self) -> None:
        self.log = Log()
        self.has_ended = False
        self.flushes = 0

    def flushed(self) -> None:
        self.flushes += 1


def run(partition: FakePartition, requests: int) -> list[OSError]:
    """Request a partition's flush several times in one turn of the loop; what the flusher says has failed."""
    failures: list[OSError] = []

    async def scenario() -> None:
        flusher = Flusher(asyncio.get_running_loop(), lambda error, _: failures.append(error))
        for _ in range(requests):
            flusher.request(cast(Any, partition))
        await flusher.close()

    asyncio.run(scenario())
    return failures


def test_requests_that_come_together_share_one_sync() -> None:
    partition = FakePartition()
    assert run(partition, requests=5) == []
    assert (partition.log.syncs, partition.log.completed, partition.flushes) == (1, 1, 1)


def test_a_log_with_nothing_to_sync_is_flushed() -> None:
    partition = FakePartition()
    partition.log.has_something = False
    assert run(partition, requests=1) == []
    assert (partition.log.syncs, partition.flushes) == (0, 1)


def test_a_failed_sync_is_told_and_acknowledges_nothing() -> None:
    partition = FakePartition()
    partition.log.error = OSError(5, "Input/output error")
    assert run(partition, requests=1) == [partition.log.error]
    assert (partition.log.completed, partition.flushes) == (1, 0)


def test_a_failed_sync_of_a_deleted_log_does_not_matter() -> None:
    partition = FakePartition()
    partition.log.error = FileNotFoundError(2, "No such file or directory")
    partition.has_ended = True
    assert run(partition, requests=1) == []


def test_a_request_during_a_sync_gets_one_of_its_own() -> None:
    partition = FakePartition()
    failures: list[OSError] = []

    async def scenario() -> None:
        flusher = Flusher(asyncio.get_running_loop(), lambda error, _: failures.append(error))
        flusher.request(cast(Any, partition))
        flushed = partition.flushed

        def request_again() -> None:
            flushed()
            if partition.flushes == 1:
                flusher.request(cast(Any, partition))

        partition.flushed = request_again  # type: ignore[method-assign]
        await flusher.close()

    asyncio.run(scenario())
    assert (partition.log.syncs, failures) == (2, [])


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_log_whose_flush_cannot_begin_holds_up_no_other(number: int) -> None:
    error = OSError(number, os.strerror(number))
    partitions = [FakePartition() for _ in range(5)]
    partitions[2].log.begin_error = error
    failures: list[OSError] = []

    async def scenario() -> None:
        flusher = Flusher(asyncio.get_running_loop(), lambda error, _: failures.append(error))
        for partition in partitions:
            flusher.request(cast(Any, partition))
        await flusher.close()

    asyncio.run(scenario())
    assert [(p.log.completed, p.flushes) for p in partitions] == [(1, 1), (1, 1), (0, 0), (1, 1), (1, 1)]
    # A process that has all the descriptors it may have is no reason to doubt the disk; the flush is asked for again.
    assert failures == ([error] if number == errno.EIO else [])


def test_what_a_full_disk_kept_from_the_disk_is_not_said_to_be_there() -> None:
    partition = FakePartition()
    partition.log.disk_is_full = True
    assert run(partition, 1) == []
    assert (partition.log.syncs, partition.log.completed, partition.flushes) == (1, 1, 0)
