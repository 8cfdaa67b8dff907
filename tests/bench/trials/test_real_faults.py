"""Brokers that are broken while they are measured, for real: they come back, and nothing that was promised is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from highwater.bench.systems import start_system
from highwater.bench.systems.process import listening
from highwater.bench.verify import disagreements
from highwater.bench.workload.system import HighwaterUnderTest
from highwater.results.reader import RunResult
from tests.bench.test_real_broker import TINY, left_running
from tests.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("host_settings_stay"), pytest.mark.slow]

# Two faults of one broker, which is all there is: the whole load waits for it.
BROKEN = TINY.replace("matrix: {producers.client.compression.type: [lz4]}\n", "").replace(
    "phases: {warmup: 1s, measure: 2s, drain: 60s}",
    "phases: {warmup: 1s, measure: 13s, drain: 60s}\n"
    "producers: {client: {acks: all, enable.idempotence: true}}\n"
    "faults: [{at: 3s, do: pause, node: 1, for: 1s}, {at: 7s, do: kill, node: leader, for: 1s}]",
)


# The controller may lead a partition or not; another takes over from it either way.
STOPPED = (
    BROKEN.replace("topics: {partitions: 2}", "topics: {partitions: 3, replication: 3}\nsystem: {nodes: 3}")
    .replace("{client: {acks: all", "{driver: wire, client: {acks: all, compression.type: lz4")
    .replace("measure: 13s", "measure: 25s")
    .replace("{at: 3s, do: pause, node: 1, for: 1s}", "{at: 3s, do: stop, node: leader, for: 2s}")
    .replace("{at: 7s, do: kill, node: leader, for: 1s}", "{at: 9s, do: kill, node: controller, for: 1s}")
)


def run(tmp_path: Path, workload: str) -> RunResult:
    (tmp_path / "w.yaml").write_text(workload)
    command = [sys.executable, "-m", "highwater", "bench", "run", "w.yaml", "--out", "out", "--launcher", "process"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=480,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return RunResult(tmp_path / "out")


def test_a_broker_is_paused_and_killed_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    result = run(tmp_path, BROKEN)
    (trial,) = result.trials
    recovery, delivery = trial.summary.recovery, trial.summary.delivery
    assert recovery is not None
    assert [(fault.do, fault.node, fault.role) for fault in recovery.faults] == [
        ("pause", 1, "node"),
        ("kill", 1, "leader"),
    ]
    for fault, lasted_s in zip(recovery.faults, (1.0, 1.0), strict=True):
        assert fault.back_s is not None
        assert fault.back_s - fault.at_s >= lasted_s
        assert fault.longest_wait_s is not None
        assert fault.longest_wait_s >= lasted_s, "what was due at the fault waited for its end"
    assert (delivery.sent, delivery.acked, delivery.lost, delivery.duplicated) == (7000, 7000, 0, 0)
    assert [event.kind for event in trial.events() if event.kind in ("fault", "recovery")] == [
        "fault",
        "recovery",
        "fault",
        "fault",
        "recovery",
    ]
    assert list(disagreements(result)) == []
    summary_file = trial.directory / "summary.json"
    summary_file.write_text(summary_file.read_text().replace('"no_ack_s": ', '"no_ack_s": 9'))
    said = list(disagreements(RunResult(tmp_path / "out")))
    assert f"{trial.summary.trial_id}: recovery: the windows and the faults give other figures" in said
    assert left_running(tmp_path) == []


def test_leader_and_controller_go_and_each_record_is_there_once(tmp_path: Path) -> None:
    (trial,) = run(tmp_path, STOPPED).trials
    recovery, delivery = trial.summary.recovery, trial.summary.delivery
    assert recovery is not None
    assert [(fault.do, fault.role) for fault in recovery.faults] == [("stop", "leader"), ("kill", "controller")]
    assert all(fault.back_s is not None for fault in recovery.faults)
    assert (delivery.sent, delivery.acked, delivery.lost, delivery.duplicated) == (13_000, 13_000, 0, 0)
    assert left_running(tmp_path) == []


def is_stopped(process_id: int) -> bool:
    """SIGSTOP takes effect when each of the process's threads next gets to run."""
    process = psutil.Process(process_id)
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "the stop")
    return True


def test_a_broker_comes_back_at_its_address_and_its_end_is_a_problem_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with start_system(HighwaterUnderTest(), [tmp_path / "data"], tmp_path, lambda: None) as system:
        (node,) = system.nodes
        before, address = node.process_ids, system.bootstrap_servers
        node.take_down(signal.SIGKILL)
        assert system.problem() is None, "it was meant to end"
        assert not any(map(psutil.pid_exists, before))
        assert not node.serves()
        node.start_again()
        while not node.serves():
            assert not node.reap(), node.log_file.read_text()
        assert system.bootstrap_servers == address
        assert listening(int(address.rpartition(":")[2]))("") is not None
        node.pause()
        assert is_stopped(node.process_ids[0])
        node.resume()
        node.kill()
        assert "was killed by SIGKILL" in (system.problem() or "")


def test_a_paused_broker_is_stopped_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with start_system(HighwaterUnderTest(), [tmp_path / "data"], tmp_path, lambda: None) as system:
        processes = system.process_ids
        system.nodes[0].pause()
    assert not any(map(psutil.pid_exists, processes))
