"""`highwater top`: looks at the cluster every few seconds, and draws the screen."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from typing import Final

from rich.console import Console
from rich.live import Live

from highwater.monitor.config import MonitorConfig
from highwater.monitor.errors import MonitorError
from highwater.monitor.figures.findings import KAFKA
from highwater.monitor.figures.rows import Level
from highwater.monitor.serving import Monitor, Source
from highwater.monitor.sources import source_of
from highwater.monitor.top_screen import screen

_ONCE_INTERVAL_S: Final = 1.0
_ONCE_TICKS: Final = 2
"""A rate needs two."""
_POLL_S: Final = 0.1
_PLAIN_WIDTH: Final = 160


def run(config: MonitorConfig, *, is_once: bool, interval_s: float) -> bool:
    """Return whether nothing is an error. Raises MonitorError if the cluster never answered."""
    return asyncio.run(_once(config) if is_once else _live(config, interval_s))


async def _once(config: MonitorConfig) -> bool:
    async with source_of(config) as source:
        monitor = Monitor(source, _ONCE_INTERVAL_S)
        ticking = asyncio.create_task(monitor.run())
        try:
            while monitor.state().ticks < _ONCE_TICKS:
                if monitor.state().failed_ticks:
                    raise MonitorError(monitor.state().error)
                await asyncio.sleep(_POLL_S)
        finally:
            ticking.cancel()
    view = monitor.view()
    assert view is not None
    if not view[0].brokers:
        reason = view[0].sources[KAFKA].error.rstrip(". ")
        raise MonitorError(
            f"no answer: {reason}; -b HOST:PORT names brokers, --command-config FILE has TLS and a login"
        )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    console.print(screen(*view, monitor.state(), console.width, None, monitor.recent()))
    return view[1].level is not Level.ERROR


async def _live(config: MonitorConfig, interval_s: float) -> bool:
    if not sys.stdout.isatty():
        raise MonitorError("there is no terminal to draw on: use --once")
    async with source_of(config) as source:
        return await _draw(source, interval_s)


async def _draw(source: Source, interval_s: float) -> bool:
    monitor = Monitor(source, interval_s)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    ticking = asyncio.create_task(monitor.run())
    console = Console(highlight=False)
    try:
        with Live("Waiting for the first answer …", console=console, screen=True, auto_refresh=False) as live:
            drawn: object = None
            while not ended.is_set():
                state, view = monitor.state(), monitor.view()
                if view is None and state.failed_ticks:
                    raise MonitorError(state.error)
                size = shutil.get_terminal_size()
                now = (state.ticks, state.failed_ticks, size)
                if view is not None and now != drawn:
                    live.update(screen(*view, state, size.columns, size.lines, monitor.recent()), refresh=True)
                    drawn = now
                await asyncio.sleep(_POLL_S)
    finally:
        ticking.cancel()
    return True
