"""The page cache of a host, reckoned: every line, on big and small hosts, beside a broker with a heap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.sizing import Budget, BudgetLine, Sizing, measured_write_rate, size_host
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import GIB, make_host, write

MIB = 2**20
MEMORY_KEYS = {"net.ipv4.tcp_mem": "100 200 262144", "vm.min_free_kbytes": "65536"}


def _sizing(tmp_path: Path, workload: Workload | None = None, **host: Any) -> Sizing:
    facts = collect(make_host(tmp_path, sysctls=MEMORY_KEYS, **host))
    return size_host(facts, workload or Workload(data_dirs=("/data",)))


def _line(budget: Budget, label: str) -> BudgetLine:
    (line,) = (line for line in budget.lines if line.label == label)
    return line


def test_a_broker_without_a_heap_beside_one_with(tmp_path: Path) -> None:
    sizing = _sizing(tmp_path, memory_bytes=64 * GIB, available_bytes=62 * GIB)
    ours, kafka = sizing.budgets
    assert (ours.broker, kafka.broker) == ("highwater", "apache-kafka")
    assert [line.label for line in ours.lines] == [line.label for line in kafka.lines]
    # 64 GiB − 256 MiB broker − (2 GiB − 64 MiB) in use − 1 GiB of TCP at most − 64 MiB reserve
    assert _line(ours, "left").bytes == 64 * GIB - 256 * MIB - 2 * GIB - GIB
    assert _line(kafka, "broker").bytes == 6 * GIB + 512 * MIB
    assert ours.cache_bytes is not None
    assert kafka.cache_bytes is not None
    assert ours.cache_bytes - kafka.cache_bytes == pytest.approx(0.85 * (6 * GIB + 256 * MIB), abs=2)
    assert ours.cache_s is not None
    assert ours.cache_s == pytest.approx((ours.cache_bytes - 1000 * 16384) / 100e6)
    assert ours.missing_bytes == 0
    assert ours.verdict.startswith("enough: consumers 9 min 14 s behind read from memory, 30 s are asked for")


def test_the_formulas_have_their_numbers(tmp_path: Path) -> None:
    ours, kafka = _sizing(tmp_path).budgets
    assert _line(kafka, "broker").formula == "heap 6 GiB (workload: heap) + 512 MiB of the JVM's own (assumed)"
    assert _line(ours, "needed").formula == (
        "100 MB/s × 30 s (the longer of lag 30 s and Apache Kafka's rule of 30 s) + 1000 partitions × 16 KiB of indexes"
    )
    assert "net.ipv4.tcp_mem's maximum 1 GiB" in _line(ours, "socket buffers").formula


def test_a_small_host_says_what_is_missing(tmp_path: Path) -> None:
    workload = Workload(data_dirs=("/data",), write_bytes_per_s=500 * 10**6, lag_window_s=60)
    ours, kafka = _sizing(tmp_path, workload, memory_bytes=8 * GIB).budgets
    assert ours.missing_bytes
    assert kafka.missing_bytes
    assert kafka.missing_bytes > ours.missing_bytes
    assert ours.verdict.startswith("too little: consumers more than ")
    assert "1 min are asked for; add " in ours.verdict
    assert "1 min are asked for; add " in kafka.verdict


def test_what_is_missing_is_enough_when_it_is_added(tmp_path: Path) -> None:
    workload = Workload(data_dirs=("/data",), connections=1)
    small = {"memory_bytes": 2 * GIB, "available_bytes": 2 * GIB}
    kafka = _sizing(tmp_path / "small", workload, **small).budgets[1]
    assert kafka.missing_bytes
    assert "are missing before there is any page cache, and 30 s are asked for; add " in kafka.verdict
    grown = 2 * GIB + kafka.missing_bytes
    kafka = _sizing(tmp_path / "grown", workload, memory_bytes=grown, available_bytes=grown).budgets[1]
    assert kafka.missing_bytes is not None
    assert kafka.missing_bytes < MIB, "meminfo counts KiB"
    assert kafka.cache_bytes == pytest.approx(kafka.needed_bytes, rel=0.01)


def test_the_brokers_of_a_workload_come_first(tmp_path: Path) -> None:
    first, second = _sizing(tmp_path, Workload(data_dirs=("/data",), broker="apache-kafka")).budgets
    assert (first.broker, second.broker) == ("apache-kafka", "highwater")


def test_a_control_group_is_all_there_is(tmp_path: Path) -> None:
    root = make_host(tmp_path, sysctls=MEMORY_KEYS)
    write(root, "/proc/self/cgroup", "0::/broker\n")
    mounts = root / "proc/self/mountinfo"
    mounts.write_text(mounts.read_text() + "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    write(root, "/sys/fs/cgroup/broker/memory.max", f"{4 * GIB}\n")
    ours = size_host(collect(root), Workload(data_dirs=("/data",))).budgets[0]
    assert _line(ours, "memory").bytes == 4 * GIB
    assert _line(ours, "memory").formula.startswith("the control group's limit; page cache is charged to it")
    assert (_line(ours, "everything else").bytes, _line(ours, "kernel's reserve").bytes) == (0, 0)
    write(root, "/proc/sys/net/ipv4/tcp_mem", "100 200 99999999\n")
    huge = size_host(collect(root), Workload(data_dirs=("/data",), connections=10**6)).budgets[0]
    assert _line(huge, "socket buffers").bytes == pytest.approx(4 * GIB * 0.094, rel=0.02), "the host's is not ours"


def test_disks_that_are_too_slow_are_said_to_be(tmp_path: Path) -> None:
    workload = Workload(data_dirs=("/data",), write_bytes_per_s=900 * 10**6, disk_write_bytes_per_s=200 * 10**6)
    sizing = _sizing(tmp_path, workload)
    (warning,) = sizing.warnings
    assert warning.startswith(
        "the log grows by 900 MB/s and the disks write 200 MB/s (given, 1 × 200 MB/s): more memory does not help"
    )
    texts = {line.label: line.text for line in sizing.disks}
    assert {line.label: line.formula for line in sizing.disks}["disks write"] == "given, 1 × 200 MB/s"
    assert texts["vm.dirty_bytes"] == "1.49 GiB, 8 s of the disks' work"
    assert texts["disk space"] == "495 TiB"
    assert _sizing(tmp_path / "other").warnings == ()


def test_nothing_is_known_of_an_empty_tree(tmp_path: Path) -> None:
    sizing = size_host(collect(tmp_path), Workload())
    for budget in sizing.budgets:
        assert (budget.cache_bytes, budget.missing_bytes) == (None, None)
        assert budget.verdict
    json.dumps(sizing.as_json())


def test_a_storage_probe_gives_the_write_rate() -> None:
    probe = {"jobs": [{"name": "fsync", "bytes_per_s": 1.0}, {"name": "sequential_append", "bytes_per_s": 4.2e8}]}
    assert measured_write_rate(json.dumps(probe), "p.json") == 420_000_000
    for text in ("", "{}", '{"jobs": []}', "[]"):
        with pytest.raises(
            TuningError, match=r"^p\.json is not a storage probe; make one with: highwater bench storage"
        ):
            measured_write_rate(text, "p.json")
