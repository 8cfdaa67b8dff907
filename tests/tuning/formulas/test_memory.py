"""Values for swap, write-back, reclaim and memory nodes, with their numbers filled in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.facts.model import Facts, Memory, NumaNode, Swap
from highwater.tuning.formulas import memory
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import NotApplicable, Target
from highwater.tuning.workload import Workload

GIB = 2**30
MIB = 2**20
WORKLOAD = Workload(disk_write_bytes_per_s=400 * 10**6)


@pytest.mark.parametrize(
    ("total_gib", "expected_kib"),
    [
        (1, 31 * 1024),  # 64 MiB would be more than 3 %
        (4, 64 * 1024),
        (64, 328 * 1024),
        (512, 1024 * 1024),
    ],
)
def test_the_free_reserve_grows_with_memory_between_its_bounds(facts: Facts, total_gib: int, expected_kib: int) -> None:
    host = replace(facts, memory=Memory(total_bytes=total_gib * GIB))
    assert _value(memory.min_free_kbytes(host, WORKLOAD, "")) == expected_kib


def test_watermarks_are_moved_apart_only_on_a_big_host(facts: Facts) -> None:
    big = replace(facts, memory=Memory(total_bytes=128 * GIB))
    answer = memory.watermark_scale_factor(big, WORKLOAD, "")
    assert isinstance(answer, Target)
    assert answer.value == 50
    assert "655 MiB of room" in answer.formula
    small = memory.watermark_scale_factor(replace(facts, memory=Memory(total_bytes=64 * GIB)), WORKLOAD, "")
    assert isinstance(small, NotApplicable)
    assert small.reason == "64 GiB of memory: up to 64 GiB the kernel's 10 (0.1 %) is enough"


@pytest.mark.parametrize(("segments", "expected", "also"), [(33_333, 100, (50,)), (33_334, 50, ())])
def test_many_files_keep_their_inodes(facts: Facts, segments: int, expected: int, also: tuple[int, ...]) -> None:
    workload = Workload(partitions=segments, partition_bytes=GIB)
    answer = memory.vfs_cache_pressure(facts, workload, "")
    assert (answer.value, answer.also) == (expected, also)


@pytest.mark.parametrize(
    ("available_gib", "background_mib", "limit_mib"),
    [
        (1, 51, 410),  # 5 % and 40 % of what is available
        (64, 572, 3052),  # 1.5 s and 8 s of the disk
        (1024, 572, 3052),
    ],
)
def test_unwritten_data_is_bounded_by_the_disk_or_by_memory(
    facts: Facts, available_gib: int, background_mib: int, limit_mib: int
) -> None:
    host = replace(facts, memory=Memory(available_bytes=available_gib * GIB))
    assert _value(memory.dirty_background_bytes(host, WORKLOAD, "")) == background_mib * MIB
    assert _value(memory.dirty_bytes(host, WORKLOAD, "")) == limit_mib * MIB


def test_a_control_group_bounds_unwritten_data_too(facts: Facts) -> None:
    host = replace(facts, memory=Memory(available_bytes=64 * GIB, cgroup_limit_bytes=2 * GIB))
    assert _value(memory.dirty_bytes(host, WORKLOAD, "")) == round(0.4 * 2048) * MIB


@pytest.mark.parametrize(
    ("used_gib", "available_gib", "reason"),
    [
        (0, None, ""),
        (2, 4, ""),
        (3, 4, "3 GiB are swapped out, and only 4 GiB of memory is available to read them back"),
        (
            1,
            None,
            "1 GiB are swapped out, and only an unknown amount of memory is available to read them back",
        ),
    ],
)
def test_swap_stays_where_memory_could_not_take_it_back(
    facts: Facts, used_gib: int, available_gib: int | None, reason: str
) -> None:
    available = None if available_gib is None else available_gib * GIB
    swap = Swap("/dev/sdb1", "partition", 8 * GIB, used_gib * GIB)
    answer = memory.swap_devices(replace(facts, memory=Memory(available_bytes=available), swaps=(swap,)), WORKLOAD, "")
    if reason:
        assert answer == NotApplicable(f"{reason}: add memory to the host first")
    else:
        assert _value(answer) == "none"


def test_the_swap_of_a_container_is_its_host_s(facts: Facts) -> None:
    assert isinstance(memory.swap_devices(replace(facts, container="docker"), WORKLOAD, ""), NotApplicable)


def test_swap_is_told_by_device_and_size(facts: Facts) -> None:
    assert memory.observe_swap(replace(facts, swaps=()), "").text == "none"
    assert memory.observe_swap(replace(facts, swaps=(Swap("/swap.img", "file", GIB, 0),)), "").text == "/swap.img 1 GiB"
    unknown = memory.observe_swap(replace(facts, swaps=None, unknown={"swaps": "/proc/swaps does not exist"}), "")
    assert (unknown.value, unknown.text) == (None, "/proc/swaps does not exist")


def test_balancing_is_a_matter_of_several_nodes(facts: Facts) -> None:
    nodes = (NumaNode(0, (0, 1), GIB), NumaNode(1, (2, 3), GIB))
    assert isinstance(memory.numa_balancing(facts, WORKLOAD, ""), NotApplicable)
    assert isinstance(memory.numa_balancing(replace(facts, numa_nodes=nodes[:1]), WORKLOAD, ""), NotApplicable)
    assert _value(memory.numa_balancing(replace(facts, numa_nodes=nodes), WORKLOAD, "")) == 0


def test_a_fact_that_is_missing_is_named(facts: Facts) -> None:
    reason = "/proc/meminfo cannot be read: Permission denied"
    host = replace(facts, unknown={"memory.total_bytes": reason, "memory.available_bytes": reason})
    for formula in (memory.min_free_kbytes, memory.watermark_scale_factor, memory.dirty_bytes):
        assert formula(host, WORKLOAD, "") == NotApplicable(reason)


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return Facts(files=HostFiles(tmp_path))


def _value(answer: Target | NotApplicable) -> int | str:
    assert isinstance(answer, Target)
    return answer.value
