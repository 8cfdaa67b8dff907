"""Serves the page of a run from its live figures, on loopback, below a token that nobody guesses.

The run comes before its page: on a busy host a picture may take long, and pages get the one before, with its age.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from highwater.common.atomic_files import write_atomically
from highwater.common.http_endpoint import HttpEndpoint, Page
from highwater.common.live_figures import LiveLines
from highwater.common.log_lines import log_to_standard_error
from highwater.common.page_process import PageAddress
from highwater.common.units import wait_text
from highwater.drawing.plot import Size
from highwater.reports.page import render, run_document
from highwater.reports.watch.picture import NARROW, WIDE, State, picture, sentence, shell
from highwater.reports.watch.standing import Standing
from highwater.results.files import ResultDirectoryError
from highwater.results.reader import RunResult

_HTML: Final = "text/html; charset=utf-8"
_LOOK_S: Final = 1.0
_LOWEST_PRIORITY: Final = 19
# How long a page waits for a new picture, and from which age on it says how old the one before is.
_PATIENCE_S: Final = 2.0
_OLD_S: Final = 5.0
# How long pages that are open have to fetch the end, after the last one asked.
_LINGER_S: Final = 3.0
_LINGER_MOST_S: Final = 30.0
# The page of a run that died says so for whoever comes back to it.
_AFTER_DEATH_S: Final = 600.0


class WatchedRun:
    """What the pages ask: how the run stands, and at its end the report."""

    def __init__(self, directory: Path, now_s: Callable[[], float] = time.time) -> None:
        """Raises OSError when nothing runs there."""
        self._directory = directory
        self._now_s = now_s
        self._lines = LiveLines(directory)
        self._standing = Standing()
        self._looking = threading.Lock()
        self.state: State = "running"
        self.report = ""
        self.is_over = False
        """Nothing more is to come; the report is there, if the run has one."""
        self.asked_s: float | None = None
        """When a page asked last."""

    def look(self) -> State:
        with self._looking:
            # Asked before reading: a run that says its last words and ends in between has not died.
            is_written = self._lines.is_written()
            if (lines := self._lines.read()) is None:
                self._standing = Standing()
                lines = self._lines.read() or []
            self._standing.take(lines)
            finished = self._standing.finished is not None
            self.state = "finished" if finished else "running" if is_written else "died"
            return self.state

    def answer(self, size: Size) -> dict[str, Any]:
        """The picture, and what else the page's script is to know."""
        self.look()
        now_s = self._now_s()
        return {
            "html": picture(self._standing, self.state, now_s, size),
            "title": sentence(self._standing, self.state, now_s),
            "died": self.state == "died",
            "over": self.is_over,
            "report": bool(self.report),
        }

    def conclude(self) -> None:
        """Write the report of a run that has one into its directory, as `highwater report` does."""
        if (self._directory / "manifest.json").is_file():
            with contextlib.suppress(ResultDirectoryError, OSError, UnicodeDecodeError):
                self.report = render(run_document(RunResult(self._directory, salvage=True)))
                write_atomically(self._directory / "report.html", self.report)
        self.is_over = True


class Pictures:
    """The newest picture of each width, which is there as soon as the page is."""

    def __init__(
        self, run: WatchedRun, patience_s: float = _PATIENCE_S, now_s: Callable[[], float] = time.time
    ) -> None:
        self._run = run
        self._patience_s = patience_s
        self._now_s = now_s
        self._drawn = {size: (now_s(), run.answer(size)) for size in (WIDE, NARROW)}
        self._drawing: dict[Size, asyncio.Task[None]] = {}

    async def newest(self, size: Size) -> str:
        """A new one, or the one before if that takes too long, as JSON for the page's script."""
        self._run.asked_s = self._now_s()
        if (drawing := self._drawing.get(size)) is None or drawing.done():
            drawing = self._drawing[size] = asyncio.create_task(self._draw(size))
        done, _ = await asyncio.wait([drawing], timeout=self._patience_s)
        for each in done:
            each.result()
        drawn_s, answer = self._drawn[size]
        age_s = self._now_s() - drawn_s
        late = f"This picture is {wait_text(age_s)} old: the host is busy, and the run comes before its page."
        return json.dumps({**answer, "late": late if age_s > _OLD_S else ""})

    async def _draw(self, size: Size) -> None:
        begun_s = self._now_s()
        self._drawn[size] = begun_s, await asyncio.to_thread(self._run.answer, size)


def serve(run: WatchedRun, address: PageAddress, *, until_the_end: bool) -> None:
    """Serve until SIGTERM or Ctrl-C; `until_the_end`: or until pages that are open have seen how the run ended."""
    log_to_standard_error(level=logging.WARNING)
    pictures = Pictures(run)
    # Not before: what is loaded and drawn until here would take minutes beside a run that needs all processors.
    os.nice(_LOWEST_PRIORITY)
    with address.listening, contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_serve(run, pictures, address, until_the_end))


async def _serve(run: WatchedRun, pictures: Pictures, address: PageAddress, until_the_end: bool) -> None:
    async def page() -> str:
        return shell()

    async def wide() -> str:
        return await pictures.newest(WIDE)

    async def narrow() -> str:
        return await pictures.newest(NARROW)

    async def report() -> str:
        return run.report

    at = f"/{address.token}/"
    pages = {
        at: Page(page, _HTML),
        f"{at}wide": Page(wide, "application/json"),
        f"{at}narrow": Page(narrow, "application/json"),
        f"{at}report": Page(report, _HTML),
    }
    endpoint = HttpEndpoint(pages, "open the link that was printed, with its token")
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel if task else loop.stop)
    await endpoint.start([address.listening])
    try:
        await _followed(run)
        if until_the_end:
            await _lingered(run)
        else:
            await asyncio.Event().wait()
    finally:
        endpoint.close()


async def _followed(run: WatchedRun) -> None:
    died_s = 0.0
    while (state := await asyncio.to_thread(run.look)) != "finished" and died_s < _AFTER_DEATH_S:
        died_s = died_s + _LOOK_S if state == "died" else 0.0
        await asyncio.sleep(_LOOK_S)
    if state == "finished":
        await asyncio.to_thread(run.conclude)


async def _lingered(run: WatchedRun) -> None:
    """Wait until no page has asked for a while: one that has seen the end asks no more."""
    begun_s = time.time()
    while run.asked_s is not None and time.time() - begun_s < _LINGER_MOST_S:
        if time.time() - max(run.asked_s, begun_s) > _LINGER_S:
            break
        await asyncio.sleep(_LOOK_S)
