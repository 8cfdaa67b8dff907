"""`highwater tune check`: compare the settings of this host with the recommended ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from ...common.command_options import with_options
from ...common.exit_codes import EXIT_NO
from ..check import Fate, KnobReport, evaluate
from ..facts.model import Facts
from ..fingerprint import fingerprint
from ..profiles import find_profile, knobs_of
from ..trades import durability_trades
from .documents import print_document
from .options import (
    THIS_HOST,
    HostOptions,
    JsonOption,
    ProfileOption,
    accepted_risks,
    chosen_knobs,
    errors_in_one_line,
    facts_of,
    workload_of,
)
from .printing import (
    STATE_WORDS,
    Rows,
    console,
    describe_host,
    fate_texts,
    merged,
    print_asks,
    print_lines,
    sentences,
    targets_text,
)

_HEADER: Final = ("knob", "current", "recommended", "state")
# Advice and limits of logins do not count: a plain apply never changes them, and check exits with 0 after an apply.
_COUNTS: Final[tuple[Fate, ...]] = ("changes", "cannot")
_WORTH_A_ROW: Final = ("differs", "unknown")


@dataclass(frozen=True)
class CheckDocument:
    facts: Facts
    knobs: tuple[KnobReport, ...]
    fingerprint: str
    """SHA-256 over the host-wide settings of the catalogue; hosts with equal settings have the same fingerprint."""
    durability_trades: tuple[str, ...]
    schema: Literal["tuning.check/1"] = "tuning.check/1"


@with_options
def check(
    *,
    profile: ProfileOption = "recommended",
    every: Annotated[
        bool, typer.Option("--all", help="Show every knob with its reason, also those that are ok.")
    ] = False,
    options: HostOptions,
    as_json: JsonOption = False,
) -> None:
    """Compare this host with the recommendations; changes nothing.

    Exit codes: 0 everything is as recommended or unknown, 1 something differs, 2 usage error. Knobs that a
    plain apply never changes (advice, limits of logins) are shown, but do not count.
    """
    with errors_in_one_line():
        inputs = workload_of(options.data_dir, options.workload, options.broker_config, options.unit)
        knobs = knobs_of(find_profile(profile), chosen_knobs(options.only, options.skip))
        named = accepted_risks(options.accept_risk)
        facts = facts_of(options.root)
        for folder in options.data_dir or ():
            if options.root == THIS_HOST and not Path(folder).is_dir():
                typer.echo(f"note: --data-dir {folder}: not there, judged as if it were made now", err=True)
        reports = evaluate(facts, inputs, knobs, named=named)
    trades = tuple(str(trade) for trade in durability_trades(facts, inputs.data_dirs))
    if as_json:
        print_document(CheckDocument(facts, tuple(reports), fingerprint(facts)[0], trades))
    else:
        out = console()
        out.print(describe_host(facts), end="\n\n")
        _print_rows(out, [report for report in reports if every or report.state in _WORTH_A_ROW])
        _print_the_rest(out, [report for report in reports if not every and report.state not in _WORTH_A_ROW])
        print_asks(out, reports)
        print_lines(out, "Durability that this host trades away", trades, "red")
        _print_summary(out, reports)
    if any(report.fate in _COUNTS for report in reports):
        raise typer.Exit(EXIT_NO)


def _print_rows(out: Console, reports: list[KnobReport]) -> None:
    """Print a row for each knob with its reason below; equal disks or queues share a row."""
    if not reports:
        return
    shown = merged(reports)
    cells = [(one.id, one.current_text, one.recommended_text, STATE_WORDS[one.state][0]) for one, _ in shown]
    rows = Rows(out, _HEADER, cells)
    for (report, targets), (*texts, state) in zip(shown, cells, strict=True):
        style = STATE_WORDS[report.state][2]
        rows.print([*map(Text, texts), Text(state, style=style)], _why(report, targets))
    out.print()


def _print_the_rest(out: Console, reports: list[KnobReport]) -> None:
    for state, (_, words, style) in STATE_WORDS.items():
        ids = dict.fromkeys(report.id for report in reports if report.state == state)
        print_lines(out, words[0].upper() + words[1:], [", ".join(ids)] if ids else [], style)


def _why(report: KnobReport, targets: tuple[str, ...]) -> str:
    if report.state in ("unknown", "not_applicable"):
        why = report.note
    else:
        boot = f"at the next boot {report.overridden_by}" if report.overridden_by else ""
        why = sentences((report.reason, report.note, report.binding, boot))
    return f"{targets_text(targets)}: {why}" if targets else why


def _print_summary(out: Console, reports: list[KnobReport]) -> None:
    counts = {state: sum(report.state == state for report in reports) for state in STATE_WORDS}
    out.print(", ".join(f"{count} {STATE_WORDS[state][1]}" for state, count in counts.items() if count))
    differing = next((report.id for report in reports if report.state == "differs"), None)
    if differing is None:
        unknown = f"; {counts['unknown']} cannot be read" if counts["unknown"] else ""
        out.print(f"no knob differs from its recommended value{unknown}")
        return
    out.print(Text(f"For the formula and the sources of a value: highwater tune explain {differing}", style="dim"))
    changing = sum(report.fate == "changes" for report in reports)
    if changing:
        out.print(Text("For the changes that apply would make: highwater tune plan", style="dim"))
    texts = [f"apply would change {changing or 'none'}", *filter(None, fate_texts(reports))]
    differ = "knob differs" if counts["differs"] == 1 else "knobs differ"
    out.print(f"{counts['differs']} {differ}: {'; '.join(texts)}")
