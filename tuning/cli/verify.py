"""`highwater tune verify`: verify that settings are in effect, wherever the kernel shows their effect."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from ...common.command_options import with_options
from ...common.exit_codes import EXIT_NO
from .. import change_status, effects, in_force
from ..effects import Effect
from ..runner import runner_for
from ..trades import durability_trades
from .documents import print_document
from .options import (
    THIS_HOST,
    ChangeOptions,
    HostOptions,
    JsonOption,
    chosen_knobs,
    errors_in_one_line,
    facts_of,
    workload_of,
)
from .printing import Rows, console, describe_host, print_lines
from .request import tuning_request

_STYLES: Final = {
    "effective": "green",
    "failed": "red",
    "pending": "yellow",
    "unknown": "magenta",
    "not_applicable": "dim",
}
_WORTH_A_ROW: Final = ("effective", "failed", "pending", "unknown")


Subject = Literal["applied", "recommended"]


@dataclass(frozen=True)
class VerifyDocument:
    subject: Subject
    """Whose values are expected: those of the journal, or those of the catalogue or a profile."""
    effects: tuple[Effect, ...]
    durability_trades: tuple[str, ...]
    schema: Literal["tuning.verify/1"] = "tuning.verify/1"


@with_options
def verify(
    *,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="NAME", help="Verify the values of this profile instead of the applied ones."
        ),
    ] = None,
    recommended: Annotated[
        bool, typer.Option("--recommended", help="Verify the recommended values instead of the applied ones.")
    ] = False,
    failed_only: Annotated[bool, typer.Option("--failed", help="Show only settings that are not in effect.")] = False,
    options: HostOptions,
    as_json: JsonOption = False,
) -> None:
    """Verify that what was applied is in effect, and not only in files: in processes, in the kernel, at the next boot.

    By default it verifies exactly what the journal of apply has, with the applied values. With --recommended, with
    --profile or with an option of the recommendation (--data-dir, --workload, --broker-config, --unit, --accept-risk)
    it verifies recommended values instead.

    Exit codes: 0 everything that can be verified is in effect, or nothing is applied; 1 something is not; 2 usage
    error.
    """
    of_recommendation = (options.data_dir, options.workload, options.broker_config, options.unit, options.accept_risk)
    is_recommended = recommended or any(option is not None for option in (profile, *of_recommendation))
    interrupted = ""
    with errors_in_one_line():
        if is_recommended:
            wanted = tuning_request(ChangeOptions(**vars(options), profile=profile or "recommended"))
            facts, data_dirs = wanted.facts, wanted.workload.data_dirs
            found = effects.verify(
                facts, wanted.workload, wanted.knobs, runner_for(options.root), accepted=wanted.options.accepted
            )
        else:
            chosen = {knob.id for knob in chosen_knobs(options.only, options.skip)}
            facts, data_dirs = facts_of(options.root), workload_of(None, None).data_dirs
            interrupted = change_status.interrupted(facts.files)
            rows = in_force.verify_applied(facts, runner_for(options.root))
            # Files hold several knobs: they are left out when knobs are named.
            found = [row for row in rows if row.parameter in chosen or not (options.only or options.skip)]
        trades = tuple(str(trade) for trade in durability_trades(facts, data_dirs))
    if as_json:
        subject: Subject = "recommended" if is_recommended else "applied"
        print_document(VerifyDocument(subject, tuple(found), trades))
    else:
        out = console()
        out.print(describe_host(facts), end="\n\n")
        _print_effects(out, [row for row in found if row.state in (("failed",) if failed_only else _WORTH_A_ROW)])
        print_lines(out, "Interrupted", [interrupted] if interrupted else [], "red")
        print_lines(out, "Durability that this host trades away", trades, "red")
        if not is_recommended and not found:
            there = "" if options.root == THIS_HOST else f" --root {shlex.quote(str(options.root))}"
            out.print(f"To verify recommended values: highwater tune verify --recommended{there}", soft_wrap=True)
        out.print(_outcome(found, is_recommended))
    if interrupted or any(row.state == "failed" for row in found):
        raise typer.Exit(EXIT_NO)


def _outcome(found: Sequence[Effect], is_recommended: bool) -> str:
    """The last line: whether everything is in effect."""
    what = "recommended" if is_recommended else "applied"
    if not found:
        return "nothing is applied, so there is nothing to verify"
    counts = {state: sum(row.state == state for row in found) for state in _STYLES}
    counted = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in counts.items() if count)
    if counts["failed"]:
        return f"not everything that is {what} is in effect: {counted}"
    if counts["unknown"]:
        return f"nothing that is {what} has failed: {counted}"
    if counts["pending"]:
        return f"everything that is {what} is in effect, or waits for a restart: {counted}"
    return f"everything that is {what} is in effect: {counted}"


def _print_effects(out: Console, found: Sequence[Effect]) -> None:
    if not found:
        return
    header = ("parameter", "expected", "effective", "state")
    cells = [(row.parameter, row.expected, row.effective or row.actual, row.state) for row in found]
    rows = Rows(out, header, cells)
    for row, (*texts, state) in zip(found, cells, strict=True):
        rows.print([*map(Text, texts), Text(state, style=_STYLES[row.state])], _below(row))
    out.print()


def _below(row: Effect) -> str:
    elsewhere = f"its own file has {row.actual}" if row.actual not in ("?", row.effective) and row.effective else ""
    boot = f"at boot {row.at_boot}" if row.at_boot else ""
    seen = f"seen by {row.seen_by}" if row.seen_by else ""
    return "; ".join(part for part in (row.target, elsewhere, boot, seen, *row.footnotes) if part)
