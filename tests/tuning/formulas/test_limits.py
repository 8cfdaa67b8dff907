"""Values for open files, threads, locked memory and requests of libaio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.facts.model import Facts
from highwater.tuning.facts.units import Limit
from highwater.tuning.formulas import limits
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import NotApplicable, Target
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import write

GIB = 2**30


@pytest.mark.parametrize(("segments", "expected"), [(100, 100_000), (400_000, 1_441_200)])
def test_the_file_limit_holds_segments_and_connections(facts: Facts, segments: int, expected: int) -> None:
    workload = Workload(partitions=segments, partition_bytes=GIB)
    answer = limits.nofile(facts, workload, "")
    assert answer.value == expected
    assert f"1.2 × (3 files × {segments} segments + 1000 connections)" in answer.formula
    assert limits.nr_open(facts, workload, "").value == max(expected, 524_288)
    assert limits.file_max(facts, workload, "").value == max(1_000_000, 2 * expected)


@pytest.mark.parametrize(
    ("in_use", "expected"),
    [(None, 1_048_576), ("0\n", None), ("1\n", 1_048_576), ("1000000\n", 1_065_536), ("nonsense", 1_048_576)],
)
def test_requests_of_libaio_come_on_top_of_those_in_use(
    facts: Facts, tmp_path: Path, in_use: str | None, expected: int | None
) -> None:
    if in_use is not None:
        write(tmp_path, "/proc/sys/fs/aio-nr", in_use)
    answer = limits.aio_max_nr(facts, Workload(), "")
    assert (answer.value if isinstance(answer, Target) else None) == expected


@pytest.mark.parametrize(("cpus", "expected"), [(0, 4096), (8, 4096), (128, 5120)])
def test_threads_grow_with_processors(facts: Facts, cpus: int, expected: int) -> None:
    host = replace(facts, cpus_online=tuple(range(cpus)))
    answer = limits.threads(host, Workload(), "")
    assert (answer.value, answer.also) == (expected, ("infinity",))


def test_a_login_limit_needs_pam_limits(facts: Facts, tmp_path: Path) -> None:
    formula = limits.of_login(limits.login_memlock)
    assert formula.__doc__ == limits.login_memlock.__doc__
    assert isinstance(formula(facts, Workload(), ""), NotApplicable)
    (tmp_path / "etc/security").mkdir(parents=True)
    assert isinstance(formula(facts, Workload(), ""), Target)


@pytest.mark.parametrize(
    ("limit", "value", "text"),
    [
        (Limit(8 * 2**20, None), 8 * 2**20, "8 MiB (hard infinity)"),
        (Limit(None, None), "infinity", "infinity"),
    ],
)
def test_locked_memory_of_this_login_is_told(facts: Facts, limit: Limit, value: int | str, text: str) -> None:
    observed = limits.observe_login_memlock(replace(facts, limits={"memlock": limit}), "")
    assert (observed.value, observed.text) == (value, text)


def test_a_limit_that_cannot_be_read_says_why(facts: Facts) -> None:
    host = replace(facts, unknown={"limits": "/proc/self/limits does not exist"})
    for observe in (limits.observe_login_nofile, limits.observe_login_memlock):
        observed = observe(host, "")
        assert observed.value is None
        assert observed.text


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return Facts(files=HostFiles(tmp_path))
