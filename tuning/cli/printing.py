"""What the verbs print for people: the host in one line, rows of columns, names beside their texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..check import KnobReport, State
from ..facts import Facts
from ..quantities import format_bytes

# In a row, in a summary, colour.
STATE_WORDS: Final[dict[State, tuple[str, str, str]]] = {
    "ok": ("ok", "ok", "green"),
    "differs": ("differs", "differ", "yellow"),
    "unknown": ("unknown", "unknown", "magenta"),
    "left_alone": ("left alone", "left alone unless named", "cyan"),
    "obsolete": ("obsolete", "obsolete", "dim"),
    "not_applicable": ("n/a", "not applicable", "dim"),
}
_NARROWEST: Final = 40
_NARROW_COLUMN: Final = 12
_WORD: Final = re.compile(r"[A-Za-z'’-]+[,:;]?")
# Written small also where a sentence begins.
_SMALL: Final = ("systemd",)
_MOST_TARGETS: Final = 6


def console() -> Console:
    return Console(highlight=False)


def describe_host(facts: Facts) -> Text:
    memory = facts.memory
    parts = [
        facts.operating_system or "unknown system",
        f"kernel {facts.kernel_release or '?'}",
        f"{facts.cpu_count or '?'} CPUs",
        f"{format_bytes(memory.total_bytes)} memory" if memory.total_bytes else "memory unknown",
    ]
    if memory.cgroup_limit_bytes:
        parts.append(f"limited to {format_bytes(memory.cgroup_limit_bytes)}")
    if facts.container:
        parts.append(f"container ({facts.container})")
    if facts.virtual_machine:
        parts.append(f"virtual machine ({facts.virtual_machine})")
    return Text(", ".join(parts), style="dim")


def sentences(texts: Iterable[str]) -> str:
    """Texts as sentences, each once; a name at the beginning, such as vm.swappiness, stays as it is written."""
    return " ".join(f"{_capitalised(text.removesuffix('.'))}." for text in dict.fromkeys(texts) if text)


def targets_text(targets: Sequence[str]) -> str:
    """`sda, sdb` or `sda, sdb, … and 198 more`; empty for the whole host."""
    shown = ", ".join(targets[:_MOST_TARGETS])
    more = len(targets) - _MOST_TARGETS
    return f"{shown}, … and {more} more" if more > 0 else shown


def merged(reports: Iterable[KnobReport]) -> list[tuple[KnobReport, tuple[str, ...]]]:
    """Reports that differ only in what they are about, as one with all their targets."""
    found: dict[tuple[object, ...], tuple[KnobReport, list[str]]] = {}
    for report in reports:
        key = (report.id, report.state, report.current_text, report.recommended_text, report.note)
        found.setdefault(key, (report, []))[1].append(report.target)
    return [(report, tuple(target for target in targets if target)) for report, targets in found.values()]


class Rows:
    """Rows of columns as wide as their texts need and the terminal lets them be, whatever is printed between the rows.

    So that they read as well at 80 columns as at 160: what is long is folded, and sentences go below their row.
    """

    def __init__(self, out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self._out = out
        columns = zip(header, *rows, strict=True)
        self._widths = [max(map(len, column)) for column in columns]
        room = max(_NARROWEST, out.width - 2 * (len(self._widths) - 1))
        while sum(self._widths) > room:
            # Names in the first column are told apart by their ends: they are folded last.
            widest = max(self._widths[1:])
            column = self._widths.index(widest, 1) if widest > _NARROW_COLUMN else self._widths.index(max(self._widths))
            self._widths[column] -= 1
        self.print([Text(title, style="bold") for title in header])

    def print(self, cells: Sequence[Text], below: str = "") -> None:
        table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
        for width in self._widths:
            table.add_column(width=width, overflow="fold")
        table.add_row(*cells)
        self._out.print(table)
        if below:
            self._out.print(Padding(Text(below, style="dim"), (0, 0, 0, 2)))


def print_pairs(out: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """A title and under it names with their texts; what has no text is left out, and the title of nothing too."""
    told = [(name, text) for name, text in rows if text]
    if not told:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", max_width=30)
    table.add_column(overflow="fold")
    for name, text in told:
        table.add_row(name, Text(text))
    out.print(Text(title, style="bold"))
    out.print(Padding(table, (0, 0, 1, 2)))


def print_lines(out: Console, title: str, lines: Iterable[str], style: str = "", most: int | None = None) -> None:
    """A title and under it lines that are folded with an indent, `most` of them; nothing for no lines."""
    told = list(lines)
    if not told:
        return
    if title:
        out.print(Text(title, style=f"bold {style}"))
    for line in told[:most]:
        out.print(Padding(Text(line), (0, 0, 0, 2)))
    if most is not None and len(told) > most:
        out.print(f"  … and {len(told) - most} more: --json tells all")
    out.print()


def _capitalised(text: str) -> str:
    first = text.split(maxsplit=1)[0]
    return text[0].upper() + text[1:] if _WORD.fullmatch(first) and first not in _SMALL else text


def print_asks(out: Console, reports: Iterable[KnobReport]) -> None:
    """What cannot be changed from here, as requests to whoever runs the host below."""
    asks = dict.fromkeys(report.ask for report in reports if report.state == "differs" and report.ask)
    print_lines(out, "To ask the platform team for", asks, "yellow")
