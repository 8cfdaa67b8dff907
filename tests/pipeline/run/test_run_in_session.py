"""Runs in one session of Spark: steps, records that are gone, sinks, and where the next run goes on."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyarrow import dataset
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from highwater.pipeline.cli import app
from highwater.pipeline.files.batches import finished_files
from highwater.pipeline.run import runner
from highwater.pipeline.source import register
from tests.pipeline.run.files import SOURCE, write
from tests.pipeline.source.topics import Topics
from tests.pipeline.spark_session import spark_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


Run = Callable[..., Result]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(tmp_path_factory.mktemp("spark"), spark__master="local[2]") as session:
        register(session)
        yield session


@pytest.fixture
def run(session: SparkSession, topics: Topics, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command without a JVM of its own; tests of processes are in test_run.py."""

    @contextlib.contextmanager
    def that_session(name: str, master: str, settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
        yield session

    monkeypatch.setattr(runner, "spark_session", that_session)
    monkeypatch.setenv("BROKER", topics.address)

    def call(file: Path, *options: str) -> Result:
        return CliRunner().invoke(app, ["run", str(file), "--master", "local[2]", *options])

    return call


def test_sql_and_python_steps_go_on_where_they_were(tmp_path: Path, topics: Topics, run: Run) -> None:
    topics.create("steps", 2)
    topics.produce("steps", 30)
    (tmp_path / "steps.py").write_text(
        "from pyspark.sql.functions import udf\n"
        "@udf('int')\n"
        "def doubled(size): return 2 * size\n"
        "def sizes(lengths): return lengths.select(doubled('size').alias('twice'))\n"
    )
    file = write(
        tmp_path,
        SOURCE.replace("TOPIC", "steps")
        + "views:\n"
        + "  lengths: {sql: 'SELECT length(value) AS size FROM numbers WHERE value IS NOT NULL'}\n"
        + "  doubles: {python: 'steps.py:sizes'}\n"
        + "flows:\n"
        + "  total: {sql: SELECT sum(twice) AS total FROM doubles, output_mode: complete, sink: {format: console}}\n",
    )
    plan = run(file, "--dry-run")
    assert plan.exit_code == 0, plan.stderr
    assert (
        "numbers: stream of steps, 2 partitions, 30 offsets from its start (steps-0 0 to 30, steps-1 0 to 0)"
        in plan.stdout
    )
    assert "columns     total bigint" in plan.stdout
    assert not (tmp_path / "state").exists()

    expected = 2 * sum(len(row["value"]) for row in topics.rows("steps", 2) if row["value"] is not None)
    first = run(file)
    assert first.exit_code == 0, first.stderr
    assert f"│ {expected} " in first.stdout
    topics.produce("steps", 30, partition=1)
    second = run(file)
    assert f"│ {2 * expected} " in second.stdout
    assert "done: total: 30 rows in, 1 rows out to the console" in second.stdout
    again = run(file, "--dry-run")
    assert "goes on after batch 1 at steps-0 30, steps-1 30" in again.stdout


def test_records_that_are_gone_have_an_exit_code_of_their_own(tmp_path: Path, topics: Topics, run: Run) -> None:
    topics.create("gone")
    topics.produce("gone", 10)
    file = write(tmp_path, SOURCE.replace("TOPIC", "gone") + "flows:\n  out: {from: numbers, sink: {format: noop}}\n")
    assert run(file).exit_code == 0
    topics.produce("gone", 10)
    topics.delete_records("gone", 15)
    done = run(file)
    assert done.exit_code == 3, done.stderr
    assert "error: flow out: " in done.stderr
    assert "gone-0" in done.stderr


KEPT = "  kept: {from: numbers, sink: {format: parquet, path: out}}\n"
WHOLE = "  whole: {sql: 'SELECT key, value FROM OF', sink: {format: highwater, options: {topic: whole}}}\n"
TABLES = (
    "  delta: {from: numbers, sink: {format: delta, path: table, options: {create: true}}}\n"
    "  iceberg: {from: numbers, sink: {format: iceberg, options: {table: shop.numbers, create: true, "
    "catalog.uri: 'sqlite:///catalog.db', catalog.warehouse: warehouse}}}\n"
)
TASKS = (
    "  tasks:\n"
    "    sql: SELECT key, value FROM numbers\n"
    "    sink: {format: highwater, options: {topic: tasks, delivery: exactly_once, tasks: 2}}\n"
)


def test_sinks_count_their_rows_and_say_where_to_go_on(tmp_path: Path, topics: Topics, run: Run) -> None:
    for topic in ("sinks", "whole", "tasks"):
        topics.create(topic, 2)
    topics.produce("sinks", 150)
    head = SOURCE.replace("TOPIC", "sinks")
    first = run(write(tmp_path, f"{head}flows:\n{KEPT}{WHOLE.replace('OF', 'numbers')}{TASKS}"))
    assert first.exit_code == 0, first.stderr
    assert f"kept: 150 rows in, 150 rows out to files in {tmp_path / 'out'}, 2 batches" in first.stdout
    assert "whole: 150 rows in, 150 rows out to topic whole, 2 batches" in first.stdout
    assert "tasks: 150 rows in, 150 rows out to topic tasks, 2 batches" in first.stdout
    for topic in ("whole", "tasks"):
        assert len(topics.rows(topic, 2, read_committed=True)) == 150

    shutil.rmtree(tmp_path / "state")
    topics.produce("sinks", 30, partition=1)
    after = head.replace("startingOffsets: earliest", "resumeFrom: 'parquet:out'")
    after += after.removeprefix("sources:\n").replace("numbers", "marked").replace("parquet:out", "group:test.whole")
    second = run(write(tmp_path, f"{after}flows:\n{KEPT}{WHOLE.replace('OF', 'marked')}"))
    assert second.exit_code == 0, second.stderr
    assert "kept: 30 rows in, 30 rows out" in second.stdout
    assert "whole: 30 rows in, 30 rows out" in second.stdout
    rows = dataset.dataset(finished_files(tmp_path / "out")).to_table(["partition", "offset"]).to_pydict()
    expected = [(0, offset) for offset in range(150)] + [(1, offset) for offset in range(30)]
    assert sorted(zip(rows["partition"], rows["offset"], strict=True)) == expected
    assert len(topics.rows("whole", 2, read_committed=True)) == 180


def test_tables_go_on_where_their_commits_end(tmp_path: Path, topics: Topics, run: Run) -> None:
    topics.create("tables", 2)
    topics.produce("tables", 150)
    head = SOURCE.replace("TOPIC", "tables")
    first = run(write(tmp_path, f"{head}flows:\n{TABLES}"))
    assert first.exit_code == 0, first.stderr
    assert f"delta: 150 rows in, 150 rows out to Delta table {tmp_path / 'table'}, 2 batches" in first.stdout
    assert "iceberg: 150 rows in, 150 rows out to Iceberg table shop.numbers, 2 batches" in first.stdout

    shutil.rmtree(tmp_path / "state")
    topics.produce("tables", 30, partition=1)
    # A source for each: a flow that begins later would find what the other has committed by then.
    after = head.replace("startingOffsets: earliest", "resumeFrom: 'delta:table#test.delta'")
    of_iceberg = f"iceberg:shop.numbers?uri=sqlite:///{tmp_path}/catalog.db&warehouse={tmp_path}/warehouse#test.iceberg"
    after += after.removeprefix("sources:\n").replace("numbers", "marked").replace("delta:table#test.delta", of_iceberg)
    tables = TABLES.replace("iceberg: {from: numbers", "iceberg: {from: marked")
    second = run(write(tmp_path, f"{after}flows:\n{tables}"))
    assert second.exit_code == 0, second.stderr
    assert "delta: 30 rows in, 30 rows out" in second.stdout
    assert "iceberg: 30 rows in, 30 rows out" in second.stdout
    assert DeltaTable(tmp_path / "table").to_pyarrow_table().num_rows == 180
    catalog = load_catalog("default", uri=f"sqlite:///{tmp_path / 'catalog.db'}")
    assert catalog.load_table("shop.numbers").scan().to_arrow().num_rows == 180


def test_a_limit_drops_nothing_from_windows_and_what_is_late_is_named(tmp_path: Path, topics: Topics, run: Run) -> None:
    """Partitions begin at different times: a share of the offsets of each puts the watermark above what is left."""
    topics.create("windows", 3)
    begin_ms = time.time_ns() // 60_000_000_000 * 60_000 - 3_600_000
    for partition, (first_s, step_ms) in enumerate(((0, 500), (60, 200), (90, 100))):
        times_ms = range(begin_ms + first_s * 1000, begin_ms + 100_000, step_ms)
        topics.produce("windows", len(times_ms), partition=partition, timestamps_ms=times_ms)
    file = write(
        tmp_path,
        SOURCE.replace("TOPIC", "windows") + "flows:\n"
        "  counts:\n"
        "    sql: |\n"
        "      SELECT string(window.start) AS begins, count(*) AS records\n"
        "      FROM numbers WATERMARK timestamp DELAY OF INTERVAL 1 SECOND GROUP BY window(timestamp, '5 seconds')\n"
        "    output_mode: update\n"
        "    sink: {format: database, options: {url: 'sqlite:out.db', table: counts, key: begins, create: true}}\n",
    )

    def counted() -> int:
        with contextlib.closing(sqlite3.connect(tmp_path / "out.db")) as database:
            return int(database.execute("SELECT sum(records) FROM counts").fetchone()[0])

    first = run(file)
    assert first.exit_code == 0, first.stderr
    assert counted() == 500
    assert "late" not in first.stdout + first.stderr

    topics.produce("windows", 70, timestamps_ms=range(begin_ms, begin_ms + 7_000, 100))
    second = run(file)
    assert counted() == 500
    assert second.stdout.rstrip().endswith(", dropped as late: 2 groups of rows")
    assert second.stderr.count("warning: flow counts drops rows that come after the watermark") == 1
