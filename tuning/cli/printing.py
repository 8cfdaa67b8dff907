"""Terminal output that the verbs share: the host in one line, tables, titled lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...common.figure_table import FigureTable
from ...common.units import size_text
from ..check import KnobReport, KnobState, limited
from ..facts.model import Facts

# For each state: the word in a row, the word in a summary, the colour.
STATE_WORDS: Final[dict[KnobState, tuple[str, str, str]]] = {
    "ok": ("ok", "ok", "green"),
    "differs": ("differs", "differ", "yellow"),
    "unknown": ("unknown", "unknown", "magenta"),
    "left_alone": ("left alone", "left alone unless named", "cyan"),
    "obsolete": ("obsolete", "obsolete", "dim"),
    "not_applicable": ("n/a", "not applicable", "dim"),
}
_WORD: Final = re.compile(r"[A-Za-z'’-]+[,:;]?")
# Names that keep their small initial at the beginning of a sentence.
_LOWER_CASE_NAMES: Final = ("systemd",)
_MOST_TARGETS: Final = 6
_GAP: Final = 2


def console() -> Console:
    return Console(highlight=False)


def describe_host(facts: Facts) -> Text:
    memory = facts.memory
    parts = [
        facts.operating_system or "unknown system",
        f"kernel {facts.kernel_release or '?'}",
        f"{facts.cpu_count or '?'} CPUs",
        f"{size_text(memory.total_bytes)} memory" if memory.total_bytes else "memory unknown",
    ]
    if memory.cgroup_limit_bytes:
        parts.append(f"limited to {size_text(memory.cgroup_limit_bytes)}")
    if facts.container:
        parts.append(f"container ({facts.container})")
    if facts.virtual_machine:
        parts.append(f"virtual machine ({facts.virtual_machine})")
    return Text(", ".join(parts), style="dim")


def sentences(texts: Iterable[str]) -> str:
    """Join texts as sentences, without duplicates. A name at the beginning, such as vm.swappiness, keeps its case."""
    return " ".join(f"{_capitalised(text.removesuffix('.'))}." for text in dict.fromkeys(texts) if text)


def targets_text(targets: Sequence[str]) -> str:
    """`sda, sdb` or `sda, sdb, … and 198 more`; empty for the whole host."""
    shown = ", ".join(targets[:_MOST_TARGETS])
    more = len(targets) - _MOST_TARGETS
    return f"{shown}, … and {more} more" if more > 0 else shown


def merged(reports: Iterable[KnobReport]) -> list[tuple[KnobReport, tuple[str, ...]]]:
    """Merge reports that differ only in their target into one report with all the targets."""
    found: dict[tuple[object, ...], tuple[KnobReport, list[str]]] = {}
    for report in reports:
        key = (report.id, report.state, report.current_text, report.recommended_text, report.note)
        found.setdefault(key, (report, []))[1].append(report.target)
    return [(report, tuple(target for target in targets if target)) for report, targets in found.values()]


class Rows:
    """A table whose rows are printed one by one, with other text between them.

    Columns fit the terminal, as those of FigureTable, and sentences are printed below their row.
    """

    def __init__(self, out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self._out = out
        whole = FigureTable(gap=_GAP)
        whole.add_names(*header)
        for row in rows:
            whole.add_row(*map(Text, row))
        self._widths = whole.widths(out, out.width)
        self.print([Text(title, style="bold") for title in header])

    def print(self, cells: Sequence[Text], below: str = "") -> None:
        table = FigureTable(gap=_GAP, show_header=False)
        for width in self._widths:
            table.add_names("", width=width)
        table.add_row(*cells)
        table.print_to(self._out)
        if below:
            self._out.print(Padding(Text(below, style="dim"), (0, 0, 0, 2)))


def print_pairs(out: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print a title and below it names with their texts. Empty texts are left out, as is a title without texts."""
    shown = [(name, text) for name, text in rows if text]
    if not shown:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", max_width=30)
    table.add_column(overflow="fold")
    for name, text in shown:
        table.add_row(name, Text(text))
    out.print(Text(title, style="bold"))
    out.print(Padding(table, (0, 0, 1, 2)))


def print_lines(out: Console, title: str, lines: Iterable[str], style: str = "", most: int | None = None) -> None:
    """Print a title and below it at most `most` lines, indented; without lines nothing is printed."""
    shown = list(lines)
    if not shown:
        return
    if title:
        out.print(Text(title, style=f"bold {style}"))
    for line in shown[:most]:
        out.print(Padding(Text(line), (0, 0, 0, 2)))
    if most is not None and len(shown) > most:
        out.print(f"  … and {len(shown) - most} more; --json lists all")
    out.print()


def _capitalised(text: str) -> str:
    first = text.split(maxsplit=1)[0]
    return text[0].upper() + text[1:] if _WORD.fullmatch(first) and first not in _LOWER_CASE_NAMES else text


def print_asks(out: Console, reports: Iterable[KnobReport]) -> None:
    """Print changes that only the operator of the underlying host can make, as requests to that operator."""
    asks = dict.fromkeys(report.ask for report in reports if report.state == "differs" and report.ask)
    print_lines(out, "To ask the platform team for", asks, "yellow")


def print_limited(out: Console, reports: Iterable[KnobReport]) -> None:
    """Print what is changed although something else limits its effect now, with what has to change first."""
    lines = [f"{report.name}: {report.binding}" for report in limited(reports)]
    print_lines(out, "With little or no effect for now", lines, "yellow")


def fate_texts(reports: Sequence[KnobReport]) -> list[str]:
    """What the last line of `check` and of `plan` says of differences, beside how many there are."""
    few = len(limited(reports))
    counts = {fate: sum(report.fate == fate for report in reports) for fate in ("cannot", "if_asked", "by_hand")}
    return [
        f"{few} with little or no effect for now" if few else "",
        f"{counts['cannot']} cannot be changed here" if counts["cannot"] else "",
        f"{counts['if_asked']} only with --login" if counts["if_asked"] else "",
        f"{counts['by_hand']} to change by hand" if counts["by_hand"] else "",
    ]
