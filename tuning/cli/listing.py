"""`highwater tune list`: the knobs there are, and whether each can be set on this host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from ..check import KnobReport, evaluate
from ..model import Group, Knob, Mechanism, Risk
from .documents import print_document
from .options import (
    THIS_HOST,
    DataDirOption,
    JsonOption,
    OnlyOption,
    RootOption,
    SkipOption,
    UnitOption,
    chosen_knobs,
    facts_of,
    mistakes_in_one_line,
    workload_of,
)
from .printing import Rows, console, describe_host, sentences

Settable = Literal[
    "yes",
    "in part",  # for some of its disks, mounts, queues or units
    "if named",  # it trades something away
    "checked",  # compared and explained, never changed
    "no",
]


@dataclass(frozen=True)
class KnobRow:
    id: str
    title: str
    group: Group
    mechanism: Mechanism
    risk: Risk
    targets: tuple[str, ...]
    """The disks, mounts, interfaces, queues or units it is about here; none for the whole host."""
    settable: Settable
    reason: str
    """Why it is not simply `yes`."""


@dataclass(frozen=True)
class ListDocument:
    knobs: tuple[KnobRow, ...]
    schema: Literal["tuning.list/1"] = "tuning.list/1"


def list_knobs(
    only: OnlyOption = None,
    skip: SkipOption = None,
    root: RootOption = THIS_HOST,
    data_dir: DataDirOption = None,
    unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the knobs: what each is, whether it can be set on this host, and why not; changes nothing.

    Exit codes: 0, or 2 for a mistake in the call.
    """
    with mistakes_in_one_line():
        inputs = workload_of(data_dir, None, None, unit)
        knobs = chosen_knobs(only, skip)
        facts = facts_of(root)
        reports = evaluate(facts, inputs, knobs)
    rows = [_row(knob, [report for report in reports if report.id == knob.id]) for knob in knobs]
    if as_json:
        print_document(ListDocument(tuple(rows)))
        return
    out = console()
    out.print(describe_host(facts), end="\n\n")
    styles = {"yes": "green", "in part": "green", "no": "yellow"}
    table = Rows(out, ("knob", "group", "settable"), ((row.id, row.group, row.settable) for row in rows))
    for row in rows:
        style = styles.get(row.settable, "cyan")
        below = f"{row.title}." + (f" {row.reason}" if row.reason else "")
        table.print([Text(row.id), Text(row.group), Text(row.settable, style=style)], below)
    out.print(f"\n{len(rows)} knobs, {sum(row.settable in ('yes', 'in part') for row in rows)} to be set here")


def _row(knob: Knob, reports: list[KnobReport]) -> KnobRow:
    settable, reason = _settable(knob, reports)
    targets = tuple(report.target for report in reports if report.target)
    return KnobRow(knob.id, knob.title, knob.group, knob.mechanism, knob.risk, targets, settable, reason)


def _settable(knob: Knob, reports: list[KnobReport]) -> tuple[Settable, str]:
    hindered = [report for report in reports if _hindrance(report)]
    if not reports:
        return "no", f"This host has nothing it is about ({knob.scope})."
    if hindered and len(hindered) == len(reports):
        return "no", sentences(map(_hindrance, hindered))
    if knob.mechanism == "advice":
        return "checked", "Never changed by this program."
    if knob.only_if_named:
        return "if named", sentences([knob.only_if_named])
    if hindered:
        names = {report.target: _hindrance(report) for report in hindered}
        return "in part", sentences(f"{target}: {why}" for target, why in names.items())
    return "yes", ""


def _hindrance(report: KnobReport) -> str:
    if report.state in ("unknown", "not_applicable"):
        return report.note or report.state
    return report.obsolete or report.obstacle
