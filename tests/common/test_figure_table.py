"""Tables of commands: no figure is cut at any width, and there is one kind of table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

import highwater
from highwater.admin.terminal import table
from highwater.common.figure_table import FigureTable
from highwater.tuning.cli.printing import Rows

_WIDTHS = [1, 10, 25, 40, 51, 52, 60, 80, 200]
_ROWS = (
    ("produce.achieved_per_s", "19,992/s", "39,984/s", "+100 %", "+99.8 % to 2×"),
    ("p50", "2.41 ms\n2.3–2.5", "4.81 ms", "−0.08 %", "−52.9 to −46.9 %"),
)
_TITLES = ("Producer id", "Epoch", "Coordinator epoch", "Last sequence", "Last written", "Transaction from offset")
_PRODUCER = (1_000, 1, 2, 12_345_678, "2026-11-29T03:12:25.123Z", 1_234_567_890_123)


def lines_of(made: FigureTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    with console.capture() as printed:
        made.print_to(console)
    return printed.get().splitlines()


def cut(figures: Sequence[object], lines: Sequence[str]) -> list[object]:
    return [figure for figure in figures if not any(str(figure) in line for line in lines)]


@pytest.mark.parametrize("width", _WIDTHS)
def test_no_figure_is_cut_at_any_width(width: int) -> None:
    made = FigureTable()
    made.add_names("metric")
    made.add_figures("base", "head", "change", "95 % interval")
    for row in _ROWS:
        made.add_row(*row)
    figures = [text for row in _ROWS for cell in row[1:] for text in cell.split("\n")]
    assert cut(figures, lines_of(made, width)) == []
    assert cut(_PRODUCER, lines_of(table(_TITLES, [_PRODUCER]), width)) == []


@pytest.mark.parametrize("width", _WIDTHS)
def test_rows_with_sentences_between_them_keep_figures_whole(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), highlight=False)
    cells = ("vm.dirty_background_bytes", "10 % = 2.22 GiB", "9223372036854775807", "differs")
    with console.capture() as printed:
        Rows(console, ("knob", "current", "recommended", "state"), [cells]).print([*map(Text, cells)])
    assert cut(("2.22", "9223372036854775807", "differs"), printed.get().splitlines()) == []


def test_what_fits_is_not_folded_and_names_give_way_first() -> None:
    made = table(("Broker", "Directory", "Topic", "Size"), [(1, "/var/lib/highwater/data", "orders.of.customers", 4)])
    assert "1  /var/lib/highwater/data  orders.of.customers     4" in "\n".join(lines_of(made, 60))
    narrow = lines_of(made, 40)
    assert max(map(len, narrow)) == 40
    assert narrow[1].split() == ["1", "/var/lib/hig", "orders.of.cu", "4"]


@pytest.mark.parametrize(("width", "titles"), [(80, "TOPIC RATE SIZE LAG"), (36, "TOPIC RATE LAG"), (30, "TOPIC LAG")])
def test_a_screen_leaves_out_what_has_no_room(width: int, titles: str) -> None:
    made = FigureTable(leaves_out=("SIZE", "RATE"))
    made.add_names("TOPIC")
    made.add_figures("RATE", "SIZE", "LAG")
    made.add_row("orders.of.customers", "12/s", "4.65 GiB", "1,234 a")
    header, row = lines_of(made, width)
    assert header.split() == titles.split()
    assert len(row) == width
    assert row.endswith(" 1,234 a")


def test_commands_print_no_other_table() -> None:
    package = Path(highwater.__file__).parent
    others = [
        path.relative_to(package).as_posix()
        for path in sorted(package.glob("*/**/*.py"))
        if "rich.table" in path.read_text("utf-8") and "development" not in path.parts
    ]
    assert others == [
        "bench/display/live.py",  # the grid of a bar that shows how far a run is
        "common/figure_table.py",
        "pipeline/run/display.py",  # rows of users
        "tuning/cli/printing.py",  # names with their sentences
    ]
