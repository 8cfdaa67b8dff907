"""Values for the kernel as a whole: its clock, and where it puts dumps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.facts.model import Facts
from highwater.tuning.formulas import kernel
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import NotApplicable
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import write


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/run/systemd/timesync/synchronized", "synchronised"),
        ("/run/chrony/chronyd.pid", "a daemon runs"),
        ("/run/ntpd.pid", "a daemon runs"),
        ("/run/other.pid", "not synchronised"),
    ],
)
def test_a_clock_is_believed_where_something_sets_it(facts: Facts, tmp_path: Path, path: str, value: str) -> None:
    write(tmp_path, path, "")
    assert kernel.observe_clock(facts, "").value == value


def test_the_clock_of_a_container_is_its_host_s(facts: Facts) -> None:
    assert isinstance(kernel.clock_sync(replace(facts, container="docker"), Workload(), ""), NotApplicable)


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("|/usr/lib/systemd/systemd-coredump %P", "to a program"),
        ("/var/crash/core.%p", "to an absolute path"),
        ("core", "into the working directory"),
        ("", "nowhere"),
    ],
)
def test_the_way_of_a_dump_is_told(facts: Facts, tmp_path: Path, pattern: str, value: str) -> None:
    write(tmp_path, "/proc/sys/kernel/core_pattern", f"{pattern}\n")
    observed = kernel.observe_core_pattern(facts, "")
    assert observed.value == value
    assert pattern in observed.text
    answer = kernel.core_pattern(facts, Workload(), "")
    assert (observed.value in (answer.value, *answer.also)) == (pattern != "core")


def test_a_dump_is_as_big_as_the_broker(facts: Facts) -> None:
    assert "6.25 GiB (6 GiB heap + 256 MiB)" in kernel.core_pattern(facts, Workload(broker="apache-kafka"), "").formula


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return Facts(files=HostFiles(tmp_path))
