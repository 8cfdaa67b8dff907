"""What a lake costs: time to add runs, size, and the time of each question, in Markdown.

    python -m highwater.bench.development.lake_cost TEMPLATE --work DIR --prepare
    python -m highwater.bench.development.lake_cost TEMPLATE --work DIR

makes runs from the real result directory TEMPLATE (`lake_runs`), adds 100 and 1,000 of them, compacts both lakes and
asks every question: cold, with an engine that was just opened, and then hot, of which the median counts. The local
engine answers each question in a process of its own, whose largest memory is reported. The lake of 10,000 runs has
copies of the rows of the smallest one with other run ids. Each cost is printed as it comes. `--prepare` makes runs and
copies, which no figure is about, and stops; `--asked-only` asks lakes that are there.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
import typer

from highwater.bench.development.lake_runs import TRIALS, RunMaker
from highwater.bench.lake import storage
from highwater.bench.lake.adding import add
from highwater.bench.lake.asking import Connection, answered, opened
from highwater.bench.lake.compacting import compact
from highwater.bench.lake.manifest import Group, Manifest
from highwater.bench.lake.questions import questions
from highwater.bench.lake.tables import SECONDS
from highwater.common.units import count_text, significant, size_text

_GIVEN: Final = {
    "Q1": {"workload": "quickstart"},
    "Q2": {"workload": "quickstart"},
    "Q7": {"since": "2025-09-01"},
}


# How often a question is asked after the first time.
_HOT: Final = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one question: seconds cold and hot, and the largest memory of its process if it has one of its own."""

    cold_s: float
    hot_s: float
    peak_bytes: int | None


def main(
    template: Annotated[Path, typer.Argument(help="A result directory with finished trials and consumers.")],
    work: Annotated[Path, typer.Option(help="A folder for the runs and the lakes.")],
    runs: Annotated[list[int], typer.Option(help="How many runs are added; repeatable, rising.")] = [100, 1000],  # noqa: B006
    copies: Annotated[
        list[int], typer.Option(help="How often a lake has the runs of the smallest one; repeatable.")
    ] = [100],  # noqa: B006
    engine: Annotated[str, typer.Option(help="local or spark")] = "local",
    ask: Annotated[list[str] | None, typer.Option(help="Ask these questions only; repeatable.")] = None,
    prepare: Annotated[bool, typer.Option("--prepare", help="Make runs and copies, and stop.")] = False,
    asked_only: Annotated[bool, typer.Option("--asked-only", help="Add nothing: ask lakes that are there.")] = False,
) -> None:
    """Print the cost of lakes."""
    results = work / "results"
    if not results.is_dir():
        results.mkdir(parents=True)
        maker = RunMaker(template, results)
        for number in range(runs[-1]):
            maker.make(number, runs[-1])
    directories = sorted(results.glob("run*"))
    copied = [work / f"copied{runs[0]}x{count}" for count in copies]
    for lake, count in zip(copied, copies, strict=True):
        if not lake.is_dir():
            _copy_lake(work / "copied-from", _spread(directories, runs[0]), lake, count)
    if prepare:
        return
    names = ask or list(questions())
    lakes = [work / f"lake{count}" for count in runs]
    typer.echo(f"{_processor()}, {os.cpu_count()} CPUs; engine {engine}.")
    for lake, count in zip(lakes, runs, strict=True):
        if not asked_only:
            _add(_fresh(lake), _spread(directories, count))
    for lake in [*lakes, *copied]:
        _ask(Manifest(lake), engine, names)


def _spread(directories: list[Path], count: int) -> list[Path]:
    """So many of the directories, from the whole year and of every workload."""
    step = len(directories) // count
    return [directories[number * step + number % step] for number in range(count)]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a processor")


def _load() -> str:
    return f"load average {os.getloadavg()[0]:.1f}"


def _fresh(lake: Path) -> Path:
    shutil.rmtree(lake, ignore_errors=True)
    return lake


