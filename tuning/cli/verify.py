"""`highwater tune verify`: verify that settings are in effect, wherever the kernel shows their effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from .. import effects
from ..effects import Effect
from ..runner import runner_for
from ..trades import durability_trades
from .documents import print_document
from .exit_codes import DIFFERS
from .options import (
    THIS_HOST,
    AcceptRiskOption,
    BrokerConfigOption,
    DataDirOption,
    JsonOption,
    OnlyOption,
    ProfileOption,
    RootOption,
    SkipOption,
    UnitOption,
    WorkloadOption,
    errors_in_one_line,
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


@dataclass(frozen=True)
class VerifyDocument:
    effects: tuple[Effect, ...]
    durability_trades: tuple[str, ...]
    schema: Literal["tuning.verify/1"] = "tuning.verify/1"


def verify(
    profile: ProfileOption = "recommended",
    only: OnlyOption = None,
    skip: SkipOption = None,
    accept_risk: AcceptRiskOption = None,
    failed_only: Annotated[bool, typer.Option("--failed", help="Show only settings that are not in effect.")] = False,
    root: RootOption = THIS_HOST,
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
    broker_config: BrokerConfigOption = None,
    unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify that settings are in effect and not only in their files: in processes, in the kernel, at the next boot.

    Exit codes: 0 every setting that can be verified is in effect, 1 something is not, 2 a mistake in the call.
    """
    with errors_in_one_line():
        wanted = tuning_request(
            root=root,
            profile=profile,
            only=only,
            skip=skip,
            accept_risk=accept_risk,
            data_dir=data_dir,
            workload=workload,
            broker_config=broker_config,
            unit=unit,
        )
        found = effects.verify(
            wanted.facts, wanted.workload, wanted.knobs, runner_for(root), accepted=wanted.options.accepted
        )
        trades = tuple(str(trade) for trade in durability_trades(wanted.facts, wanted.workload.data_dirs))
    if as_json:
        print_document(VerifyDocument(tuple(found), trades))
    else:
        out = console()
        out.print(describe_host(wanted.facts), end="\n\n")
        _print_effects(out, [row for row in found if row.state in (("failed",) if failed_only else _WORTH_A_ROW)])
        print_lines(out, "Durability that this host trades away", trades, "red")
        counts = {state: sum(row.state == state for row in found) for state in _STYLES}
        out.print(", ".join(f"{count} {state.replace('_', ' ')}" for state, count in counts.items() if count))
    if any(row.state == "failed" for row in found):
        raise typer.Exit(DIFFERS)


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
