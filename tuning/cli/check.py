"""`highwater tune check`: what this host is against what it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from tuning.check import KnobReport, evaluate

from .exit_codes import DIFFERS
from .options import DataDirOption, JsonOption, RootOption, WorkloadOption, facts_of, mistakes_in_one_line, workload_of
from .printing import STATE_WORDS, console, describe_host, row

SCHEMA: Final = "tuning.check/1"
_HEADER: Final = ("knob", "current", "recommended", "state")
_WIDEST_COLUMN: Final = 28


def check(
    root: RootOption = Path("/"),
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare this host with the recommendations; changes nothing.

    Exit code: 0 everything is as recommended or cannot be told, 1 something differs, 2 wrong usage.
    """
    with mistakes_in_one_line():
        inputs = workload_of(data_dir, workload)
        facts = facts_of(root)
    reports = evaluate(facts, inputs)
    if as_json:
        document = {"schema": SCHEMA, "facts": facts.as_json(), "knobs": [report.as_json() for report in reports]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        out = console()
        out.print(describe_host(facts), end="\n\n")
        _print_reports(out, reports)
        out.print(_summary(reports))
    if any(report.state == "differs" for report in reports):
        raise typer.Exit(DIFFERS)


def _print_reports(out: Console, reports: list[KnobReport]) -> None:
    """A row of four columns per knob with the reason under it, so that it reads as well at 80 columns as at 160."""
    rows = [(report.id, report.current_text, report.recommended_text) for report in reports]
    widths = [min(_WIDEST_COLUMN, max(map(len, column))) for column in zip(_HEADER[:3], *rows, strict=True)]
    out.print(row(widths, *(Text(title, style="bold") for title in _HEADER)))
    for report, cells in zip(reports, rows, strict=True):
        label, _, style = STATE_WORDS[report.state]
        out.print(row(widths, *map(Text, cells), Text(label, style=style)))
        out.print(Padding(Text(_why(report), style="dim"), (0, 0, 0, 2)))


def _why(report: KnobReport) -> str:
    if report.state in ("unknown", "not_applicable"):
        why = report.note
    else:
        why = report.reason + (f" {report.note[0].upper()}{report.note[1:]}." if report.note else "")
    return f"{report.target}: {why}" if report.target else why


def _summary(reports: list[KnobReport]) -> Text:
    counts = {state: sum(report.state == state for report in reports) for state in STATE_WORDS}
    text = Text("\n" + ", ".join(f"{count} {STATE_WORDS[state][1]}" for state, count in counts.items() if count))
    differing = next((report.id for report in reports if report.state == "differs"), None)
    if differing:
        text.append(f"\nHow a value is reckoned, and who says so: highwater tune explain {differing}", style="dim")
    return text
