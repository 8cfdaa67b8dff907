"""What holds between the recommended values whatever the host and the workload."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from highwater.tuning.facts.model import Facts, Memory
from highwater.tuning.formulas import limits, memory, units
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import NotApplicable, Target
from highwater.tuning.workload import Workload

MIB = 2**20
SIZES = st.integers(64 * MIB, 2**44)
WORKLOADS = st.builds(
    Workload,
    disk_write_bytes_per_s=st.none() | st.integers(1, 10**11),
    partitions=st.integers(1, 10**6),
    partition_bytes=st.integers(1, 2**44),
    segment_bytes=st.integers(2**20, 2**31),
    connections=st.integers(1, 10**6),
    write_bytes_per_s=st.integers(1, 10**11),
    lag_window_s=st.floats(0.001, 10**6),
    heap_bytes=st.integers(1, 2**40),
    broker=st.sampled_from(["highwater", "apache-kafka"]),
)


@given(total=SIZES, share=st.floats(0.01, 1), workload=WORKLOADS)
def test_writers_wait_later_than_write_back_begins(total: int, share: float, workload: Workload) -> None:
    available = max(64 * MIB, int(share * total))
    facts = _host(Memory(total_bytes=total, available_bytes=available))
    background = _number(memory.dirty_background_bytes(facts, workload, ""))
    limit = _number(memory.dirty_bytes(facts, workload, ""))
    assert 0 < background < limit
    assert limit <= 0.4 * available + MIB
    assert background % MIB == limit % MIB == 0, "a page is never bigger, so that the kernel takes them"


@given(total=SIZES, workload=WORKLOADS)
def test_a_reserve_leaves_the_memory_to_use(total: int, workload: Workload) -> None:
    facts = _host(Memory(total_bytes=total))
    assert _number(memory.min_free_kbytes(facts, workload, "")) * 1024 <= min(0.03 * total + MIB, 2**30)


@given(workload=WORKLOADS)
def test_a_file_limit_fits_below_its_ceilings(workload: Workload) -> None:
    facts = _host(Memory())
    wanted = _number(limits.nofile(facts, workload, ""))
    assert wanted >= 100_000
    assert wanted >= 3 * workload.segments + workload.connections
    assert wanted <= _number(limits.nr_open(facts, workload, ""))
    assert wanted < _number(limits.file_max(facts, workload, ""))


@given(total=SIZES, limit=st.none() | SIZES, workload=WORKLOADS)
def test_no_unit_is_given_more_memory_than_there_is(total: int, limit: int | None, workload: Workload) -> None:
    facts = _host(Memory(total_bytes=total, cgroup_limit_bytes=limit))
    assert _number(units.memory_for_broker(facts, workload, "x.service")) <= min(total, limit or total)


def _host(host_memory: Memory) -> Facts:
    return Facts(files=HostFiles(Path("/nonexistent")), memory=host_memory)


def _number(answer: Target | NotApplicable) -> int:
    assert isinstance(answer, Target)
    assert isinstance(answer.value, int)
    return answer.value
