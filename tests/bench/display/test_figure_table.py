from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import highwater.bench
from highwater.bench.display.figure_table import FigureTable

_ROWS = (
    ("produce.achieved_per_s", "19,992/s", "39,984/s", "+100 %", "+99.8 % to 2×"),
    ("p50", "2.41 ms\n2.3–2.5", "4.81 ms", "−0.08 %", "−52.9 to −46.9 %"),
)


@pytest.mark.parametrize("width", [1, 10, 25, 40, 51, 52, 60, 80, 200])
def test_no_figure_is_cut_at_any_width(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    table = FigureTable()
    table.add_names("metric")
    table.add_figures("base", "head", "change", "95 % interval")
    for row in _ROWS:
        table.add_row(*row)
    with console.capture() as printed:
        table.print_to(console)
    lines = printed.get().splitlines()
    for figure in (text for row in _ROWS for cell in row[1:] for text in cell.split("\n")):
        assert any(figure in line for line in lines), figure


def test_commands_print_no_other_table() -> None:
    room = Path(highwater.bench.__file__).parent
    others = [
        path.relative_to(room).as_posix()
        for path in sorted(room.rglob("*.py"))
        if "rich.table" in path.read_text("utf-8") and "development" not in path.parts
    ]
    # The grid of a bar that shows how far a run is.
    assert others == ["display/figure_table.py", "display/live.py"]
