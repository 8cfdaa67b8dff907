"""Brings logs to the disk off the event loop, many at a time.

Requests that come while a round of syncs runs are served together by the next round: this is the group commit that
makes flush.messages=1 bearable. A disk that fails to sync has lost data that nobody can name, so the broker must stop
then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic_ns
from typing import Final

from highwater.broker.counters import Histogram
from highwater.broker.log.files import OUT_OF_DESCRIPTORS
from highwater.broker.replica.partition import Partition
from highwater.common.listener_rules import descriptors

_logger = logging.getLogger(__name__)

SYNC_THREADS: Final = 4
"""Syncs of different files overlap: the file system commits them together."""


class Flusher:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[OSError, Partition], None],
        durations: Histogram | None = None,
    ) -> None:
        """Syncs that went well are observed in `durations`."""
        self._loop = loop
        self._on_failure = on_failure
        self._durations = durations if durations is not None else Histogram()
        self._executor = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="flusher")
        # A flush keeps its files open from its beginning on.
        self._room = asyncio.Semaphore(max(descriptors().files // 2, 1))
        self._wanted: set[Partition] = set()
        self._task: asyncio.Task[None] | None = None

    def request(self, partition: Partition) -> None:
        """Have the log of a partition synced soon; `Partition.flushed` is called after it."""
        self._wanted.add(partition)
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._wanted:
                partitions, self._wanted = self._wanted, set()
                await asyncio.gather(*map(self._sync, partitions))
        finally:
            self._task = None

    async def _sync(self, partition: Partition) -> None:
        async with self._room:
            await self._sync_now(partition)

    async def _sync_now(self, partition: Partition) -> None:
        try:
            ticket = partition.log.begin_flush()
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                _logger.error("cannot flush %s-%d: %s; trying again later", partition.topic, partition.index, error)
            elif not partition.has_ended:
                self._on_failure(error, partition)
            return
        if ticket is not None:
            try:
                duration_ns = await self._loop.run_in_executor(self._executor, _timed, ticket.sync)
                self._durations.observe(duration_ns)
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    _logger.error("cannot flush %s-%d: %s; trying again later", partition.topic, partition.index, error)
                    return
                if not partition.has_ended:  # a deleted log's files are gone
                    self._on_failure(error, partition)
                    return
            finally:
                partition.log.complete_flush(ticket)
            if not ticket.is_synced:
                return  # housekeeping asks again
        partition.flushed()

    async def run_in_thread(self, work: Callable[[], None]) -> None:
        """Other blocking work on the log directory."""
        await self._loop.run_in_executor(self._executor, work)

    def run_aside(self, work: Callable[[], None], then: Callable[[OSError | None], None]) -> None:
        """The same with a callback on the event loop, unless that ends before."""

        def done(future: Future[None]) -> None:
            failure = future.exception()
            if failure is None or isinstance(failure, OSError):
                self._loop.call_soon_threadsafe(then, failure)
            else:
                self._loop.call_soon_threadsafe(future.result)  # a bug, which the event loop reports

        self._executor.submit(work).add_done_callback(done)

    async def idle(self) -> None:
        """Wait for the syncs that are under way or wanted."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        await self.idle()
        self._executor.shutdown()


def _timed(work: Callable[[], None]) -> int:
    """Do some work; the nanoseconds it took."""
    started_ns = monotonic_ns()
    work()
    return monotonic_ns() - started_ns
