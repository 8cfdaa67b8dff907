"""Captures as jobs on Spark: as one process captures, on executors that have this package from the driver."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from highwater.bench.workload.trace_directory import Trace, read_trace
from highwater.studies.commands.capture import app
from tests.broker.running import running_broker
from tests.pythons import LIBRARIES, ON_EXECUTOR, Pythons
from tests.studies.capture.logs import batch, partition_folder, record
from tests.studies.capture.test_topic import create, now_ms, produce

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def without_samples(trace: Trace) -> dict[str, object]:
    """Which batches are compressed as samples depends on what is read at once."""
    found = trace.distributions.model_dump()
    del found["records"]["compressibility"]
    found["records"]["keys"]["rows"].sort()
    return found


def same(one: Path, other: Path) -> None:
    ours, theirs = read_trace(one), read_trace(other)
    assert without_samples(ours) == without_samples(theirs)
    assert ours.arrivals.tolist() == theirs.arrivals.tolist()


def test_a_topic_on_executors_without_this_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_broker(tmp_path / "log") as broker:
        create(broker, "orders", 3)
        produce(broker, "orders", 5000, now_ms() - 60_000)
        on = ("orders", "--bootstrap-servers", broker.address, "--read-rate", "100MiB/s", "--out")
        alone = call(*on, tmp_path / "alone")
        assert alone.exit_code == 0, alone.output
        monkeypatch.setenv("PYSPARK_PYTHON", Pythons(tmp_path).make("libraries", LIBRARIES))
        settings = {
            "spark.executor.memory": "700m",
            f"spark.executorEnv.{ON_EXECUTOR}": "1",
            "spark.executorEnv.PYTHONPATH": "/nowhere",
        }
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        spark = ("--engine", "spark", "--master", "local-cluster[2,1,700]", *conf)
        found = call(*on, tmp_path / "together", *spark)
    assert found.exit_code == 0, found.output
    same(tmp_path / "alone", tmp_path / "together")


def test_log_directories_and_damage_in_them(tmp_path: Path) -> None:
    for partition in range(3):
        segments = [batch(at, [record(at), record(at + 5)]) for at in (0, 1000)]
        partition_folder(tmp_path / "log", f"orders-{partition}", *segments)
    assert call(tmp_path / "log", "--out", tmp_path / "alone").exit_code == 0
    found = call(tmp_path / "log", "--out", tmp_path / "together", "--engine", "spark")
    assert found.exit_code == 0, found.output
    same(tmp_path / "alone", tmp_path / "together")

    damaged = bytearray(batch(0, [record(0)]))
    damaged[-5] ^= 1
    partition_folder(tmp_path / "log", "orders-3", bytes(damaged))
    refused = call(tmp_path / "log", "--out", tmp_path / "none", "--engine", "spark")
    assert refused.exit_code == 2
    assert refused.stderr.strip().splitlines()[-1].startswith("error: orders-3 at offset 0: the CRC of a batch")
    assert not (tmp_path / "none").exists()
