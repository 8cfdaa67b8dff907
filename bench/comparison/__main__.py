"""`python -m highwater.bench.comparison`, or `make bench-broker`: Highwater's broker beside Apache Kafka."""

from __future__ import annotations

import random
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.bench.comparison import results
from highwater.bench.comparison.cells import Cell, WarmCell
from highwater.bench.comparison.cluster_cells import cluster_load_cells, cluster_start_cells
from highwater.bench.comparison.contenders import BARE_LOOP, KAFKA_LINES, Contender, find_cluster, find_contender
from highwater.bench.comparison.load_cells import load_cells
from highwater.bench.comparison.report import render
from highwater.bench.comparison.results import CellResult, ThrownOut
from highwater.bench.comparison.run import Comparison, Measured, Scope
from highwater.bench.comparison.start_cells import StartCell, start_cells
from highwater.bench.comparison.surroundings import surroundings
from highwater.bench.errors import UsageError
from highwater.bench.native.librdkafka import rdkafka_performance
from highwater.bench.native.programs import program
from highwater.bench.systems.highwater import HIGHWATER

RESULTS: Final = "broker-versus-kafka"
SYSTEMS: Final = (HIGHWATER, *KAFKA_LINES, BARE_LOOP)


app = typer.Typer(add_completion=False)


@app.command()
def compare(
    only: Annotated[list[str] | None, typer.Option(metavar="CELL", help="Measure this cell; may be repeated.")] = None,
    systems: Annotated[list[str] | None, typer.Option(metavar="SYSTEM", help="Measure only these systems.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each cell is measured on each system.")] = 5,
    load: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How long a load is to take.")] = 4.0,
    warm_up: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long Java is warmed up.")] = 20.0,
    scale: Annotated[float, typer.Option(metavar="FACTOR", min=0.001, help="Of data sets: 0.1 for 1 GiB in 10.")] = 1.0,
    quick: Annotated[bool, typer.Option("--quick", help="Does it work? One small repeat, written nowhere.")] = False,
    storage: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the systems keep their logs.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the results are kept, by cell.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the order.")] = None,
    list_cells: Annotated[bool, typer.Option("--list", help="List the cells and end.")] = False,
    render_only: Annotated[bool, typer.Option("--render", help="Write the page again from its figures.")] = False,
) -> None:
    """Measure Highwater's broker beside Apache Kafka on this host, cell by cell.

    Exit codes: 0 all measured, whatever came out; 2 bad input or set-up; 3 some measurement was thrown out.
    """
    try:
        if list_cells:
            for cell in _cells():
                typer.echo(f"{cell.name:24} {cell.title}")
            return
        out = out or (None if quick else Path("docs/results"))
        if render_only:
            _write(out or Path("docs/results"), {})
            return
        scope = Scope(repeats, load, warm_up, scale, random.randrange(2**32) if seed is None else seed)
        if quick:
            scope = Scope(1, 0.5, 3.0, min(scale, 0.05), scope.seed)
        thrown_out = _measure(scope, only, systems, storage or Path(tempfile.gettempdir()), out)
    except UsageError as error:
        typer.echo(f"bench-broker: {error}", err=True)
        raise typer.Exit(2) from None
    for thrown in thrown_out:
        typer.echo(f"thrown out: repeat {thrown.repeat}, {thrown.system}: {thrown.reason}", err=True)
    if thrown_out:
        raise typer.Exit(3)


def _measure(
    scope: Scope, only: list[str] | None, systems: list[str] | None, storage: Path, out: Path | None
) -> list[ThrownOut]:
    _refuse_unknown("cell", only or [], [cell.name for cell in _cells()])
    _refuse_unknown("system", systems or [], SYSTEMS)
    if not storage.is_dir():
        raise UsageError(f"--storage {storage} is not a directory")
    if out is not None and not out.is_dir():
        raise UsageError(f"--out {out} is not a directory; make it first, or run this at the top of the project")
    wanted = [name for name in SYSTEMS if not systems or name in systems]
    plans = [
        _Plan.of(load_cells(), start_cells(), only, wanted, find_contender),
        _Plan.of(cluster_load_cells(), cluster_start_cells(), only, wanted, find_cluster),
    ]
    rdkafka_performance()
    program("wire_load")
    environment = surroundings(storage)
    command = f"make bench-broker ARGS='{shlex.join(sys.argv[1:])}'" if sys.argv[1:] else "make bench-broker"
    kept: dict[str, CellResult] = {}
    for plan in plans:

        def keep(cell: Cell, measured: Measured, contenders: Mapping[str, Contender] = plan.contenders) -> None:
            kept[cell.name] = CellResult(
                title=cell.title,
                how=cell.how,
                measures=list(cell.measures),
                aims=list(cell.aims),
                measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
                command=f"{command} (seed {scope.seed})",
                environment=environment,
                systems={name: contender.version for name, contender in contenders.items() if name in cell.systems},
                samples=measured.samples,
                thrown_out=measured.thrown_out,
            )
            if out is not None:
                _write(out, {cell.name: kept[cell.name]})

        comparison = Comparison(scope, plan.contenders, storage, lambda line: typer.echo(line, err=True))
        comparison.measure(plan.loading, plan.starting, keep)
    if out is None:
        typer.echo(render(results.Comparison(cells=kept)))
    else:
        typer.echo(f"{out / RESULTS}.md")
    return [thrown for result in kept.values() for thrown in result.thrown_out]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Cells that are measured on the same contenders."""

    loading: list[WarmCell]
    starting: list[StartCell]
    contenders: dict[str, Contender]

    @classmethod
    def of(
        cls,
        loading: Iterable[WarmCell],
        starting: Iterable[StartCell],
        only: list[str] | None,
        systems: list[str],
        find: Callable[[str], Contender],
    ) -> _Plan:
        loading = [cell for cell in loading if not only or cell.name in only]
        starting = [cell for cell in starting if not only or cell.name in only]
        needed = {name for cell in (*loading, *starting) for name in cell.systems}
        return cls(loading, starting, _contenders([name for name in systems if name in needed], find))


def _cells() -> list[Cell]:
    """All, in the order of the page."""
    return [*load_cells(), *start_cells(), *cluster_load_cells(), *cluster_start_cells()]


def _contenders(names: list[str], find: Callable[[str], Contender]) -> dict[str, Contender]:
    """Those that this host can run; one line for each that it cannot."""
    found: dict[str, Contender] = {}
    for name in names:
        try:
            found[name] = find(name)
        except UsageError as error:
            typer.echo(f"bench-broker: {name} is left out: {error}", err=True)
    if names and HIGHWATER not in found:
        raise UsageError("nothing can be compared without --systems highwater")
    return found


def _refuse_unknown(kind: str, given: list[str], known: list[str] | tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise UsageError(f"unknown {kind} {name}; there are {', '.join(known)}")


def _write(out: Path, measured: dict[str, CellResult]) -> None:
    """Put cells among those that are there, in the order of the tables."""
    file = out / f"{RESULTS}.json"
    cells = results.read(file).cells | measured
    known = {cell.name: cells[cell.name] for cell in _cells() if cell.name in cells}
    comparison = results.Comparison(cells=known)
    results.write(file, comparison)
    file.with_suffix(".md").write_text(render(comparison), "utf-8")


if __name__ == "__main__":
    app()
