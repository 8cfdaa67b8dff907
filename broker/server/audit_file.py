"""The file of the audit log: opened anew when it was moved, and no reason for a request to fail."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Final, cast

from highwater.broker.security.audit import LOGGER
from highwater.broker.server.start_check import AUDIT_FILE
from highwater.broker.settings.config import ConfigError

_logger = logging.getLogger(__name__)
_MODE: Final = 0o640


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Write the audit log to the file, and not to the broker's log. Raises ConfigError when it cannot be opened."""
    try:
        handler = _AuditFile(path)
    except OSError as error:
        raise ConfigError(f"{AUDIT_FILE}={path}: cannot be opened: {error.strerror}") from None
    logger = logging.getLogger(LOGGER)
    before = logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate, level = before
        logger.setLevel(level)
        handler.close()


class _AuditFile(WatchedFileHandler):
    """logrotate moves or deletes the file; the next line makes a new one."""

    def __init__(self, path: Path) -> None:
        self._is_failing = False
        super().__init__(path, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(message)s"))

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
        return cast(TextIOWrapper, os.fdopen(descriptor, self.mode, encoding=self.encoding))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.stream is None:
                self.stream = self._open()
                self._statstream()
            self.reopenIfNeeded()
            self.stream.write(self.format(record) + self.terminator)
            self.stream.flush()
        except OSError as error:
            if not self._is_failing:
                _logger.error("lines of the audit log are lost: %s: %s", self.baseFilename, error.strerror)
            self._is_failing = True
        else:
            if self._is_failing:
                _logger.warning("the audit log is written again: %s", self.baseFilename)
            self._is_failing = False
