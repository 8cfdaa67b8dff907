"""What a run prints: tables on standard output, progress on standard error, live on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from highwater.common.log_lines import one_line

_INTERVAL_S: Final = 10.0
"""Between two lines of a flow where there is no terminal."""


class Display:
    """Progress is one line for each flow: rewritten in place on a terminal, else each new one after ten seconds."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._out = Console(soft_wrap=True, highlight=False)
        self._error = Console(stderr=True, soft_wrap=True, highlight=False)
        self._lines: dict[str, str] = {}
        self._printed: dict[str, tuple[float, str]] = {}
        """When a line of a flow was printed last, and which."""
        self._live: Live | None = None

    def live(self) -> AbstractContextManager[object]:
        """The context in which progress is shown."""
        if not self._error.is_terminal:
            return nullcontext()
        self._live = Live(get_renderable=self._render, console=self._error, refresh_per_second=4, transient=True)
        return self._live

    def _render(self) -> Group:
        return Group(*(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in self._lines.values()))

    def progress(self, flow: str, line: str) -> None:
        self._lines[flow] = line
        if self._live is not None:
            return
        now_s = self._now_s()
        printed_s, printed = self._printed.get(flow, (-_INTERVAL_S, ""))
        if now_s - printed_s >= _INTERVAL_S and line != printed:
            self._printed[flow] = now_s, line
            self._error.print(Text(line))

    def last_progress(self) -> None:
        """Leave the last line of each flow on the screen."""
        for flow, line in self._lines.items():
            if line != self._printed.get(flow, (0.0, ""))[1]:
                self._error.print(Text(line, style="dim"))

    def step(self, text: str) -> None:
        self._error.print(Text(one_line(text), style="dim"))

    def table(self, title: str, columns: list[str], rows: list[tuple[object, ...]]) -> None:
        """Print rows of a batch; also called by threads of Spark's queries."""
        table = Table(title=title, title_justify="left", title_style="bold")
        for column in columns:
            table.add_column(Text(column), overflow="fold")
        for row in rows:
            table.add_row(*(Text(one_line(cell_text(value))) for value in row))
        # A live display moves out of the way of what is printed on its own console alone.
        console = self._error if self._live is not None and self._out.is_terminal else self._out
        console.print(table)

    def say(self, text: str) -> None:
        self._out.print(Text(one_line(text)))

    def warn(self, text: str) -> None:
        self._error.print(Text(one_line(f"warning: {text}")))

    def error(self, text: str) -> None:
        self._error.print(Text(one_line(f"error: {text}")))


def cell_text(value: Any) -> str:
    """A value of a row as text: bytes as UTF-8 if they are, a struct in braces, nothing for null."""
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode("utf-8")
        except UnicodeDecodeError:
            return bytes(value).hex(" ")
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds" if value.microsecond else "seconds").removesuffix("+00:00")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{cell_text(key)}: {cell_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(cell_text, value)) + "]"
    return str(value)
