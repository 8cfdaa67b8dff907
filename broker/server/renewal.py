"""Key stores and trust stores are read again when their files change; connections go on.

A file counts as changed when it is the same in two looks, so that nobody's half-written store is read; or at once if an
operator asks for it.
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


@dataclass(slots=True, eq=False, repr=False)
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
    has_failed: bool = field(default=False, init=False)
    """Whether the newest files are not in force."""

    def __post_init__(self) -> None:
        self.known = self.seen = self._stamps()

    def changed(self) -> bool:
        """Whether there is something new that has come to rest."""
        before, self.seen = self.seen, self._stamps()
        if self.seen != before or self.seen == self.known:
            return False
        self.known = self.seen
        return True

    def changed_by_now(self) -> bool:
        """Whether there is something that is not in force, for somebody who says that it is complete."""
        before, self.known = self.known, self._stamps()
        self.seen = self.known
        return self.known != before or self.has_failed

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
        self._asked: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()

    @property
    def has_any(self) -> bool:
        return bool(self._renewables)

    def start(self) -> None:
        if self._renewables:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        tasks = [*self._asked, *([] if self._task is None else [self._task])]
        self._task = None
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def look_now(self, then: Callable[[str | None], None]) -> None:
        """Call back with why the files that changed could not be put in force; None if they could, or none changed."""

        async def look() -> None:
            problems = [await self._look(each, Renewable.changed_by_now) for each in self._renewables]
            then("; ".join(filter(None, problems)) or None)

        task = asyncio.get_running_loop().create_task(look())
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for each in self._renewables:
                await self._look(each, Renewable.changed)

    async def _look(self, each: Renewable, has_changed: Callable[[Renewable], bool]) -> str | None:
        """Return why the files stay without effect; None if they are in force, or did not change."""
        async with self._lock:
            try:
                put_in_force = await asyncio.to_thread(_read_if, has_changed, each)
                if put_in_force is not None:
                    _logger.info("%s: its files changed: %s", each.what, put_in_force())
                    each.has_failed = False
            except ConfigError as error:
                each.has_failed = True
                _logger.error("%s: its files changed, and the old ones stay in force: %s", each.what, error)
                return f"{each.what}: {error}"
            except Exception:
                each.has_failed = True
                _logger.exception("a bug in the broker: %s: its files changed, and could not be read", each.what)
                return f"{each.what}: its files could not be read, because of a bug; the broker's log says more"
            return None


def _read_if(has_changed: Callable[[Renewable], bool], renewable: Renewable) -> Callable[[], str] | None:
    return renewable.read() if has_changed(renewable) else None
