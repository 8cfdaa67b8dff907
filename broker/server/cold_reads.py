"""Reads what fetches need, and what they will need next, into the page cache off the event loop.

The threads give nothing back: the event loop reads the same bytes again, from the cache. So a log may be truncated,
deleted or moved meanwhile, and a thread that works on its former file does no harm. Each piece is opened by its name,
so no thread uses a descriptor that the event loop may close.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from highwater.broker.log.files import FileOperations, FilePiece
from highwater.broker.log.read_ahead import ReadAhead

READ_THREADS: Final = 4
"""Reads of different partitions overlap, and a disk with queues serves them together."""
MOST_READS_AHEAD: Final = 2
"""The other threads are left to what a fetch waits for. What would be too many reads ahead is left out."""

Done = Callable[[OSError | None], None]


class ColdReads:
    def __init__(self, loop: asyncio.AbstractEventLoop, files: FileOperations) -> None:
        self._loop = loop
        self._files = files
        self._executor = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="cold-read")
        self._waiting: dict[tuple[FilePiece, ...], list[Done]] = {}
        """Who waits for pieces: the same pieces are read once for all of them."""
        self._read_ahead = ReadAhead()
        self._reads_ahead = 0
        self._is_closed = False

    def bring(self, pieces: Sequence[FilePiece], done: Done) -> None:
        """Read pieces of files; `done` is called on the event loop, with the first failure if any, unless it closes."""
        if self._is_closed:
            return
        key = tuple(pieces)
        if (waiting := self._waiting.get(key)) is not None:
            waiting.append(done)
            return
        self._waiting[key] = [done]
        self._executor.submit(self._read, key).add_done_callback(partial(self._post, self._is_read, key))
        if len(key) == 1 and self._reads_ahead < MOST_READS_AHEAD:
            ahead = self._read_ahead.after(key[0])
            if ahead is not None:
                self._reads_ahead += 1
                self._executor.submit(self._read, (ahead,)).add_done_callback(partial(self._post, self._is_ahead, key))

    def _read(self, pieces: tuple[FilePiece, ...]) -> OSError | None:
        """Runs in a thread."""
        for piece in pieces:
            try:
                self._files.bring_into_cache(piece)
            except FileNotFoundError:
                continue  # deleted or moved: the fetch looks again what there is
            except OSError as failure:
                return failure
        return None

    def _post(
        self,
        then: Callable[[tuple[FilePiece, ...], OSError | None], None],
        key: tuple[FilePiece, ...],
        future: Future[OSError | None],
    ) -> None:
        """Runs in a thread, or in the event loop's when `close` cancels the work."""
        if not self._is_closed and not future.cancelled():
            self._loop.call_soon_threadsafe(then, key, future.result())

    def _is_read(self, key: tuple[FilePiece, ...], failure: OSError | None) -> None:
        for done in self._waiting.pop(key):
            self._loop.call_soon(self._tell, done, failure)

    def _tell(self, done: Done, failure: OSError | None) -> None:
        if not self._is_closed:
            done(failure)

    def _is_ahead(self, _: tuple[FilePiece, ...], failure: OSError | None) -> None:
        """A failure is reported when a fetch needs what could not be read."""
        self._reads_ahead -= 1

    def close(self) -> None:
        """End the threads after what they read at this moment; nobody is called any more."""
        self._is_closed = True
        self._executor.shutdown(cancel_futures=True)
