"""Decides when a running broker stops, and with which exit code: on a signal, or when it cannot go on.

A failed log directory takes its partitions offline; the broker stops when none is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import Final

from highwater.broker.log.log_directories import LogDirectories
from highwater.broker.log.log_directory import LogDirectory
from highwater.broker.replica.partition import Partition
from highwater.broker.server.systemd import STOPPING, notify
from highwater.common.exit_codes import EXIT_NO, EXIT_OK, EXIT_USAGE

_logger = logging.getLogger(__name__)

SAME_SIGNAL_MS: Final = 1000
"""Wrappers and process groups pass a signal on that the broker has got already."""


class Ending:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.decided: asyncio.Future[int] = loop.create_future()
        """Has the exit code as soon as the broker is to stop."""
        self.storage_has_failed = False
        self._asked_ms = 0

    def on_signal(self) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        if not self.decided.done():
            _logger.info("stopping")
            notify(STOPPING)
            self._asked_ms = now_ms
            self.decided.set_result(EXIT_OK)
        elif now_ms - self._asked_ms >= SAME_SIGNAL_MS:
            _logger.warning("stopping immediately, without a flush; the next start will recover the logs")
            os._exit(EXIT_NO)

    def on_storage_failure(self) -> None:
        self.storage_has_failed = True
        self._decide(EXIT_NO)

    def on_membership_failure(self, reason: str, *, is_ready: bool) -> None:
        _logger.critical("%s; stopping", reason)
        self._decide(EXIT_NO if is_ready else EXIT_USAGE)

    def _decide(self, exit_code: int) -> None:
        if not self.decided.done():
            self.decided.set_result(exit_code)


class DiskFailures:
    """What becomes of a log directory that cannot be relied on any more."""

    def __init__(
        self, log_directories: LogDirectories, ending: Ending, take_offline: Callable[[LogDirectory], int]
    ) -> None:
        """`take_offline` gives up the partitions of a log directory, and returns how many they are."""
        self._log_directories = log_directories
        self._ending = ending
        self._take_offline = take_offline

    def of_partition(self, error: OSError, partition: Partition) -> None:
        self.of_directory(error, self._log_directories.of(partition.log))

    def of_directory(self, error: OSError, directory: LogDirectory) -> None:
        """Take the directory offline: after a failed sync only a recovery can find out what the disk has."""
        if directory not in self._log_directories.live:
            return
        count = self._take_offline(directory)
        if self._log_directories.live:
            _logger.critical(
                "the log directory %s failed: %s; its %d partitions are offline until you repair the directory and "
                "restart the broker",
                directory.path,
                error,
                count,
            )
        else:
            self.of_all(error)

    def of_all(self, error: OSError) -> None:
        paths = ", ".join(str(directory.path) for directory in self._log_directories.all)
        _logger.critical(
            "the log directory %s failed: %s; no other log directory is left, so the broker stops", paths, error
        )
        self._ending.on_storage_failure()
