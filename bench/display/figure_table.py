"""The one kind of table that commands print: a narrow terminal folds names, and never cuts a figure."""

from __future__ import annotations

from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

_NARROWEST_NAMES: Final = 12


class FigureTable(Table):
    """Columns of names and of figures. It is wider than the terminal if its figures are, and the terminal breaks it."""

    def __init__(self, *, gap: int = 1, show_header: bool = True) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim", show_header=show_header)

    def add_names(self, *titles: str) -> None:
        """Columns of words, to the left."""
        for title in titles:
            self.add_column(title, overflow="fold")

    def add_figures(self, *titles: str, justify: str = "right") -> None:
        """Columns whose cells stay whole."""
        for title in titles:
            self.add_column(title, justify="left" if justify == "left" else "right", no_wrap=True)

    def print_to(self, console: Console) -> None:
        console.print(self, crop=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = self._least_width(console, options)
        yield from super().__rich_console__(console, options.update(max_width=max(options.max_width, least)))

    def _least_width(self, console: Console, options: ConsoleOptions) -> int:
        unbounded = options.update(max_width=10_000)
        _, right, _, left = self.padding
        width = 0
        for column in self.columns:
            cells = [Measurement.get(console, unbounded, cell) for cell in (column.header, *column.cells)]
            longest = max(cell.maximum for cell in cells)
            width += left + right + (longest if column.no_wrap else min(longest, _NARROWEST_NAMES))
        return width
