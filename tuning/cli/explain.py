"""`highwater tune explain KNOB`: everything there is to say about one knob, here and elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from tuning.catalogue import find_knob
from tuning.model import Knob
from tuning.check import KnobReport, evaluate

from .options import DataDirOption, RootOption, WorkloadOption, facts_of, mistakes_in_one_line, workload_of
from .printing import STATE_WORDS, console, print_pairs


def explain(
    knob_id: Annotated[str, typer.Argument(metavar="KNOB", help="As `highwater tune check` names it.")],
    root: RootOption = Path("/"),
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
) -> None:
    """Say what a knob does, what it should be on this host and how that was reckoned, who says so, and the risk.

    Exit code: 0, or 2 for an unknown knob.
    """
    with mistakes_in_one_line():
        knob = find_knob(knob_id)
        inputs = workload_of(data_dir, workload)
        facts = facts_of(root)
    out = console()
    out.print(Text(f"{knob.id}: {knob.title}", style="bold"))
    out.print(Padding(f"{knob.reason} {knob.detail}", (0, 0, 1, 2)))
    for report in evaluate(facts, inputs, [knob]):
        _print_here(out, report)
    _print_everywhere(out, knob)


def _print_here(out: Console, report: KnobReport) -> None:
    print_pairs(
        out,
        f"Here, on {report.target}" if report.target else "Here",
        [
            ("current", report.current_text),
            ("recommended", report.recommended_text),
            ("reckoned", report.formula),
            ("state", STATE_WORDS[report.state][0]),
            ("note", "; ".join(dict.fromkeys(part for part in (report.note, report.obstacle) if part))),
        ],
    )


def _print_everywhere(out: Console, knob: Knob) -> None:
    print_pairs(
        out,
        "What others recommend",
        [(authority.who, f"{authority.value}  [{authority.source.title}]") for authority in knob.authorities],
    )
    rule = {
        "equal": "exactly",
        "at_least": "at least; a higher value is never lowered",
        "at_most": "at most; a lower value is never raised",
        "about": "within a factor 1.5",
    }
    print_pairs(
        out,
        "About the knob",
        [
            ("accepted", rule[knob.comparison]),
            ("risk", f"{knob.risk}: {knob.risk_text}"),
            ("reaches", knob.scope),
            ("file", knob.path),
            ("kept in", knob.persistence),
        ],
    )
    out.print(Text("Sources", style="bold"))
    for source in knob.sources:
        out.print(Padding(source.title, (0, 0, 0, 2)))
        out.print(Text(f"    {source.url}"), soft_wrap=True)
