"""Does in a thread what native code does for one long request: it decompresses record batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from highwater.broker.slices import Work


class Unpacking:
    """One thread, so that one batch is decompressed at a time, however many clients send such batches."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="unpack")

    def run(self, work: Work, then: Callable[[OSError | None], None]) -> None:
        """`then` is called on the event loop, unless that ends before. The work raises nothing."""

        def done(future: Future[None]) -> None:
            if not future.cancelled():
                self._loop.call_soon_threadsafe(then, None)

        self._executor.submit(work).add_done_callback(done)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)
