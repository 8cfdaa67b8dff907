"""`highwater tune`: what this host is against what it should be, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from .catalogue import Knob, find_knob
from .check import KnobReport, State, evaluate
from .errors import TuningError
from .facts import Facts, collect
from .quantities import format_bytes
from .workload import Workload, parse_workload

SCHEMA: Final = "tuning.check/1"

app = typer.Typer(no_args_is_help=True, help="Compare this host with what a log broker needs, and say why.")

RootOption = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="Read a captured tree (its proc/ and sys/) instead of this host.")
]
DataDirOption = Annotated[
    list[str] | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Where the log is kept; repeat for several. Default: /var/lib/highwater."
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="KEY=VALUE",
        help="What the host is to carry, instead of the defaults; repeat for several. Keys: "
        "disk_write_rate (measured, of one data disk, as 400MB/s), partitions, partition_size, segment_size, "
        "connections, link (as 10Gbit/s), rtt (as 1ms).",
    ),
]

# In a row, in the summary, colour.
_STATE_WORDS: Final[dict[State, tuple[str, str, str]]] = {
    "ok": ("ok", "ok", "green"),
    "differs": ("differs", "differ", "yellow"),
    "unknown": ("unknown", "unknown", "magenta"),
    "not_applicable": ("n/a", "not applicable", "dim"),
}
_HEADER: Final = ("knob", "current", "recommended", "state")
_WIDEST_COLUMN: Final = 28


@app.command()
def check(
    root: RootOption = Path("/"),
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Compare this host with the recommendations; changes nothing.

    Exit code: 0 everything is as recommended or cannot be told, 1 something differs, 2 wrong usage.
    """
    with _usage_errors():
        inputs = _inputs(data_dir, workload)
        facts = _collect(root)
    reports = evaluate(facts, inputs)
    if as_json:
        document = {"schema": SCHEMA, "facts": facts.as_json(), "knobs": [report.as_json() for report in reports]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        console = Console(highlight=False)
        console.print(_describe_host(facts), end="\n\n")
        _print_reports(console, reports)
        console.print(_summary(reports))
    if any(report.state == "differs" for report in reports):
        raise typer.Exit(1)


@app.command()
def explain(
    knob_id: Annotated[str, typer.Argument(metavar="KNOB", help="As `highwater tune check` names it.")],
    root: RootOption = Path("/"),
    data_dir: DataDirOption = None,
    workload: WorkloadOption = None,
) -> None:
    """Say what a knob does, what it should be on this host and how that was reckoned, who says so, and the risk.

    Exit code: 0, or 2 for an unknown knob.
    """
    with _usage_errors():
        knob = find_knob(knob_id)
        inputs = _inputs(data_dir, workload)
        facts = _collect(root)
    console = Console(highlight=False)
    console.print(Text(f"{knob.id}: {knob.title}", style="bold"))
    console.print(Padding(f"{knob.reason} {knob.detail}", (0, 0, 1, 2)))
    for report in evaluate(facts, inputs, [knob]):
        _print_here(console, report)
    _print_everywhere(console, knob)


@app.command()
def profiles() -> None:
    """List the host profiles that a workload file can name (host.profile), and what they would set here.

    Exit code: 0.
    """
    from .profile_session import plan_profile
    from .profiles import PROFILES

    facts = collect()
    console = Console(highlight=False)
    for profile in PROFILES:
        console.print(Text.assemble((profile.name, "bold"), f": {profile.purpose}"))
        try:
            changes = plan_profile(profile, facts, Workload())
        except TuningError as error:
            console.print(Padding(Text(str(error), style="yellow"), (0, 0, 0, 2)))
            continue
        for change in changes:
            what = f"{change.before} → {change.after}" if change.before != change.after else f"{change.after} already"
            console.print(Padding(f"{change.name}: {what}", (0, 0, 0, 2)))


@app.command()
def rollback() -> None:
    """Take back the host profile that a killed benchmark left in force.

    Exit code: 0 restored or nothing to restore, 2 the host cannot be restored or a living run holds the profile.
    """
    from .profile_session import recover

    with _usage_errors():
        restored = [change for change in recover(collect().files) if change.before != change.after]
    for change in restored:
        typer.echo(f"{change.name} = {change.before}")
    if not restored:
        typer.echo("no host profile is in force")


@contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except TuningError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _inputs(data_dirs: list[str] | None, assignments: list[str] | None) -> Workload:
    given: dict[str, object] = {"data_dirs": data_dirs or None}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise TuningError(f"--workload {assignment!r} is not KEY=VALUE, such as rtt=1ms")
        given[key] = value
    return parse_workload(given)


def _collect(root: Path) -> Facts:
    if not (root / "proc").is_dir():
        raise TuningError(f"--root {root} holds no proc/ directory; name the top of a captured tree")
    return collect(root)


def _describe_host(facts: Facts) -> Text:
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


def _print_reports(console: Console, reports: list[KnobReport]) -> None:
    """A row of four columns per knob with the reason under it, so that it reads as well at 80 columns as at 160."""
    rows = [(report.id, report.current_text, report.recommended_text) for report in reports]
    widths = [min(_WIDEST_COLUMN, max(map(len, column))) for column in zip(_HEADER[:3], *rows, strict=True)]
    console.print(_row(widths, *(Text(title, style="bold") for title in _HEADER)))
    for report, row in zip(reports, rows, strict=True):
        label, _, style = _STATE_WORDS[report.state]
        console.print(_row(widths, *map(Text, row), Text(label, style=style)))
        console.print(Padding(Text(_why(report), style="dim"), (0, 0, 0, 2)))


def _row(widths: list[int], *cells: Text) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in widths:
        table.add_column(width=width, overflow="fold")
    table.add_column(no_wrap=True)
    table.add_row(*cells)
    return table


def _why(report: KnobReport) -> str:
    if report.state in ("unknown", "not_applicable"):
        why = report.note
    else:
        why = report.reason + (f" {report.note[0].upper()}{report.note[1:]}." if report.note else "")
    return f"{report.target}: {why}" if report.target else why


def _summary(reports: list[KnobReport]) -> Text:
    counts = {state: sum(report.state == state for report in reports) for state in _STATE_WORDS}
    text = Text("\n" + ", ".join(f"{count} {_STATE_WORDS[state][1]}" for state, count in counts.items() if count))
    differing = next((report.id for report in reports if report.state == "differs"), None)
    if differing:
        text.append(f"\nHow a value is reckoned, and who says so: highwater tune explain {differing}", style="dim")
    return text


def _print_here(console: Console, report: KnobReport) -> None:
    _print_pairs(
        console,
        f"Here, on {report.target}" if report.target else "Here",
        [
            ("current", report.current_text),
            ("recommended", report.recommended_text),
            ("reckoned", report.formula),
            ("state", _STATE_WORDS[report.state][0]),
            ("note", "; ".join(dict.fromkeys(part for part in (report.note, report.obstacle) if part))),
        ],
    )


def _print_everywhere(console: Console, knob: Knob) -> None:
    _print_pairs(
        console,
        "What others recommend",
        [(authority.who, f"{authority.value}  [{authority.source.title}]") for authority in knob.authorities],
    )
    rule = {"equal": "exactly", "at_least": "at least; a higher value is never lowered", "about": "within a factor 1.5"}
    _print_pairs(
        console,
        "About the knob",
        [
            ("accepted", rule[knob.comparison]),
            ("risk", f"{knob.risk}: {knob.risk_text}"),
            ("reaches", knob.scope),
            ("file", knob.path),
            ("kept in", knob.persistence),
        ],
    )
    console.print(Text("Sources", style="bold"))
    for source in knob.sources:
        console.print(Padding(source.title, (0, 0, 0, 2)))
        console.print(Text(f"    {source.url}"), soft_wrap=True)


def _print_pairs(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", max_width=30)
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(name, Text(value))
    console.print(Text(title, style="bold"))
    console.print(Padding(table, (0, 0, 1, 2)))
