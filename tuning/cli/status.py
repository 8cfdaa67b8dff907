"""`highwater tune status`: Highwater's changes in force, later changes to them, interrupted runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import typer
from rich.console import Console
from rich.text import Text

from ...common.exit_codes import EXIT_NO
from .. import change_status
from ..trades import durability_trades
from .change_rows import STANDING_WORDS, UNACCOUNTED, ChangeRow, change_row, print_change_rows
from .documents import print_document
from .options import THIS_HOST, DataDirOption, JsonOption, RootOption, errors_in_one_line, facts_of, workload_of
from .printing import console, describe_host, print_lines


@dataclass(frozen=True)
class StatusDocument:
    applied_by: str | None
    applied_utc: str
    booted_since: bool
    interrupted: str
    held: tuple[ChangeRow, ...]
    session: str | None
    """The host profile that a benchmark has in force."""
    session_lives: bool
    session_held: tuple[ChangeRow, ...]
    unaccounted: tuple[str, ...]
    """Files of Highwater that are in no journal."""
    durability_trades: tuple[str, ...]
    schema: Literal["tuning.status/1"] = "tuning.status/1"


def status(root: RootOption = THIS_HOST, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show which changes by Highwater are in force, which somebody else changed since, and interrupted runs.

    Exit codes: 0 every change by Highwater is in force, or there is none; 1 a change is not in force, a run was
    interrupted, or a file of Highwater is in no journal; 2 a damaged journal, or a usage error.
    """
    with errors_in_one_line():
        inputs = workload_of(data_dir, None)
        facts = facts_of(root)
        found = change_status.status(facts.files)
    trades = tuple(str(trade) for trade in durability_trades(facts, inputs.data_dirs))
    if as_json:
        print_document(
            StatusDocument(
                applied_by=found.owner.name if found.owner else None,
                applied_utc=found.applied_utc,
                booted_since=found.booted_since,
                interrupted=found.interrupted,
                held=tuple(map(change_row, found.changes)),
                session=found.session.name if found.session else None,
                session_lives=found.session_lives,
                session_held=tuple(map(change_row, found.session_changes)),
                unaccounted=found.unaccounted,
                durability_trades=trades,
            )
        )
    else:
        out = console()
        out.print(describe_host(facts), end="\n\n")
        _print_status(out, found)
        print_lines(out, "Durability that this host trades away", trades, "red")
    if found.interrupted or found.unaccounted or any(held.standing != "in_force" for held in found.changes):
        raise typer.Exit(EXIT_NO)


def _print_status(out: Console, found: change_status.HostStatus) -> None:
    if found.interrupted:
        print_lines(out, "Interrupted", [found.interrupted], "red")
    if found.session is not None:
        alive = "is running" if found.session_lives else "has ended; highwater tune rollback restores the host"
        out.print(f"A benchmark has {found.session.name} in force: process {found.session.pid} {alive}")
        print_change_rows(out, found.session_changes)
    print_lines(out, UNACCOUNTED, found.unaccounted, "red")
    if found.owner is None:
        if not found.unaccounted:
            out.print("no change by Highwater is in force")
        return
    booted = "; this host was rebooted since" if found.booted_since else ""
    out.print(f"Applied at {found.applied_utc} by {found.owner.name}{booted}")
    out.print()
    print_change_rows(out, found.changes)
    counts = {standing: sum(held.standing == standing for held in found.changes) for standing in STANDING_WORDS}
    out.print(", ".join(f"{count} {STANDING_WORDS[standing][0]}" for standing, count in counts.items() if count))
    out.print(Text("To undo: highwater tune rollback", style="dim"))
