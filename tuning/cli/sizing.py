"""`highwater tune sizing`: page cache, the seconds of log it holds, and the required disk throughput."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer
from rich.padding import Padding
from rich.text import Text

from ..errors import TuningError
from ..sizing import Budget, Sizing, measured_write_rate, size_host
from ..workload import Broker
from .documents import print_document
from .options import (
    THIS_HOST,
    DataDirOption,
    JsonOption,
    RootOption,
    UnitOption,
    WorkloadOption,
    errors_in_one_line,
    facts_of,
    workload_of,
)
from .printing import Rows, console, describe_host, print_lines, print_pairs

_NAMES: Final[dict[Broker, str]] = {"highwater": "Highwater", "apache-kafka": "Apache Kafka"}


@dataclass(frozen=True)
class SizingDocument:
    sizing: Sizing
    schema: Literal["tuning.sizing/1"] = "tuning.sizing/1"


def sizing(
    root: RootOption = THIS_HOST,
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
    unit: UnitOption = None,
    probe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take the disk speed from this file, written by `highwater bench storage probe DIR --json`.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Calculate the page cache that this host has left, with Highwater's broker and with Apache Kafka and its heap.

    Exit codes: 0, or 2 for a usage error.
    """
    with errors_in_one_line():
        inputs = workload_of(data_dir, workload, None, unit)
        if probe is not None:
            inputs = dataclasses.replace(inputs, disk_write_bytes_per_s=_measured_disk_speed(probe))
        facts = facts_of(root)
        found = size_host(facts, inputs)
    if as_json:
        print_document(SizingDocument(found))
        return
    out = console()
    out.print(describe_host(facts), end="\n\n")
    one, other = found.budgets
    header = ("memory", _NAMES[one.broker], _NAMES[other.broker])
    lines = list(zip(one.lines, other.lines, strict=True))
    rows = Rows(out, header, ((mine.label, mine.text, theirs.text) for mine, theirs in lines))
    for mine, theirs in lines:
        same = mine.formula == theirs.formula
        below = mine.formula if same else f"{mine.formula}\n{_NAMES[other.broker]}: {theirs.formula}"
        rows.print([Text(mine.label), Text(mine.text), Text(theirs.text)], below)
    out.print()
    for budget in found.budgets:
        out.print(_verdict(budget))
    out.print()
    print_pairs(out, "Disks", ((line.label, f"{line.text} = {line.formula}") for line in found.disks))
    print_lines(out, "Warnings", found.warnings, "yellow")


def _verdict(budget: Budget) -> Padding:
    style = "" if budget.missing_bytes is None else "yellow" if budget.missing_bytes else "green"
    return Padding(Text.assemble((_NAMES[budget.broker], "bold"), ": ", (budget.verdict, style)), 0)


def _measured_disk_speed(file: Path) -> int:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TuningError(f"--probe {file} cannot be read ({error}); name a storage probe") from None
    return measured_write_rate(text, f"--probe {file}")
