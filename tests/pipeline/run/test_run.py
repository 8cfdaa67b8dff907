"""The command as a person calls it: the example, a stop between two batches, and a restart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.run.files import SOURCE, write
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


def test_the_example_needs_nothing_and_shows_a_table() -> None:
    done = run(ROOT / "examples/windows.yaml")
    assert done.returncode == 0, done.stderr
    assert re.search(r"09:03 +│ 149 +│ 3993\.41", done.stdout)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("done: per_minute: 1,200 rows in, 7 rows out to the console, 2 batches in ")


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
