"""Key stores and trust stores are read again when their files change; connections go on.

A file counts as changed when it is the same in two looks, so that nobody's half-written store is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.broker.settings.config import ConfigError

_logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 1.0

Stamp = tuple[int, int, int] | None


@dataclass(slots=True)
class Renewable:
    """What is made of some files."""

    what: str
    files: Sequence[Path]
    read: Callable[[], Callable[[], str]]
    """Read and check in a thread; what it returns puts that in force on the event loop, and says what it is.

    Raises ConfigError.
    """
    known: list[Stamp] = field(init=False)
    seen: list[Stamp] = field(init=False)

    def __post_init__(self) -> None:
        self.known = self.seen = self._stamps()

    def changed(self) -> bool:
        """Whether there is something new that has come to rest."""
        before, self.seen = self.seen, self._stamps()
        if self.seen != before or self.seen == self.known:
            return False
        self.known = self.seen
        return True

    def _stamps(self) -> list[Stamp]:
        return [_stamp(file) for file in self.files]


def _stamp(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class Renewal:
    def __init__(self, renewables: Sequence[Renewable]) -> None:
        self._renewables = [each for each in renewables if each.files]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._renewables:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for each in self._renewables:
                try:
                    put_in_force = await asyncio.to_thread(_read_if_changed, each)
                    if put_in_force is not None:
                        _logger.info("%s: its files changed: %s", each.what, put_in_force())
                except ConfigError as error:
                    _logger.error("%s: its files changed, and the old ones stay in force: %s", each.what, error)
                except Exception:
                    _logger.exception("a bug in the broker: %s: its files changed, and could not be read", each.what)


def _read_if_changed(renewable: Renewable) -> Callable[[], str] | None:
    return renewable.read() if renewable.changed() else None
