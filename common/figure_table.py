"""The one kind of table that commands print: a narrow terminal folds names, and never cuts a figure.

This module needs rich, which is there for commands alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table

_NAMES_OF_A_SCREEN: Final = 20
_NARROW_NAMES: Final = 12
_NARROWEST_NAMES: Final = 7
_FIGURE: Final = re.compile(r"[-+−≤≥~(]*\d[\d.,:/×+T−–-]*[A-Za-z%]{0,3}\)?")
"""A word such as `12.5`, `(20000)`, `2×`, `127.0.0.1:9092`, `2026-01-31T12:00:00.123Z`."""


class _Need(NamedTuple):
    """The width that a column needs, in cells of the terminal."""

    longest: int
    narrow: int
    """The least width that is still easy to read."""
    least: int


class FigureTable(Table):
    """Columns of names and of figures. It is wider than the terminal if its figures are, and the terminal breaks it."""

    def __init__(
        self,
        *,
        gap: int = 1,
        show_header: bool = True,
        header_style: str = "dim",
        leaves_out: Sequence[str] | None = None,
    ) -> None:
        """leaves_out: titles of columns that go where there is no room, in this order.

        It makes the table of a screen, where each row is one line, and names in the first column have what is left.
        """
        super().__init__(
            box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style=header_style, show_header=show_header
        )
        self._gap = gap
        self._leaves_out = leaves_out
        self._is_figures: list[bool] = []

    def add_names(self, *titles: str, width: int | None = None) -> None:
        """Columns of words, to the left."""
        is_screen = self._leaves_out is not None
        for title in titles:
            self._is_figures.append(False)
            self.add_column(title, width=width, no_wrap=is_screen, overflow="ellipsis" if is_screen else "fold")

    def add_figures(self, *titles: str, justify: str = "right") -> None:
        """Columns whose cells stay whole."""
        for title in titles:
            self._is_figures.append(True)
            self.add_column(title, justify="left" if justify == "left" else "right", overflow="fold")

    def print_to(self, console: Console) -> None:
        console.print(self, crop=False)

    def widths(self, console: Console, room: int) -> list[int]:
        """Return the width of each column in a terminal that has `room` for the table."""
        return _fitted(self._needs(console), room - self._gaps)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = copy.copy(self)
        room = options.max_width
        for title in self._leaves_out or ():
            if sum(need.narrow for need in shown._needs(console)) + shown._gaps > room:
                shown._leave_out(title)
        widths = shown.widths(console, room)
        if self._leaves_out is not None and not shown._is_figures[0]:
            widths[0] = max(widths[0], room - shown._gaps - sum(widths[1:]))
        shown.columns = [
            replace(column, width=width, _index=number)
            for number, (column, width) in enumerate(zip(shown.columns, widths, strict=True))
        ]
        whole = options.update(max_width=max(room, sum(widths) + shown._gaps))
        yield from Table.__rich_console__(shown, console, whole)

    @property
    def _gaps(self) -> int:
        return self._gap * (len(self.columns) - 1)

    def _leave_out(self, title: str) -> None:
        kept = [number for number, column in enumerate(self.columns) if column.header != title]
        self.columns = [self.columns[number] for number in kept]
        self._is_figures = [self._is_figures[number] for number in kept]

    def _needs(self, console: Console) -> list[_Need]:
        return [
            self._need(console, column, is_figures)
            for column, is_figures in zip(self.columns, self._is_figures, strict=True)
        ]

    def _need(self, console: Console, column: Column, is_figures: bool) -> _Need:
        if column.width is not None:
            return _Need(*[column.width] * 3)
        header = list(_lines(console, column.header)) if self.show_header else []
        cells = [line for cell in column.cells for line in _lines(console, cell)]
        longest = _longest([*header, *cells])
        titles = [word for line in header for word in line.split()]
        if not is_figures:
            figures = (word for line in cells for word in line.split() if _FIGURE.fullmatch(word))
            whole = _longest([*titles, *figures])
            narrow = _NARROW_NAMES if self._leaves_out is None else _NAMES_OF_A_SCREEN
            return _Need(longest, *(min(longest, max(each, whole)) for each in (narrow, _NARROWEST_NAMES)))
        whole = longest if self._leaves_out is not None else _longest([*titles, *cells])
        return _Need(longest, whole, whole)


def _lines(console: Console, cell: RenderableType) -> Iterator[str]:
    text = console.render_str(cell) if isinstance(cell, str) else cell
    yield from str(text).splitlines()


def _longest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _fitted(needs: Sequence[_Need], room: int) -> list[int]:
    """The widths of columns in `room`, or what they need at least.

    The widest gives way first. Names in the first column differ at their ends, and are copied: it gives way last.
    """
    widths = [need.longest for need in needs]
    narrow, least = [need.narrow for need in needs], [need.least for need in needs]
    for columns, floor in ((range(1, len(needs)), narrow), (range(1), narrow), (range(len(needs)), least)):
        while (excess := sum(widths) - room) > 0:
            able = [number for number in columns if widths[number] > floor[number]]
            if not able:
                break
            widest = max(able, key=lambda number: widths[number])
            next_widest = max((widths[number] for number in able if number != widest), default=0)
            widths[widest] = max(floor[widest], widths[widest] - excess, min(next_widest, widths[widest] - 1))
    return widths