def _add(lake: Path, directories: list[Path]) -> None:
    manifest = Manifest(lake)
    began, cpu_s = time.monotonic(), _cpu_s()
    found = list(add(manifest, directories))
    add_s, add_cpu_s = time.monotonic() - began, _cpu_s() - cpu_s
    if any(item.outcome != "added" for item in found):
        raise SystemExit(f"not added: {next(item for item in found if item.outcome != 'added')}")
    typer.echo(
        f"{count_text(len(directories))} runs × {TRIALS} trials: added in {significant(add_s)} s, "
        f"{significant(add_cpu_s)} s of CPU; {_sizes(manifest)}; {_load()}"
    )
    began, cpu_s = time.monotonic(), _cpu_s()
    compact(manifest)
    compact_s, compact_cpu_s = time.monotonic() - began, _cpu_s() - cpu_s
    typer.echo(
        f"{count_text(len(directories))} runs: compacted in {significant(compact_s)} s, "
        f"{significant(compact_cpu_s)} s of CPU; {_sizes(manifest)}; {_load()}"
    )


def _sizes(manifest: Manifest) -> str:
    groups = manifest.groups()
    files = [file for group in groups for file in group.files]
    trials = sum(run.trials for group in groups for run in group.runs)
    of_seconds = sum(file.bytes for file in files if file.table == SECONDS)
    plain = sum(file.bytes for file in files) - of_seconds
    return (
        f"{size_text(plain / trials)} a trial, {size_text(of_seconds / trials)} of seconds; "
        f"{count_text(len(files))} files"
    )


def _cpu_s() -> float:
    """Of this process, and of all that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _copy_lake(lake: Path, directories: list[Path], folder: Path, copies: int) -> None:
    """Make `folder` a lake of so many copies of these runs; it gets its name when it is whole."""
    if not lake.is_dir():
        for _ in add(Manifest(lake), directories, seconds=False):
            pass
        compact(Manifest(lake))
    unfinished = _fresh(folder.with_suffix(".unfinished"))
    manifest = Manifest(unfinished)
    manifest.create()
    for group in Manifest(lake).groups():
        with storage.incoming(unfinished) as place, manifest.locked():
            files, staged = [], {}
            for file in (file for file in group.files if file.table != SECONDS):
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


def _ask(manifest: Manifest, engine: str, names: list[str]) -> None:
    runs = count_text(len(manifest.runs()))
    typer.echo(f"| {runs} runs | cold | hot | largest memory | load average |")
    typer.echo("|---|---|---|---|---|")
    for name, cost in _costs(manifest.directory, engine, names):
        peak = "–" if cost.peak_bytes is None else size_text(cost.peak_bytes)
        typer.echo(
            f"| {name} {questions()[name].title} | {significant(cost.cold_s, 2)} s | {significant(cost.hot_s, 2)} s | "
            f"{peak} | {os.getloadavg()[0]:.1f} |"
        )


def _costs(lake: Path, engine: str, names: list[str]) -> Iterator[tuple[str, Cost]]:
    if engine == "local":
        for name in names:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
                yield name, process.submit(_cost_of_process, lake, name).result()
        return
    with opened(Manifest(lake), engine) as connection:
        for name in names:
            yield name, _cost(connection, name)


def _cost_of_process(lake: Path, name: str) -> Cost:
    with opened(Manifest(lake)) as connection:
        cost = _cost(connection, name)
    return replace(cost, peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _cost(connection: Connection, name: str) -> Cost:
    cold_s = _time(connection, name)
    return Cost(cold_s, median(_time(connection, name) for _ in range(_HOT)), None)


def _time(connection: Connection, name: str) -> float:
    question = questions()[name]
    values = question.values(question.texts(_GIVEN.get(name, {})))
    began = time.monotonic()
    # Without what follows the SQL: the time of Apache Otava is not the lake's.
    answered(connection.engine, question, values)
    return time.monotonic() - began


if __name__ == "__main__":
    typer.run(main)
