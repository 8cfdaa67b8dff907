"""Keeps the logs of a running broker: checkpoints, retention, and the removal of what was deleted.

Decisions are made on the event loop, in slices; all that waits for the disk runs in a thread. What must not overlap,
since it writes the same files or rests on what the other one wrote, takes turns by a lock.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from pathlib import Path
from typing import Final, cast

from highwater.broker.clock import ClockGuard
from highwater.broker.log.files import MAY_PASS, FileOperations
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.segment import Segment
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.server.worker_process import WorkerEnded, WorkerProcess
from highwater.broker.slices import SLICE_NS, Result
from highwater.common.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

SLICE_LOGS: Final = 100
"""How many logs one turn may look at, where a look is cheap."""

RunInThread = Callable[[Callable[[], None]], Awaitable[None]]
CheckpointDone = Callable[[OSError | None], None]


async def in_slices(partitions: Iterable[Partition]) -> AsyncIterator[Partition]:
    """Each in turn, and other work of the event loop in between; some may have ended by their turn."""
    for count, partition in enumerate(tuple(partitions), 1):
        yield partition
        if count % SLICE_LOGS == 0:
            await asyncio.sleep(0)


class LogKeeper:
    def __init__(
        self,
        node: Node,
        files: FileOperations,
        run_in_thread: RunInThread,
        on_failure: Callable[[OSError, LogDirectory], None],
    ) -> None:
        self._on_failure = on_failure
        self._node = node
        self._files = files
        self._run_in_thread = run_in_thread
        self._lock = asyncio.Lock()
        self._clock_guard = ClockGuard(node.clock)
        self._waiting: list[CheckpointDone] = []
        self._checkpointing: asyncio.Task[None] | None = None

    async def write_checkpoints(self) -> None:
        async with self._lock:
            await self._write_checkpoints()

    async def checkpoint(self) -> None:
        """The periodic one: on a full disk the last one stands, and a start reads more of the logs."""
        await self._write_indexes()
        try:
            await self.write_checkpoints()
        except OSError as error:
            _logger.warning("cannot write the checkpoints: %s; trying again later", error.strerror)

    async def _write_indexes(self) -> None:
        async for partition in in_slices(self._node.partitions.live()):
            if not (partition.has_ended or partition.has_failed):
                try:
                    partition.log.write_indexes()
                except OSError as error:
                    self._cannot_write(error, partition)

    async def _write_checkpoints(self) -> None:
        failure: OSError | None = None
        for directory in self._node.storage.log_directories.live:
            checkpoint = await self._in_slices(directory.checkpoint_steps(self._high_watermark_of))
            try:
                await self._run_in_thread(checkpoint.write)
            except OSError as error:
                if error.errno not in MAY_PASS:
                    self._on_failure(error, directory)
                failure = error
        if failure is not None:
            raise failure

    def _high_watermark_of(self, key: TopicPartition) -> int | None:
        partition = self._node.partitions.find(*key)
        return None if partition is None or partition.has_failed else partition.high_watermark

    async def _in_slices(self, steps: Generator[None, None, Result]) -> Result:
        clock = self._node.clock
        turn_ends_ns = clock.monotonic_ns() + SLICE_NS
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return cast(Result, end.value)
            if clock.monotonic_ns() >= turn_ends_ns:
                await asyncio.sleep(0)
                turn_ends_ns = clock.monotonic_ns() + SLICE_NS

    def request_checkpoint(self, done: CheckpointDone) -> None:
        """Write the checkpoints soon, with all that is so now; those who ask meanwhile share the next one."""
        self._waiting.append(done)
        if self._checkpointing is None:
            self._checkpointing = asyncio.get_running_loop().create_task(self._checkpoint_for_waiting())

    async def _checkpoint_for_waiting(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                failure: OSError | None = None
                try:
                    await self.write_checkpoints()
                except OSError as error:
                    failure = error
                for done in waiting:
                    done(failure)
        finally:
            self._checkpointing = None

    async def delete_expired(self) -> None:
        """Retention: the start offsets are safe before the first file goes.

        Where the headers of a segment are not enough to say how old it is, a process looks at its records.
        """
        by_age = self._clock_guard.now_ms() is not None
        partitions = tuple(self._node.partitions.live())
        looked_at: set[Segment] = set()
        worker = WorkerProcess()
        try:
            while partitions:
                await self._delete_expired_of(partitions, by_age)
                partitions = tuple(
                    [partition for partition in partitions if await self._has_looked(worker, partition, looked_at)]
                )
        finally:
            await worker.stop()

    async def _has_looked(self, worker: WorkerProcess, partition: Partition, looked_at: set[Segment]) -> bool:
        """Have the records looked at that retention waits for; whether that was so, and it may go on."""
        log = partition.log
        segment = log.wants_look
        if segment is None or segment in looked_at or partition.has_ended or partition.has_failed:
            return False
        looked_at.add(segment)  # The active one may grow as fast as it is looked at.
        look, truncations = segment.wanted_look(), log.truncations
        max_bytes_per_s = self._node.config.number("log.cleaner.io.max.bytes.per.second")
        try:
            found = await worker.ask({"look": look._asdict(), "max_bytes_per_s": max_bytes_per_s})
        except WorkerEnded as end:
            found = {"damage": str(end)}
        if partition.has_ended or log.truncations != truncations or found.get("errno") == errno.ENOENT:
            return False
        if "largest_ms" not in found:
            _logger.warning(
                "%s cannot be looked at: %s; it stays until retention.ms has passed since its last write",
                *(look.path, found.get("damage") or found["strerror"]),
            )
        segment.looked(look, found.get("largest_ms"))
        return True

    async def _delete_expired_of(self, partitions: Iterable[Partition], by_age: bool) -> None:
        clock = self._node.clock
        async with self._lock:
            deleted = 0
            turn_ends_ns = clock.monotonic_ns() + SLICE_NS
            for partition in partitions:
                if clock.monotonic_ns() >= turn_ends_ns:
                    await asyncio.sleep(0)
                    turn_ends_ns = clock.monotonic_ns() + SLICE_NS
                if not partition.has_ended:
                    deleted += self._delete_expired(partition, clock.now_ms(), by_age)
            if deleted:
                try:
                    await self._write_checkpoints()
                except OSError as error:
                    # The first files of the logs also show where these start, and deletions free the space that lacks.
                    _logger.warning("cannot write the checkpoints: %s; trying again later", error.strerror)

    def _delete_expired(self, partition: Partition, now_ms: int, by_age: bool) -> int:
        try:
            return partition.log.delete_expired(partition.high_watermark, now_ms, by_age=by_age)
        except OSError as error:
            self._cannot_write(error, partition)
            return 0

    def _cannot_write(self, error: OSError, partition: Partition) -> None:
        if error.errno not in MAY_PASS:
            self._on_failure(error, self._node.storage.log_directories.of(partition.log))
        else:
            _logger.warning("%s-%d: %s", partition.topic, partition.index, error)

    async def remove_deleted(self) -> None:
        """Remove the files whose delay is over."""
        now_ms = self._node.clock.now_ms()
        async with self._lock:
            paths: list[Path] = []
            async for partition in in_slices(self._node.partitions.live()):
                paths += partition.log.take_removable(now_ms)
            if paths:
                await self._run_in_thread(lambda: self._remove(paths))

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            try:
                self._files.remove(path)
            except FileNotFoundError:
                pass  # its partition was deleted meanwhile
            except OSError as error:
                _logger.error("cannot remove %s: %s; the next start tries again", path, error.strerror)
