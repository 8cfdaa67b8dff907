"""Moves logs between the log directories of a running broker, one at a time, as the node was asked to.

The copying is done in a thread, the last step on the event loop: see highwater.broker.log.moving.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.log.moving import Move
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.broker.server.log_keeper import RunInThread

_logger = logging.getLogger(__name__)


class LogMover:
    def __init__(
        self, node: Node, run_in_thread: RunInThread, on_failure: Callable[[OSError, LogDirectory], None]
    ) -> None:
        self._node = node
        self._run_in_thread = run_in_thread
        self._on_failure = on_failure

    async def move_what_is_due(self) -> None:
        for key, move in tuple(self._node.partitions.moves.items()):
            partition = self._node.partitions.find(*key)
            if partition is None or partition.has_ended or partition.log is not move.log:
                self._node.partitions.moves.pop(key, None)
            elif not move.log.segments_must_stay:
                await self._move(partition, move)

    async def _move(self, partition: Partition, move: Move) -> None:
        name = f"{partition.topic}-{partition.index}"
        move.log.segments_must_stay = True
        try:
            move.begin()
            while self._is_wanted(partition, move):
                if move.can_finish:
                    self._finish(partition, move)
                    _logger.info("moved %s to %s", name, move.destination.path)
                    return
                copying = move.next_round()
                await self._run_in_thread(copying.copy)
                move.completed(copying)
            _logger.info(
                "cancelled the move of %s to %s: the partition was deleted, or another move was requested",
                name,
                move.destination.path,
            )
        except OSError as error:
            _logger.error("cannot move %s to %s: %s", name, move.destination.path, error)
        finally:
            # When the broker stops the future folder stays, so that the next start begins anew.
            move.log.segments_must_stay = False
            if self._node.partitions.moves.get(move.key) is move:
                del self._node.partitions.moves[move.key]
        await self._give_up(move)

    def _is_wanted(self, partition: Partition, move: Move) -> bool:
        is_live = move.destination in self._node.storage.log_directories.live
        is_whole = not partition.has_ended and move.log.truncations == move.truncations
        return is_live and self._node.partitions.moves.get(move.key) is move and is_whole

    def _finish(self, partition: Partition, move: Move) -> None:
        own = {
            (other.topic, other.index): other.high_watermark
            for other in self._node.partitions.live()
            if (other.topic, other.index) in move.destination.logs or other is partition
        }
        failed = move.finish(own)
        self._node.partitions.folders_were_deleted()
        if failed is not None:
            directory, error = failed
            self._on_failure(error, directory)

    async def _give_up(self, move: Move) -> None:
        try:
            await self._run_in_thread(move.give_up)
            self._node.partitions.folders_were_deleted()
        except OSError as error:
            _logger.error("cannot remove %s: %s; the next start tries again", move.path, error)
