"""The run's own requests against the real broker, and whole runs with Spark and the real broker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from highwater.bench.systems import System, start_system
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.verify import disagreements
from highwater.bench.workload.system import HighwaterUnderTest
from highwater.common.errors import UsageError
from highwater.results.reader import RunResult
from highwater.spark_loadgen.model import LoadPlan, TransactionPlan
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule
from tests.spark_loadgen.running import run_load
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("host_settings_stay")]

TINY = """\
schema: bench.workload/1
name: tiny
for_measurement: false
topics: {partitions: 2}
records: {size: 200B}
load: {rate: 500/s}
phases: {warmup: 1s, measure: 2s, drain: 60s}
trials: {n: 1, seed: 7}
storage: {probe: false, drop_caches: never}
matrix: {producers.client.compression.type: [lz4]}
# A test on a busy machine checks that records arrive, not that they are on time.
validity:
  send_delay_p99: 60s
  achieved_ratio_min: 0.01
  generator_cpu_ratio_max: 1.0
  host_cpu_ratio_max: 1.0
  drift_ratio_max: 1000.0
"""

ON_SPARK = ("--master", "local[2]")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    (tmp_path / "log").mkdir()
    wanted = HighwaterUnderTest(config={"log.segment.bytes": 1048576})
    with start_system(wanted, [tmp_path / "log"], tmp_path, lambda: None) as started:
        yield started


def test_topics_are_made_counted_and_removed(system: System) -> None:
    client = BrokerClient(system.bootstrap_servers)
    client.check_reachable()
    client.create_topic("t", 3, {"retention.ms": 60000})
    assert sum(client.records_by_partition("t", 3)) == 0
    producer = Producer({"bootstrap.servers": system.bootstrap_servers})
    for number in range(100):
        producer.produce("t", b"value", partition=number % 3)
    assert producer.flush(60) == 0
    assert sum(client.records_by_partition("t", 3)) == 100
    client.delete_topic("t")


def test_what_the_broker_refuses_is_the_users_mistake(system: System) -> None:
    with pytest.raises(UsageError, match=r"^the broker refuses the topic: INVALID_CONFIG: .*segment\.byte"):
        BrokerClient(system.bootstrap_servers).create_topic("t", 1, {"segment.byte": 1})


def test_the_configuration_in_force_is_told(system: System) -> None:
    assert BrokerClient(system.bootstrap_servers).effective_config()["log.segment.bytes"] == "1048576"


def test_aborted_records_are_in_the_log_and_reach_no_consumer(system: System) -> None:
    client = BrokerClient(system.bootstrap_servers)
    client.create_topic("t", 2, {})
    plan = LoadPlan(
        bootstrap_servers=system.bootstrap_servers,
        topics=("t",),
        partitions=2,
        producers=1,
        groups=1,
        consumers_per_group=1,
        schedule=OpenSchedule.constant(1000),
        warmup=0,
        measure_s=2,
        drain_max_s=30,
        sizes=FixedSize(100),
        payload=GeneratedPayload(),
        seed=3,
        transactions=TransactionPlan(records=50, abort_ratio=0.4),
    )
    result = run_load(plan)
    delivery, transactions = result.delivery, result.transactions
    assert transactions is not None
    assert (transactions.committed + transactions.aborted, transactions.failed) == (40, 0)
    assert 5 < transactions.aborted < 30
    assert (delivery.sent, delivery.acked, delivery.aborted) == (2000, 2000, 50 * transactions.aborted)
    assert (delivery.received, delivery.aborted_received) == (delivery.acked - delivery.aborted, 0)
    assert (delivery.lost, delivery.duplicated, delivery.reordered, delivery.corrupt) == (0, 0, 0, 0)
    assert sum(client.records_by_partition("t", 2)) > 2000  # the ends of transactions have offsets too


def test_a_bad_broker_property_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    wanted = HighwaterUnderTest(config={"log.segment.byte": 1048576})
    with pytest.raises(UsageError, match=r"^the broker refuses to start: .*log\.segment\.byte"):
        start_system(wanted, [tmp_path / "log"], tmp_path, lambda: None)


def start_run(tmp_path: Path, workload: str, *options: str) -> subprocess.Popen[str]:
    (tmp_path / "w.yaml").write_text(workload)
    command = [sys.executable, "-m", "highwater", "bench", "run", "w.yaml", "--out", "out"]
    return subprocess.Popen(
        [*command, *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )


def left_behind(tmp_path: Path) -> list[str]:
    """Files that a run did not clean up. Hypothesis, where it is installed, leaves a folder wherever it is imported."""
    return sorted({path.name for path in tmp_path.iterdir()} - {"out", "w.yaml", ".hypothesis"})


def left_running(tmp_path: Path) -> list[list[str]]:
    """Processes that still know this test's directory, once they had time to end."""
    deadline_s = time.monotonic() + 60
    while True:
        found = [
            process.info["cmdline"]
            for process in psutil.process_iter(["cmdline"])
            if any(str(tmp_path) in argument for argument in process.info["cmdline"] or [])
        ]
        if not found or time.monotonic() > deadline_s:
            return found
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.spark
def test_a_whole_run(tmp_path: Path) -> None:
    with start_run(tmp_path, TINY.replace("probe: false", "probe: true"), *ON_SPARK, "--json") as run:
        stdout, stderr = run.communicate(timeout=400)
    assert run.returncode == 0, stderr
    assert json.loads(stdout)["exit_code"] == 0
    result = RunResult(tmp_path / "out")
    assert list(disagreements(result)) == []
    assert list(result.cells()) == ["compression.type=lz4"]
    (trial,) = result.trials
    delivery = trial.summary.delivery
    assert delivery.sent == delivery.acked == delivery.received == delivery.in_log == 1500
    assert trial.summary.e2e is not None
    assert trial.summary.e2e.response_ns.count > 0
    assert trial.summary.system.effective_config
    generator = trial.summary.generator
    assert (generator.hosts(), generator.produce_sampled_one_in) == ([socket.gethostname()], 1)
    assert sum(task.acked for task in generator.tasks) == 1500
    cache, writeback, probes = trial.summary.cache, trial.summary.writeback, result.probes()
    assert cache is not None
    assert cache.served_ratio is not None
    assert (cache.method, cache.drop) == ("system_reads", "kept")
    # lz4 has made the log smaller than the values that it holds.
    assert cache.log_bytes is not None
    assert 0 < cache.log_bytes < 1500 * 200
    assert writeback is None or writeback.appended_bytes == cache.log_bytes
    assert trial.summary.host.sampler_cpu_ratio is not None
    assert probes is not None
    assert [probe.moment for probe in probes.probes] == ["before", "after"]
    assert left_behind(tmp_path) == []
    assert left_running(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("signals", [1, 2])
def test_an_interrupted_run_keeps_what_it_has_and_leaves_no_process(signals: int, tmp_path: Path) -> None:
    with start_run(tmp_path, TINY.replace("measure: 2s", "measure: 300s"), "--launcher", "process") as run:
        wait_for_load(tmp_path, run)
        for number in range(signals):
            time.sleep(0.1 * number)  # or the kernel makes one of the two
            run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=180)
    assert run.returncode == 130, stderr
    manifest = RunResult(tmp_path / "out").manifest
    assert (manifest.status, manifest.exit_code) == ("interrupted", 130)
    assert [trial.status for trial in manifest.trials] == ["interrupted"]
    assert left_behind(tmp_path) == []
    assert left_running(tmp_path) == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_run_leaves_a_readable_directory_and_no_process(tmp_path: Path) -> None:
    with start_run(tmp_path, TINY.replace("measure: 2s", "measure: 300s"), *ON_SPARK) as run:
        wait_for_load(tmp_path, run)
        run.kill()
        run.communicate(timeout=60)
    assert RunResult(tmp_path / "out").manifest.status == "running"
    assert left_running(tmp_path) == []


def wait_for_load(tmp_path: Path, run: subprocess.Popen[str]) -> None:
    """Until the broker of the first trial has been given a topic, which is when the load starts."""

    def has_begun() -> bool:
        assert run.poll() is None, run.stderr and run.stderr.read()
        return any("created topic" in path.read_text() for path in tmp_path.glob("out/trials/*/system.log"))

    wait_until(has_begun, "the load", 300)
