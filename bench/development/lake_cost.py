"""What a lake costs: time to add runs, size, and the time of each question, in Markdown.

    python -m highwater.bench.development.lake_cost TEMPLATE --work DIR --prepare
    python -m highwater.bench.development.lake_cost TEMPLATE --work DIR

makes runs from the real result directory TEMPLATE (`lake_runs`), adds 100 and 1,000 of them, compacts both lakes and
asks every question twice: cold, with an engine that was just opened, and hot. The lake of 10,000 runs has copies of the
rows of the smallest one with other run ids. `--prepare` makes runs and copies, which no figure is about, and stops.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
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
    add_cpu_s: float | None
    kib_a_trial: float
    kib_of_seconds_a_trial: float
    compact_s: float | None
    files: int
    asked: dict[str, tuple[float, float]]


def main(
    template: Annotated[Path, typer.Argument(help="A result directory with finished trials and consumers.")],
    work: Annotated[Path, typer.Option(help="A folder for the runs and the lakes.")],
    runs: Annotated[list[int], typer.Option(help="How many runs are added; repeatable, rising.")] = [100, 1000],  # noqa: B006
    copies: Annotated[int, typer.Option(help="How often the smallest lake is copied into the largest one.")] = 100,
    engine: Annotated[str, typer.Option(help="local or spark")] = "local",
    prepare: Annotated[bool, typer.Option("--prepare", help="Make runs and copies, and stop.")] = False,
) -> None:
    """Print the cost of lakes."""
    results = work / "results"
    if not results.is_dir():
        results.mkdir(parents=True)
        maker = RunMaker(template, results)
        for number in range(runs[-1]):
            maker.make(number, runs[-1])
    directories = sorted(results.glob("run*"))
    copied = work / f"copied{runs[0]}x{copies}"
    if not copied.is_dir():
        _copy_lake(_fresh(work / "copied-from"), directories[:: len(directories) // runs[0]], copied, copies)
    if prepare:
        return
    load = os.getloadavg()
    costs = [_added(_fresh(work / "lake"), directories[:: len(directories) // count], engine) for count in runs]
    costs.append(_asked(Manifest(copied), engine, f"{copies} copies"))
    for line in _page(costs, engine, load, os.getloadavg()):
        typer.echo(line)


def _fresh(lake: Path) -> Path:
    shutil.rmtree(lake, ignore_errors=True)
    return lake


def _added(lake: Path, directories: list[Path], engine: str) -> Cost:
    manifest = Manifest(lake)
    began, cpu_s = time.monotonic(), _cpu_s()
    found = list(add(manifest, directories))
    add_s, add_cpu_s = time.monotonic() - began, _cpu_s() - cpu_s
    if any(item.outcome != "added" for item in found):
        raise SystemExit(f"not added: {next(item for item in found if item.outcome != 'added')}")
    began = time.monotonic()
    compact(manifest)
    compact_s = time.monotonic() - began
    cost = _asked(manifest, engine, "added")
    return replace(cost, add_s=add_s, add_cpu_s=add_cpu_s, compact_s=compact_s)


def _cpu_s() -> float:
    """Of this process, and of all that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _copy_lake(lake: Path, directories: list[Path], folder: Path, copies: int) -> None:
    """Make `folder` a lake of so many copies of these runs; it gets its name when it is whole."""
    for _ in add(Manifest(lake), directories, seconds=False):
        pass
    compact(Manifest(lake))
    unfinished = _fresh(folder.with_suffix(".unfinished"))
    manifest = Manifest(unfinished)
    manifest.create()
    for group in Manifest(lake).groups():
        with storage.incoming(unfinished) as place, manifest.locked():
            files, staged = [], {}
            for file in group.files:
                path = place / f"{file.table}.parquet"
                with storage.parquet_writer(path, file.table) as writer:
                    storage.write_in_row_groups(writer, _copies(lake / file.path, copies))
                files.append(storage.kept_file(path, file.table, *group.place))
                staged[files[-1].path] = path
            storage.put_in_place(unfinished, staged)
            runs = [replace(run, run=f"{run.run}-{copy:03d}") for copy in range(copies) for run in group.runs]
            manifest.append(Group(*group.place, tuple(runs), tuple(files)))
    unfinished.rename(folder)


def _copies(path: Path, copies: int) -> Iterator[pa.Table]:
    table = pyarrow.parquet.read_table(path)
    for copy in range(copies):
        yield table.set_column(0, "run", pyarrow.compute.binary_join_element_wise(table["run"], f"{copy:03d}", "-"))


def _asked(manifest: Manifest, engine: str, how: str) -> Cost:
    groups = manifest.groups()
    files = [file for group in groups for file in group.files]
    trials = sum(run.trials for group in groups for run in group.runs)
    of_seconds = sum(file.bytes for file in files if file.table == "seconds")
    asked: dict[str, tuple[float, float]] = {}
    if engine == "local":
        for name in questions():
            with opened(manifest, engine) as connection:
                asked[name] = _time(connection, name), _time(connection, name)
    else:
        with opened(manifest, engine) as connection:
            asked = {name: (_time(connection, name), _time(connection, name)) for name in questions()}
    return Cost(
        trials // TRIALS,
        how,
        None,
        None,
        (sum(file.bytes for file in files) - of_seconds) / trials / 1024,
        of_seconds / trials / 1024,
        None,
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
    yield "| runs × trials | how | add | CPU of it | KiB a trial | seconds, KiB a trial | compact | files |"
    yield "|---|---|---|---|---|---|---|---|"
    for cost in costs:
        add_s, add_cpu_s, compact_s = (
            "–" if seconds is None else f"{significant(seconds)} s"
            for seconds in (cost.add_s, cost.add_cpu_s, cost.compact_s)
        )
        yield (
            f"| {count_text(cost.runs)} × {TRIALS} | {cost.how} | {add_s} | {add_cpu_s} | "
            f"{significant(cost.kib_a_trial)} | {significant(cost.kib_of_seconds_a_trial)} | {compact_s} | "
            f"{cost.files} |"
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
