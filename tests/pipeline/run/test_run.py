"""The command as a person calls it: the example, a restart, records that are gone, a stop between two batches."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import dataset

from highwater.pipeline.files.batches import finished_files
from tests.pipeline.source.topics import Topics
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
QUIET = ("--master", "local[2]", "--spark-conf", "spark.driver.memory=1g")
TIMEOUT_S = 300.0


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "highwater", "pipeline", "run", *map(str, arguments), *QUIET]


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def write(folder: Path, text: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(f"name: test\nstorage: state\nkafka: {{bootstrap.servers: '${{BROKER}}'}}\n{text}")
    return file


SOURCE = """\
sources:
  numbers:
    format: highwater
    options: {subscribe: TOPIC, startingOffsets: earliest, maxOffsetsPerTrigger: 100}
"""


def test_the_example_needs_nothing_and_shows_a_table() -> None:
    done = run(ROOT / "examples/windows.yaml")
    assert done.returncode == 0, done.stderr
    assert re.search(r"09:03 +│ 149 +│ 3993\.41", done.stdout)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("done: per_minute: 1,200 rows in, 7 rows out to the console, 2 batches in ")


def test_sql_and_python_steps_go_on_where_they_were(tmp_path: Path, topics: Topics) -> None:
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
    plan = run(file, "--dry-run", BROKER=topics.address)
    assert plan.returncode == 0, plan.stderr
    assert (
        "numbers: stream of steps, 2 partitions, 30 offsets from its start (steps-0 0 to 30, steps-1 0 to 0)"
        in plan.stdout
    )
    assert "columns     total bigint" in plan.stdout
    assert not (tmp_path / "state").exists()

    expected = 2 * sum(len(row["value"]) for row in topics.rows("steps", 2) if row["value"] is not None)
    first = run(file, BROKER=topics.address)
    assert first.returncode == 0, first.stderr
    assert f"│ {expected} " in first.stdout
    topics.produce("steps", 30, partition=1)
    second = run(file, BROKER=topics.address)
    assert f"│ {2 * expected} " in second.stdout
    assert "done: total: 30 rows in, 1 rows out to the console" in second.stdout
    again = run(file, "--dry-run", BROKER=topics.address)
    assert "goes on after batch 1 at steps-0 30, steps-1 30" in again.stdout


def test_records_that_are_gone_have_an_exit_code_of_their_own(tmp_path: Path, topics: Topics) -> None:
    topics.create("gone")
    topics.produce("gone", 10)
    file = write(tmp_path, SOURCE.replace("TOPIC", "gone") + "flows:\n  out: {from: numbers, sink: {format: noop}}\n")
    assert run(file, BROKER=topics.address).returncode == 0
    topics.produce("gone", 10)
    topics.delete_records("gone", 15)
    done = run(file, BROKER=topics.address)
    assert done.returncode == 3, done.stderr
    assert "error: flow out: " in done.stderr
    assert "gone-0" in done.stderr


def test_a_signal_stops_between_two_batches(tmp_path: Path, topics: Topics) -> None:
    topics.create("endless")
    topics.produce("endless", 250)
    flow = "flows:\n  out: {from: numbers, trigger: 1 second, sink: {format: console}}\n"
    file = write(tmp_path, SOURCE.replace("TOPIC", "endless") + flow)
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as errors:
        process = subprocess.Popen(
            command(file),
            stdout=out,
            stderr=errors,
            env={**os.environ, "BROKER": topics.address},
            start_new_session=True,
        )
        try:
            wait_until(lambda: "out, batch 0" in (tmp_path / "out").read_text(), "the first batch", TIMEOUT_S)
            # As `timeout` and most supervisors do; Spark's Java has to outlive it.
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0, (tmp_path / "err").read_text()
        finally:
            process.kill()
            process.wait()
    last = (tmp_path / "out").read_text().splitlines()[-1]
    assert (match := re.match(r"stopped: out: (\d+) rows in, \1 rows out to the console", last)), last
    rest = run(file, "--available-now", BROKER=topics.address)
    assert f"done: out: {250 - int(match[1])} rows in" in rest.stdout


KEPT = "  kept: {from: numbers, sink: {format: parquet, path: out}}\n"
WHOLE = "  whole: {sql: 'SELECT key, value FROM OF', sink: {format: highwater, options: {topic: whole}}}\n"
TASKS = (
    "  tasks:\n"
    "    sql: SELECT key, value FROM numbers\n"
    "    sink: {format: highwater, options: {topic: tasks, delivery: exactly_once, tasks: 2}}\n"
)


def test_sinks_count_their_rows_and_say_where_to_go_on(tmp_path: Path, topics: Topics) -> None:
    for topic in ("sinks", "whole", "tasks"):
        topics.create(topic, 2)
    topics.produce("sinks", 150)
    head = SOURCE.replace("TOPIC", "sinks")
    first = run(write(tmp_path, f"{head}flows:\n{KEPT}{WHOLE.replace('OF', 'numbers')}{TASKS}"), BROKER=topics.address)
    assert first.returncode == 0, first.stderr
    assert f"kept: 150 rows in, 150 rows out to files in {tmp_path / 'out'}, 2 batches" in first.stdout
    assert "whole: 150 rows in, 150 rows out to topic whole, 2 batches" in first.stdout
    assert "tasks: 150 rows in, 150 rows out to topic tasks, 2 batches" in first.stdout
    for topic in ("whole", "tasks"):
        assert len(topics.rows(topic, 2, read_committed=True)) == 150

    shutil.rmtree(tmp_path / "state")
    topics.produce("sinks", 30, partition=1)
    after = head.replace("startingOffsets: earliest", "resumeFrom: 'parquet:out'")
    after += after.removeprefix("sources:\n").replace("numbers", "marked").replace("parquet:out", "group:test.whole")
    second = run(write(tmp_path, f"{after}flows:\n{KEPT}{WHOLE.replace('OF', 'marked')}"), BROKER=topics.address)
    assert second.returncode == 0, second.stderr
    assert "kept: 30 rows in, 30 rows out" in second.stdout
    assert "whole: 30 rows in, 30 rows out" in second.stdout
    rows = dataset.dataset(finished_files(tmp_path / "out")).to_table(["partition", "offset"]).to_pydict()
    expected = [(0, offset) for offset in range(150)] + [(1, offset) for offset in range(30)]
    assert sorted(zip(rows["partition"], rows["offset"], strict=True)) == expected
    assert len(topics.rows("whole", 2, read_committed=True)) == 180
