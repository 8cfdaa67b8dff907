"""The periodic work of a running broker: flushes, checkpoints, retention, moves, cleaning."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Final

from highwater.broker.clock import ClockGuard
from highwater.broker.log.files import OUT_OF_DESCRIPTORS
from highwater.broker.node import Node
from highwater.broker.server import garbage
from highwater.broker.server.cleaner import Cleaner
from highwater.broker.server.connection import Connection
from highwater.broker.server.ending import DiskFailures
from highwater.broker.server.flusher import Flusher
from highwater.broker.server.log_keeper import LogKeeper, in_slices
from highwater.broker.server.log_mover import LogMover

_logger = logging.getLogger(__name__)

HOUSEKEEPING_MS: Final = 250
LAG_INTERVAL_MS: Final = 250
EXPIRE_PRODUCERS_INTERVAL_MS: Final = 600_000
FIRST_RETENTION_CHECK_MS: Final = 30_000


class Housekeeping:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node: Node,
        flusher: Flusher,
        log_keeper: LogKeeper,
        failures: DiskFailures,
        connections: set[Connection],
    ) -> None:
        self._loop = loop
        self._node = node
        self._flusher = flusher
        self._log_keeper = log_keeper
        self._failures = failures
        self._connections = connections
        self._clock_guard = ClockGuard(node.clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        config = self._node.config
        self._every(HOUSEKEEPING_MS, self.flush_what_is_due)
        self._measure_lag(time.monotonic_ns())
        checkpoint_ms = min(
            config.integer("log.flush.offset.checkpoint.interval.ms"),
            config.integer("log.flush.start.offset.checkpoint.interval.ms"),
            config.integer("replica.high.watermark.checkpoint.interval.ms"),
        )
        self._every(max(checkpoint_ms, HOUSEKEEPING_MS), self._log_keeper.checkpoint)
        retention_ms = config.integer("log.retention.check.interval.ms")
        self._every(retention_ms, self._log_keeper.delete_expired, first_ms=FIRST_RETENTION_CHECK_MS)
        self._every(HOUSEKEEPING_MS, self._log_keeper.remove_deleted)
        mover = LogMover(self._node, self._flusher.run_in_thread, self._failures.of_directory)
        self._every(HOUSEKEEPING_MS, mover.move_what_is_due)
        if config.boolean("log.cleaner.enable"):
            backoff_ms = max(config.integer("log.cleaner.backoff.ms"), HOUSEKEEPING_MS)
            for _ in range(config.integer("log.cleaner.threads")):
                cleaner = Cleaner(self._node, self._flusher.run_in_thread, self._failures.of_directory)
                self._every(backoff_ms, cleaner.clean_what_is_due)
        self._every(EXPIRE_PRODUCERS_INTERVAL_MS, self._expire_producers)
        self._every(HOUSEKEEPING_MS, self._collect_garbage)
        max_idle_ms = config.integer("connections.max.idle.ms")
        self._every(
            min(max(max_idle_ms // 4, HOUSEKEEPING_MS), 10_000), functools.partial(self._sweep_connections, max_idle_ms)
        )

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _every(
        self, interval_ms: int, work: Callable[[], Coroutine[None, None, None]], *, first_ms: int | None = None
    ) -> None:
        async def repeat() -> None:
            delay_ms = interval_ms if first_ms is None else min(first_ms, interval_ms)
            while True:
                await asyncio.sleep(delay_ms / 1000)
                delay_ms = interval_ms
                try:
                    await work()
                except OSError as error:
                    if error.errno in OUT_OF_DESCRIPTORS:
                        _logger.error("housekeeping has to wait: %s", error)
                    else:
                        self._failures.of_all(error)
                except Exception:
                    _logger.exception("a bug in the broker made housekeeping fail; it will run again")

        self._tasks.add(self._loop.create_task(repeat()))

    def _measure_lag(self, due_ns: int) -> None:
        """See how late the loop comes to a timer, and set the next."""
        now_ns = time.monotonic_ns()
        self._node.counters.event_loop_lag.observe(max(now_ns - due_ns, 0))
        due_ns = now_ns + LAG_INTERVAL_MS * 1_000_000
        self._loop.call_later(LAG_INTERVAL_MS / 1000, self._measure_lag, due_ns)

    async def flush_what_is_due(self) -> None:
        """Have the logs flushed that are due, and the folders of deleted partitions removed."""
        now_ms = self._node.clock.now_ms()
        async for partition in in_slices(self._node.partitions.live()):
            if partition.log.flush_is_due(now_ms):
                self._flusher.request(partition)
        if self._node.partitions.take_purge():
            for directory in self._node.storage.log_directories.live:
                try:
                    await self._flusher.run_in_thread(directory.purge_deleted)
                except OSError as error:
                    if error.errno in OUT_OF_DESCRIPTORS:
                        self._node.partitions.folders_were_deleted()
                        raise
                    self._failures.of_directory(error, directory)

    async def _expire_producers(self) -> None:
        if self._clock_guard.now_ms() is not None:
            self._node.storage.log_directories.expire_producers()

    async def _collect_garbage(self) -> None:
        garbage.collect_if_due(self._node.turns)

    async def _sweep_connections(self, max_idle_ms: int) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        for connection in tuple(self._connections):
            connection.sweep(now_ms, max_idle_ms)
