"""What the verbs print for people: the host in one line, rows of columns, names beside their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tuning.check import State
from tuning.facts import Facts
from tuning.quantities import format_bytes

# In a row, in a summary, colour.
STATE_WORDS: Final[dict[State, tuple[str, str, str]]] = {
    "ok": ("ok", "ok", "green"),
    "differs": ("differs", "differ", "yellow"),
    "unknown": ("unknown", "unknown", "magenta"),
    "not_applicable": ("n/a", "not applicable", "dim"),
}


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


def row(widths: Sequence[int], *cells: Text) -> Table:
    """Columns of these widths, whose texts are folded, and one more that is not."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in widths:
        table.add_column(width=width, overflow="fold")
    table.add_column(no_wrap=True)
    table.add_row(*cells)
    return table


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
