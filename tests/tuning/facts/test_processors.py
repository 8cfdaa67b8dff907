"""Processors, memory and clocks of made trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.facts import collect
from highwater.tuning.facts.reading import parse_cpu_list
from tests.tuning.host_tree import GIB, make_big_host, make_host, write


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("0", (0,)), ("", ()), ("a-b", None), ("1-", None), ("0,,1", None), ("-1", None)],
)
def test_cpu_lists(text: str, cpus: tuple[int, ...] | None) -> None:
    assert parse_cpu_list(text) == cpus


def test_two_nodes_and_a_governor_on_every_policy(tmp_path: Path) -> None:
    facts = collect(make_big_host(tmp_path, disks=1, queues=2, cpus=16))
    assert [node.cpus for node in facts.numa_nodes] == [tuple(range(8)), tuple(range(8, 16))]
    assert facts.numa_nodes[1].memory_bytes == 32 * GIB
    assert list(facts.cpu_governors) == [f"policy{number}" for number in range(16)]
    assert facts.cpu_governors["policy15"].current == "schedutil"
    assert facts.cpu_governors["policy15"].available == ("performance", "schedutil", "powersave")


def test_boost_has_two_switches_one_the_other_way_round(tmp_path: Path) -> None:
    cpu = "/sys/devices/system/cpu"
    write(tmp_path / "amd", f"{cpu}/cpufreq/boost", "1\n")
    write(tmp_path / "intel", f"{cpu}/intel_pstate/no_turbo", "1\n")
    assert collect(tmp_path / "amd").boost is True
    assert collect(tmp_path / "intel").boost is False
    assert collect(tmp_path / "neither").boost is None


def test_clocks_isolation_and_threads(tmp_path: Path) -> None:
    make_host(tmp_path)
    clock = "/sys/devices/system/clocksource/clocksource0"
    write(tmp_path, f"{clock}/current_clocksource", "kvm-clock\n")
    write(tmp_path, f"{clock}/available_clocksource", "tsc kvm-clock\n")
    write(tmp_path, "/sys/devices/system/cpu/isolated", "4-7\n")
    write(tmp_path, "/sys/devices/system/cpu/smt/active", "1\n")
    facts = collect(tmp_path)
    assert facts.clocksource == ("kvm-clock", ("tsc", "kvm-clock"))
    assert facts.cpus_isolated == (4, 5, 6, 7)
    assert facts.smt is True


@pytest.mark.parametrize("page_bytes", [4096, 16384, 65536])
def test_the_page_size_follows_from_the_same_free_memory_in_two_units(tmp_path: Path, page_bytes: int) -> None:
    free_bytes = 3 * GIB
    write(tmp_path, "/proc/meminfo", f"MemTotal: {64 * GIB // 1024} kB\nMemFree: {free_bytes // 1024} kB\n")
    a_moment_later = free_bytes // page_bytes * 9 // 10
    write(tmp_path, "/proc/vmstat", f"nr_free_pages {a_moment_later}\nnr_dirty 7\n")
    assert collect(tmp_path).memory.page_bytes == page_bytes


def test_the_page_size_where_free_memory_that_was_plugged_in_is_no_free_page(tmp_path: Path) -> None:
    """As seen on a virtual machine of 24 GiB: half of MemFree is in no zone, and every other pair agrees."""
    sizes = {"MemTotal": 24684092, "MemFree": 23573464, "Mapped": 15872, "PageTables": 1720, "Active(file)": 14756}
    counters = {"nr_free_pages": 2722249, "nr_mapped": 3968, "nr_page_table_pages": 430, "nr_active_file": 3689}
    write(tmp_path, "/proc/meminfo", "".join(f"{key}: {kibibytes} kB\n" for key, kibibytes in sizes.items()))
    write(tmp_path, "/proc/vmstat", "".join(f"{counter} {pages}\n" for counter, pages in counters.items()))
    assert collect(tmp_path).memory.page_bytes == 4096
