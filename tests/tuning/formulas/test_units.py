"""Values for the broker's service units, and how the present ones are told from files and from what runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.catalogue import find_knob
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import ControlGroup, Facts, Memory, NetworkInterface, NumaNode, Swap
from highwater.tuning.formulas import units
from highwater.tuning.formulas.common import constant
from highwater.tuning.model import NotApplicable, Target, Value
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import make_host, write

GIB = 2**30
UNIT = "highwater-broker@.service"
NODES = (NumaNode(0, (0, 1, 2, 3), GIB), NumaNode(1, (4, 5, 8), GIB))


def test_what_nothing_says_is_systemd_s_default(facts: Facts) -> None:
    observed = _observe(facts, "unit.limit_nofile")
    assert observed == (1024, "1024 (default)")
    assert _observe(facts, "unit.tasks_max")[0] == 15 * 513000 // 100
    assert _observe(facts, "unit.limit_nproc")[0] == 513000 // 2
    assert _observe(facts, "unit.memory_high") == ("infinity", "infinity (default)")
    assert _observe(facts, "unit.limit_memlock") == (8 * 2**20, "8 MiB (default)")


@pytest.mark.parametrize(
    ("knob_id", "setting", "value"),
    [
        ("unit.limit_nofile", "LimitNOFILE=100000:524288", 100_000),
        ("unit.limit_nofile", "LimitNOFILE=64K", 65_536),
        ("unit.limit_nofile", "LimitNOFILE=infinity", "infinity"),
        ("unit.limit_nofile", "LimitNOFILE=many", None),
        ("unit.memory_high", "MemoryHigh=1.5G", 3 * 2**29),
        ("unit.memory_high", "MemoryHigh=25%", 16 * GIB),
        ("unit.tasks_max", "TasksMax=50%", 256_500),
        ("unit.tasks_max", "TasksMax=infinity", "infinity"),
        ("unit.oom_score_adjust", "OOMScoreAdjust=-500", -500),
        ("unit.oom_score_adjust", "OOMScoreAdjust=least", None),
        ("unit.oom_score_adjust", "OOMScoreAdjust=", 0),
        ("unit.cpu_affinity", "CPUAffinity=0-3", "0-3"),
    ],
)
def test_a_setting_of_the_unit_file_is_read_as_systemd_reads_it(
    tmp_path: Path, knob_id: str, setting: str, value: Value | None
) -> None:
    root = make_host(tmp_path)
    write(root, f"/etc/systemd/system/{UNIT}", f"[Service]\nExecStart=/usr/bin/broker\n{setting}\n")
    assert _observe(collect(root), knob_id)[0] == value


def test_a_host_without_systemd_has_no_units(facts: Facts, tmp_path: Path) -> None:
    formula = units.of_unit(constant(500, "500"))
    assert formula.__doc__ == "500"
    assert isinstance(formula(facts, Workload(), UNIT), Target)
    (tmp_path / "etc/systemd/system").rmdir()
    (tmp_path / "etc/systemd").rmdir()
    assert isinstance(formula(facts, Workload(), UNIT), NotApplicable)


@pytest.mark.parametrize(
    ("workload", "budget", "expected", "words"),
    [
        (Workload(), 64 * GIB, 3_268_435_456, "256 MiB broker + 100 MB/s × 30 s = 3.04 GiB"),
        (Workload(broker="apache-kafka"), 64 * GIB, 9_710_886_400, "6 GiB heap + 256 MiB + 100 MB/s × 30 s"),
        (Workload(), 2 * GIB, 2 * GIB, "cut to the available 2 GiB"),
    ],
)
def test_a_memory_limit_has_room_for_the_process_and_the_window(
    facts: Facts, workload: Workload, budget: int, expected: int, words: str
) -> None:
    answer = units.memory_for_broker(replace(facts, memory=Memory(total_bytes=budget)), workload, UNIT)
    assert isinstance(answer, Target)
    assert answer.value == expected
    assert words in answer.formula
    assert answer.also == ("infinity",), "no limit is as good"


def test_control_groups_of_version_1_know_no_such_limits(facts: Facts) -> None:
    host = replace(facts, control_group=ControlGroup(version="v1"))
    assert isinstance(units.memory_for_broker(host, Workload(), UNIT), NotApplicable)
    assert isinstance(units.memory_swap_max(host, Workload(), UNIT), NotApplicable)


def test_a_unit_is_kept_from_swap_only_where_there_is_some(facts: Facts) -> None:
    assert isinstance(units.memory_swap_max(replace(facts, swaps=()), Workload(), UNIT), NotApplicable)
    answer = units.memory_swap_max(replace(facts, swaps=(Swap("/dev/sdb1", "partition", GIB, 0),)), Workload(), UNIT)
    assert answer == Target(0, "0, as 1 swap device is active")


def test_affinity_follows_the_fastest_interface_of_several_nodes(facts: Facts) -> None:
    assert isinstance(units.cpu_affinity(facts, Workload(), UNIT), NotApplicable)
    two = replace(facts, numa_nodes=NODES)
    assert isinstance(units.cpu_affinity(two, Workload(), UNIT), NotApplicable), "no interface tells its node"
    interfaces = {
        "eth0": _interface("eth0", speed_gbit_per_s=10, node=0),
        "eth1": _interface("eth1", speed_gbit_per_s=25, node=1),
        "eth2": _interface("eth2", speed_gbit_per_s=100, node=None),
    }
    answer = units.cpu_affinity(replace(two, network_interfaces=interfaces), Workload(), UNIT)
    assert answer == Target("4-5,8", "4-5,8, the processors of node 1, near eth1")


def test_a_policy_is_a_matter_of_several_nodes(facts: Facts) -> None:
    assert isinstance(units.numa_policy(facts, Workload(), UNIT), NotApplicable)
    answer = units.numa_policy(replace(facts, numa_nodes=NODES), Workload(), UNIT)
    assert isinstance(answer, Target)
    assert "bind" not in (answer.value, *answer.also)


def test_the_running_process_is_told_beside_the_files(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    _run_instance(root, nofile="65536")
    assert _observe(collect(root), "unit.limit_nofile") == (65_536, "65536 (in the running highwater-broker@1.service)")
    write(root, f"/etc/systemd/system/{UNIT}.d/90-highwater.conf", "[Service]\nLimitNOFILE=100000:524288\n")
    assert _observe(collect(root), "unit.limit_nofile") == (
        100_000,
        "100000 (65536 in highwater-broker@1.service until it restarts)",
    )


@pytest.mark.parametrize(
    ("cpus", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 3), "0-3"), ((9, 0, 1, 4), "0-1,4,9"), ((0, 2), "0,2")]
)
def test_processors_are_listed_as_the_kernel_lists_them(cpus: tuple[int, ...], text: str) -> None:
    assert units.cpu_list(cpus) == text


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return collect(make_host(tmp_path))


def _observe(facts: Facts, knob_id: str) -> tuple[Value | None, str]:
    observe = find_knob(knob_id).observe
    assert observe is not None
    observed = observe(facts, UNIT)
    return observed.value, observed.text


def _run_instance(root: Path, nofile: str) -> None:
    """A process of the unit, as its control group shows it."""
    group = "/sys/fs/cgroup/system.slice/system-highwater\\x2dbroker.slice/highwater-broker@1.service"
    mountinfo = root / "proc/self/mountinfo"
    mountinfo.write_text(mountinfo.read_text("utf-8") + "30 1 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "utf-8")
    write(root, f"{group}/cgroup.procs", "4711\n")
    write(root, "/proc/4711/cgroup", f"0::{group.removeprefix('/sys/fs/cgroup')}\n")
    write(root, "/proc/4711/limits", f"Limit Soft Hard Units\nMax open files {nofile} 524288 files\n")


def _interface(name: str, *, speed_gbit_per_s: int, node: int | None) -> NetworkInterface:
    return NetworkInterface(
        name=name,
        kind="physical",
        driver="ixgbe",
        up=True,
        speed_bits_per_s=speed_gbit_per_s * 10**9,
        mtu=1500,
        rx_queues=(),
        tx_queues=(),
        rps_cpus={},
        rps_flow_cnt={},
        xps_cpus={},
        irqs=(),
        numa_node=node,
    )


@pytest.mark.parametrize(("pid_max", "threads_max", "most"), [("4194304", "23160", 23160), ("32768", "513000", 32768)])
def test_the_tasks_that_systemd_takes_percentages_of_are_bounded_by_memory_too(
    tmp_path: Path, pid_max: str, threads_max: str, most: int
) -> None:
    root = make_host(tmp_path)
    write(root, "/proc/sys/kernel/pid_max", pid_max)
    write(root, "/proc/sys/kernel/threads-max", threads_max)
    assert _observe(collect(root), "unit.tasks_max")[0] == 15 * most // 100
