"""Drills of a few rounds: a sink that is exactly once passes, and one that is not is found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from highwater.pipeline.cli import app
from tests.broker.running import running_broker

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(1500)]

RUNNER = CliRunner()
SINKS = Path(__file__).parent / "sinks"
QUERY = """
from pyspark.sql.functions import length

def transform(frame):
    return frame.selectExpr("key", "string(value) as text").withColumn("characters", length("text"))
"""


def drill(out: Path, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    done = RUNNER.invoke(app, ["drill", "--out", str(out), "--seed", "1", *arguments])
    assert (out / "verdict.json").exists(), done.output
    return done.exit_code, done.output, json.loads((out / "verdict.json").read_text())


def test_a_users_query_on_a_users_broker_into_sqlite(tmp_path: Path) -> None:
    query = tmp_path / "query.py"
    query.write_text(QUERY)
    cluster = ["--query", str(query), "--points", "sink-committed,sink-writing", "--victims", "driver,worker"]
    with running_broker(tmp_path / "log", properties=["group.initial.rebalance.delay.ms=0"]) as broker:
        cluster += ["--bootstrap-servers", broker.address]
        status, output, verdict = drill(tmp_path / "out", "--sink", "sqlite", "--rounds", "3", *cluster)
        assert (status, verdict["lost"], verdict["twice"]) == (0, 0, 0), output
        assert verdict["replays_skipped"] >= 1
        assert output.splitlines()[-1] == verdict["verdict"]
        # What was done counts: nothing is left to run.
        again, output, _ = drill(tmp_path / "out", "--sink", "sqlite", "--rounds", "3", *cluster)
        assert (again, output.count("round ")) == (0, 0)
        left = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=60).topics
    assert [name for name in left if name.startswith("hw-drill")] == []


def test_a_query_without_its_checkpoint_goes_on_where_the_sink_is(tmp_path: Path) -> None:
    moments = ["--points", "sink-writing,sink-committed", "--victims", "checkpoint", "--rounds", "2"]
    status, output, verdict = drill(tmp_path / "out", "--sink", "parquet", *moments)
    assert (status in (0, 4), verdict["lost"], verdict["twice"]) == (True, 0, 0), output
    rounds = [json.loads(line) for line in (tmp_path / "out" / "rounds.jsonl").read_text().splitlines()]
    assert {(each["victim"], each["reached"]) for each in rounds} == {("checkpoint", True)}


@pytest.mark.compat
def test_executors_die(tmp_path: Path) -> None:
    master = ["--master", "local-cluster[2,1,1024]", "--victims", "executor", "--points", "source-reading,sink-writing"]
    status, output, verdict = drill(tmp_path / "out", "--sink", "topic-batch", "--rounds", "2", *master)
    assert (status in (0, 4), verdict["lost"], verdict["twice"]) == (True, 0, 0), output
    assert verdict["rounds"] == 2


def test_a_sink_that_writes_again_is_found_out(tmp_path: Path) -> None:
    moment = ["--points", "sink-committed", "--victims", "driver", "--rounds", "3"]
    status, output, verdict = drill(tmp_path / "out", "--sink", str(SINKS / "careless.py"), *moment)
    assert status == 10, output
    assert verdict["twice"] > 0


def test_a_missing_safeguard_is_found_out(tmp_path: Path) -> None:
    moment = ["--points", "sink-begins", "--victims", "successor", "--rounds", "3"]
    status, output, verdict = drill(tmp_path / "out", "--sink", "sqlite", "--without", "row-lock", *moment)
    assert status == 10, output
    assert verdict["twice"] > 0
