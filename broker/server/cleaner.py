"""Runs compaction: chooses the dirtiest log, has it compacted, and puts the result in place.

Only the renaming is done here, on the event loop, a group of segments at a time. How far a log is clean is written
down only when the new segments are on the disk under their names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from highwater.broker.log.checkpoint import CLEANER_OFFSET_CHECKPOINT
from highwater.broker.log.compaction_job import CleanedGroup, Dirtiness
from highwater.broker.log.files import MAY_PASS, OUT_OF_DESCRIPTORS
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.segment_names import CLEANED_SUFFIX
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.server.log_keeper import RunInThread
from highwater.broker.server.worker_process import WorkerEnded, WorkerProcess

_logger = logging.getLogger(__name__)


class CleaningFailed(Exception):  # noqa: N818 - it ends one pass, not the broker
    """A pass that did not come to its end; the log is as good as before."""


class DiskFailed(CleaningFailed):
    """The disk failed in a pass of cleaning, as it would in other passes now."""


class Cleaner:
    """One pass at a time, for one of `log.cleaner.threads`."""

    def __init__(
        self, node: Node, run_in_thread: RunInThread, on_failure: Callable[[OSError, LogDirectory], None]
    ) -> None:
        self._on_failure = on_failure
        self._node = node
        self._run_in_thread = run_in_thread
        self._worker = WorkerProcess()
        self._uncleanable: set[Partition] = set()
        self._failed: set[Partition] = set()
        """They come again after all others have had their turn, or one bad log would keep those from being cleaned."""

    async def clean_what_is_due(self) -> None:
        self._failed.clear()
        try:
            while (found := self._dirtiest()) is not None:
                if not await self._clean(*found):
                    return
        finally:
            await self._worker.stop()

    def _dirtiest(self) -> tuple[Partition, Dirtiness] | None:
        now_ms = self._node.clock.now_ms()
        best: tuple[Partition, Dirtiness] | None = None
        for partition in self._node.partitions.live():
            log = partition.log
            if not log.config.compacts or log.segments_must_stay or partition in self._uncleanable | self._failed:
                continue
            key = partition.topic, partition.index
            clean_offset = self._node.storage.log_directories.of(log).clean_offsets.get(key, 0)
            dirt = log.dirtiness(clean_offset, partition.last_stable_offset, now_ms)
            if dirt.is_due(log.config) and (best is None or dirt.ratio > best[1].ratio):
                best = partition, dirt
        return best

    async def _clean(self, partition: Partition, dirt: Dirtiness) -> bool:
        """One pass; whether to go on with others at once."""
        partition.log.segments_must_stay = True
        try:
            await self._pass(partition, dirt)
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                _logger.warning("cannot compact %s-%d: %s; trying again later", partition.topic, partition.index, error)
            else:
                self._on_failure(error, self._node.storage.log_directories.of(partition.log))
            return False
        except CleaningFailed as error:
            self._failed.add(partition)
            if not partition.has_ended:
                _logger.warning("cannot compact %s-%d: %s; trying again later", partition.topic, partition.index, error)
                return not isinstance(error, DiskFailed)
        finally:
            partition.log.segments_must_stay = False
        return True

    async def _pass(self, partition: Partition, dirt: Dirtiness) -> None:
        log = partition.log
        now_ms = self._node.clock.now_ms()
        size_bytes = log.size_bytes
        config = self._node.config
        threads = max(1, config.integer("log.cleaner.threads"))
        map_bytes = config.integer("log.cleaner.dedupe.buffer.size") // threads
        map_load_factor = config.number("log.cleaner.io.buffer.load.factor")
        max_bytes_per_s = config.number("log.cleaner.io.max.bytes.per.second") / threads
        job = log.compaction_job(dirt, now_ms, map_bytes, map_load_factor, "")
        truncations = log.truncations
        message = await self._ask({"job": job._asdict(), "max_bytes_per_s": max_bytes_per_s})
        while "cleaned" in message:
            if partition.has_ended or log.truncations != truncations:
                # Its segments are not those any more that the process reads.
                await self._worker.stop()
                self._remove_unfinished(partition)
                return
            log.replace_segments(CleanedGroup(**message["cleaned"]), now_ms)
            message = await self._ask({})
        if "damage" in message:
            self._uncleanable.add(partition)
            raise CleaningFailed(f"{message['damage']}; it is left alone until the broker starts again")
        if "finished" not in message:
            self._remove_unfinished(partition)
            raise DiskFailed(f"{message['filename']}: {message['strerror']}")
        if partition.has_ended or log.truncations != truncations:
            return
        done = message["finished"]
        await self._run_in_thread(log.sync_names)
        directory = self._node.storage.log_directories.of(log)
        directory.clean_offsets[partition.topic, partition.index] = done["clean_up_to"]
        try:
            await self._run_in_thread(directory.begin_cleaner_checkpoint().write)
        except OSError as error:
            if error.errno not in MAY_PASS:
                raise
            _logger.warning("cannot write %s: %s; trying again later", CLEANER_OFFSET_CHECKPOINT, error.strerror)
        _logger.info(
            "%s-%d: compacted up to offset %d: %d of %d records remain, %.1f of %.1f MB",
            partition.topic,
            partition.index,
            done["clean_up_to"],
            done["records_kept"],
            done["records_read"],
            log.size_bytes / 1e6,
            size_bytes / 1e6,
        )

    def _remove_unfinished(self, partition: Partition) -> None:
        for path in partition.log.directory.glob(f"*{CLEANED_SUFFIX}"):
            path.unlink(missing_ok=True)

    async def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._worker.ask(order)
        except WorkerEnded as end:
            raise CleaningFailed(str(end)) from None
