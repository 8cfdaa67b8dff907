"""What a lake costs: time to add runs, size, and the time of each question, in Markdown.

`python -m highwater.bench.development.lake_cost TEMPLATE --work DIR --runs 100 --runs 1000` makes runs from the real
result directory TEMPLATE (`lake_runs`), adds them, compacts the lake and asks every question twice: cold, with an
engine that was just opened, and hot. `--copies 10` also asks a lake of ten times the last number of runs, whose files
are copies with other run ids.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import pyarrow.compute
import pyarrow.parquet
import typer

from highwater.bench.development.lake_runs import TRIALS, RunMaker
from highwater.bench.lake import storage
from highwater.bench.lake.adding import add
from highwater.bench.lake.asking import Connection, opened
from highwater.bench.lake.compacting import compact
from highwater.bench.lake.manifest import Group, Manifest
from highwater.bench.lake.questions import questions
from highwater.common.units import count_text, significant

_GIVEN: Final = {
    "Q1": {"workload": "quickstart"},
    "Q2": {"workload": "quickstart"},
    "Q7": {"since": "2025-09-01"},
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one lake. `asked`: question -> seconds cold and hot; `files` after compaction."""

    runs: int
    how: str
    add_s: float | None
    kib_a_trial: float
    kib_of_seconds_a_trial: float
    compact_s: float | None
    files: int
    asked: dict[str, tuple[float, float]]


def main(
    template: Annotated[Path, typer.Argument(help="A result directory with finished trials and consumers.")],
    work: Annotated[Path, typer.Option(help="A new folder for the runs and the lakes.")],
    runs: Annotated[list[int], typer.Option(help="How many runs; repeatable, rising.")],
    copies: Annotated[int, typer.Option(help="Also a lake of as many copies of the largest one.")] = 0,
    engine: Annotated[str, typer.Option(help="local or spark")] = "local",
) -> None:
    """Print the cost of lakes."""
    work.mkdir(parents=True)
    load = os.getloadavg()
    began = time.monotonic()
    maker = RunMaker(template, work / "results")
    directories = [maker.make(number, max(runs)) for number in range(max(runs))]
    typer.echo(f"{len(directories)} result directories made in {time.monotonic() - began:.0f} s", err=True)
    costs = []
    for many in runs:
        costs.append(_added(work / f"lake{many}", directories[:: max(runs) // many][:many], engine))
        typer.echo(str(costs[-1]), err=True)
    if copies:
        costs.append(_copied(work / f"lake{max(runs)}", work / "copies", copies, engine))
    for line in _page(costs, engine, load, os.getloadavg()):
        typer.echo(line)


def _added(lake: Path, directories: list[Path], engine: str) -> Cost:
    manifest = Manifest(lake)
    began = time.monotonic()
    found = list(add(manifest, directories))
    add_s = time.monotonic() - began
    if any(item.outcome != "added" for item in found):
        raise SystemExit(f"not added: {next(item for item in found if item.outcome != 'added')}")
    began = time.monotonic()
    compact(manifest)
    return _asked(manifest, engine, "added", add_s, time.monotonic() - began)


def _copied(lake: Path, folder: Path, copies: int, engine: str) -> Cost:
    """A lake of copies of the groups of another one, with other run ids."""
    manifest = Manifest(folder)
    manifest.create()
    for group in Manifest(lake).groups():
        for copy in range(copies):
            with storage.incoming(folder) as place, manifest.locked():
                _copy(lake, group, copy, place, manifest)
    return _asked(manifest, engine, f"{copies} copies", None, None)


def _copy(lake: Path, group: Group, copy: int, place: Path, manifest: Manifest) -> None:
    files, staged = [], {}
    for file in group.files:
        # The histograms of seconds are opened by no question.
        if file.table == "seconds":
            continue
        table = pyarrow.parquet.read_table(lake / file.path)
        ids = pyarrow.compute.binary_join_element_wise(table["run"], f"{copy:02d}", "-")
        path = place / f"{file.table}.parquet"
        with storage.parquet_writer(path, file.table) as writer:
            writer.write_table(table.set_column(0, "run", ids))
        files.append(storage.kept_file(path, file.table, *group.place))
        staged[files[-1].path] = path
    storage.put_in_place(manifest.directory, staged)
    made = tuple(replace(run, run=f"{run.run}-{copy:02d}") for run in group.runs)
    manifest.append(Group(*group.place, made, tuple(files)))


def _asked(manifest: Manifest, engine: str, how: str, add_s: float | None, compact_s: float | None) -> Cost:
    groups = manifest.groups()
    files = [file for group in groups for file in group.files]
    trials = sum(run.trials for group in groups for run in group.runs)
    of_seconds = sum(file.bytes for file in files if file.table == "seconds")
    asked: dict[str, tuple[float, float]] = {}
    for name in questions():
        with opened(manifest, engine) as connection:
            asked[name] = _time(connection, name), _time(connection, name)
    return Cost(
        trials // TRIALS,
        how,
        add_s,
        (sum(file.bytes for file in files) - of_seconds) / trials / 1024,
        of_seconds / trials / 1024,
        compact_s,
        len(files),
        asked,
    )


def _time(connection: Connection, name: str) -> float:
    question = questions()[name]
    began = time.monotonic()
    # Without what follows the SQL: the time of Apache Otava is not the lake's.
    connection.engine.query(question.sql, question.values(question.texts(_GIVEN.get(name, {}))))
    return time.monotonic() - began


def _page(costs: list[Cost], engine: str, before: tuple[float, ...], after: tuple[float, ...]) -> Iterator[str]:
    yield f"{os.cpu_count()} CPUs; load average {before[0]:.1f} before, {after[0]:.1f} after; engine {engine}."
    yield ""
    yield "| runs × trials | how | add | KiB a trial | seconds, KiB a trial | compact | files |"
    yield "|---|---|---|---|---|---|---|"
    for cost in costs:
        add_s, compact_s = (
            "–" if seconds is None else f"{significant(seconds)} s" for seconds in (cost.add_s, cost.compact_s)
        )
        yield (
            f"| {count_text(cost.runs)} × {TRIALS} | {cost.how} | {add_s} | {significant(cost.kib_a_trial)} | "
            f"{significant(cost.kib_of_seconds_a_trial)} | {compact_s} | {cost.files} |"
        )
    yield ""
    yield "| question (cold / hot) | " + " | ".join(f"{count_text(cost.runs)} runs" for cost in costs) + " |"
    yield "|---|" + "---|" * len(costs)
    for name, question in questions().items():
        times = (
            f"{significant(cold, 2)} / {significant(hot, 2)} s" for cold, hot in (cost.asked[name] for cost in costs)
        )
        yield f"| {name} {question.title} | " + " | ".join(times) + " |"


if __name__ == "__main__":
    typer.run(main)
