"""`highwater tune list`: all knobs, and whether each can be set on this host."""

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
    errors_in_one_line,
    facts_of,
    workload_of,
)
from .printing import Rows, console, describe_host, sentences

Settable = Literal[
    "yes",
    "in part",  # on some of its disks, mounts, queues or units
    "if named",  # it trades durability or safety away
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
    """Its disks, mounts, interfaces, queues or units on this host; empty for a knob of the whole host."""
    settable: Settable
    reason: str
    """Why `settable` is not `yes`."""


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
    """List the knobs, whether each can be set on this host, and if not, why; changes nothing.

    Exit codes: 0, or 2 for a usage error.
    """
    with errors_in_one_line():
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
    out.print(f"\n{len(rows)} knobs, {sum(row.settable in ('yes', 'in part') for row in rows)} can be set here")


def _row(knob: Knob, reports: list[KnobReport]) -> KnobRow:
    settable, reason = _settable(knob, reports)
    targets = tuple(report.target for report in reports if report.target)
    return KnobRow(knob.id, knob.title, knob.group, knob.mechanism, knob.risk, targets, settable, reason)


def _settable(knob: Knob, reports: list[KnobReport]) -> tuple[Settable, str]:
    blocked = [report for report in reports if _obstacle(report)]
    if not reports:
        return "no", f"This host has no target for it ({knob.scope})."
    if blocked and len(blocked) == len(reports):
        return "no", sentences(map(_obstacle, blocked))
    if knob.mechanism == "advice":
        return "checked", "Never changed by this program."
    if knob.only_if_named:
        return "if named", sentences([knob.only_if_named])
    if blocked:
        names = {report.target: _obstacle(report) for report in blocked}
        return "in part", sentences(f"{target}: {why}" for target, why in names.items())
    return "yes", ""


def _obstacle(report: KnobReport) -> str:
    if report.state in ("unknown", "not_applicable"):
        return report.note or report.state
    return report.obsolete or report.obstacle
