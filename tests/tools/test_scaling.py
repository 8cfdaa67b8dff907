"""The law of scaling finds what made-up rates were made with; control groups are those that the kernel reads."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pytest

from highwater.common.errors import UsageError
from tools.scaling.control_group import ControlGroup, Hierarchy, find_hierarchy
from tools.scaling.model import ScalingLaw, fit, interval

COUNTS = (1, 2, 4, 8)


@pytest.mark.parametrize("law", [ScalingLaw(1000, 0, 0), ScalingLaw(2500, 0.05, 0.0), ScalingLaw(800, 0.02, 0.003)])
def test_the_law_is_found_again(law: ScalingLaw) -> None:
    found = fit({count: [law.rate(count)] * 5 for count in COUNTS})
    assert found.rate_of_one == pytest.approx(law.rate_of_one)
    assert found.contention == pytest.approx(law.contention, abs=1e-9)
    assert found.coherence == pytest.approx(law.coherence, abs=1e-9)


def test_noise_makes_the_interval_wide_and_the_truth_is_in_it() -> None:
    law, random = ScalingLaw(1000, 0.03, 0.002), Random(7)
    rates = {count: [law.rate(count) * random.gauss(1, 0.03) for _ in range(5)] for count in COUNTS}
    low, high = interval(rates, 16)
    assert low < law.rate(16) < high
    assert high - low > 0.02 * law.rate(16)


def test_more_than_in_proportion_is_not_made_a_gain_without_end() -> None:
    found = fit({1: [100.0], 2: [210.0], 4: [430.0], 8: [900.0]})
    assert (found.contention, found.coherence) == (0, 0)
    assert found.bends_at == math.inf


def test_where_more_processes_make_less() -> None:
    assert ScalingLaw(1, 0.0, 0.01).bends_at == pytest.approx(10)
    assert ScalingLaw(1, 0.19, 0.01).bends_at == pytest.approx(9)


def test_two_numbers_of_processes_are_too_few() -> None:
    with pytest.raises(ValueError, match="three numbers"):
        fit({1: [1.0], 2: [2.0]})


OLD = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
UNIFIED = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"


def test_the_hierarchy_that_has_processors_is_taken(tmp_path: Path) -> None:
    unified = tmp_path / "sys/fs/cgroup/unified"
    unified.mkdir(parents=True)
    (unified / "cgroup.controllers").write_text("memory pids\n")
    assert find_hierarchy(UNIFIED + OLD, tmp_path) == Hierarchy(
        tmp_path / "sys/fs/cgroup/cpu,cpuacct", is_unified=False
    )
    with pytest.raises(UsageError, match="no control groups for processors"):
        find_hierarchy(UNIFIED, tmp_path)
    (unified / "cgroup.controllers").write_text("cpu memory\n")
    assert find_hierarchy(UNIFIED, tmp_path) == Hierarchy(unified, is_unified=True)


def test_a_share_is_a_quota_in_each_period(tmp_path: Path) -> None:
    group = ControlGroup(Hierarchy(tmp_path, is_unified=False), "g", 0.1)
    assert (tmp_path / "g/cpu.cfs_quota_us").read_text() == "2000"
    assert (tmp_path / "g/cpu.cfs_period_us").read_text() == "20000"
    group.take([4711])
    assert group.process_ids() == [4711]
    (tmp_path / "cgroup.subtree_control").write_text("memory")
    ControlGroup(Hierarchy(tmp_path, is_unified=True), "h", 2.5)
    assert (tmp_path / "h/cpu.max").read_text() == "50000 20000"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"


def test_what_the_kernel_cannot_do_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--share 0\.01 is less than the kernel can hold"):
        ControlGroup(Hierarchy(tmp_path, is_unified=False), "g", 0.01)
    with pytest.raises(UsageError, match="control groups need root"):
        ControlGroup(Hierarchy(tmp_path / "nowhere", is_unified=False), "g", 0.1)
