"""The agent's figures of this host, compared with those of psutil, free(1) and the kernel's own files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest

from highwater.bench.host_agent.collecting import AgentSettings, HostReaderForAgent
from highwater.common.host_answer import HostAnswer, parse_answer
from tests.broker.running import running_broker


def read(*directories: Path, metrics: dict[Path | None, str] | None = None) -> HostAnswer:
    return HostReaderForAgent(AgentSettings(directories, metrics or {})).answer()


def test_memory_is_as_free_prints_it() -> None:
    answer = read()
    printed = subprocess.run(["free", "--bytes", "--wide"], capture_output=True, text=True, check=True).stdout
    names, line = printed.splitlines()[:2]
    free = dict(zip(names.split(), map(int, line.split()[1:]), strict=True))
    memory = answer.memory
    assert memory.total_bytes == free["total"]
    # The others change while this test runs; free(1) counts reclaimable slabs as cache too.
    slack = free["total"] // 20
    assert memory.shared_bytes == pytest.approx(free["shared"], abs=slack)
    assert memory.available_bytes == pytest.approx(free["available"], abs=slack)
    reclaimable = int(
        next(line for line in Path("/proc/meminfo").read_text().splitlines() if "SRecl" in line).split()[1]
    )
    assert memory.cached_bytes == pytest.approx(free["cache"] - reclaimable * 1024, abs=slack)


def test_counters_lie_between_those_of_psutil_before_and_after() -> None:
    def counted() -> tuple[float, ...]:
        disks = psutil.disk_io_counters(perdisk=True, nowrap=False)
        network = psutil.net_io_counters(pernic=True, nowrap=False)
        names = [disk.name for disk in answer.disks] if answer else list(disks)
        return (
            *(value for name in names for value in (disks[name].read_bytes, disks[name].write_bytes)),
            network["lo"].bytes_sent,
        )

    answer = read(Path.cwd())
    before = counted()
    answer = read(Path.cwd())
    found = tuple(value for disk in answer.disks for value in (disk.read_bytes, disk.written_bytes))
    after = counted()
    for low, value, high in zip(before, (*found, answer.network.loopback_bytes), after, strict=True):
        assert low <= value <= high


def test_cpu_time_and_the_host_itself() -> None:
    before = psutil.cpu_times()
    answer = read()
    after = psutil.cpu_times()
    assert sum(before[:8]) - before.idle - before.iowait <= answer.cpu.busy_s + 0.1
    assert answer.cpu.busy_s <= sum(after[:8]) - after.idle - after.iowait + 0.1
    assert answer.cpu.count == os.cpu_count()
    assert (answer.host, answer.kernel) == (os.uname().nodename, os.uname().release)
    assert answer.tuning is not None
    assert len(answer.tuning.fingerprint) == 64


def test_a_broker_is_found_by_its_log_directory(tmp_path: Path) -> None:
    log = tmp_path.resolve() / "log"
    with running_broker(log, properties=["metrics.listener=HTTP://127.0.0.1:0"]) as broker:
        url = broker.log_text().partition("metrics at ")[2].split()[0]
        answer = read(log, metrics={log: url})
        (found,) = answer.brokers
        assert found.process_id == broker.process.pid
        assert found.metrics is not None
        assert found.metrics["kafka_server_brokertopicmetrics_bytesout_total"] == 0
        assert found.cpu_s is not None
        assert found.cpu_s > 0
        assert found.rss_bytes == pytest.approx(psutil.Process(broker.process.pid).memory_info().rss, rel=0.2)
        if found.read_bytes is not None:  # root, or the same user
            io = dict(line.split(": ") for line in Path(f"/proc/{broker.process.pid}/io").read_text().splitlines())
            assert found.read_bytes <= int(io["read_bytes"])
        (directory,) = answer.directories
        assert directory.broker_id == found.broker_id
        volume = os.statvfs(log)
        assert directory.total_bytes == volume.f_blocks * volume.f_frsize
        assert answer.problems == ()
    gone = read(log, metrics={None: url})
    assert gone.brokers[0].process_id is None
    assert gone.brokers[0].metrics is None
    assert any("no process has" in problem for problem in gone.problems)
    assert any(f"{url} does not answer: Connection refused" in problem for problem in gone.problems)


def test_who_asks_at_once_again_gets_the_same_answer() -> None:
    reader = HostReaderForAgent(AgentSettings())
    assert reader.answer() is reader.answer()
    assert parse_answer(reader.answer().as_json()) == reader.answer()


def test_a_directory_that_is_not_there_is_a_problem_of_the_answer(tmp_path: Path) -> None:
    answer = read(tmp_path / "missing")
    assert answer.directories[0].total_bytes is None
    assert any("missing" in problem for problem in answer.problems)
