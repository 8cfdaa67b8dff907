"""What a person names becomes knobs with values off and on, or one line that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.bench.prove.subjects import Subject, subject_named, whatever_differs
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import Disk, make_host

HOST = Workload(data_dirs=("/data",))


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return collect(make_host(tmp_path, disks=[Disk("sda", "/data", schedulers="none [mq-deadline] kyber bfq")]))


def named(text: str, facts: Facts, accepted: tuple[str, ...] = ()) -> Subject:
    return subject_named(text, facts, HOST, accepted)


def test_a_knob_alone_is_the_host_as_it_is_against_the_recommendation(facts: Facts) -> None:
    subject = named("vm.swappiness", facts)
    (change,) = subject.changes
    assert (subject.off, subject.on, change.off_text, change.on_text) == ({}, {"vm.swappiness": "1"}, "60", "1")


def test_values_of_ones_own(facts: Facts) -> None:
    assert named("vm.swappiness=10", facts).on == {"vm.swappiness": "10"}
    both = named("vm.swappiness=100:10", facts)
    assert (both.off, both.on) == ({"vm.swappiness": "100"}, {"vm.swappiness": "10"})
    assert named("vm.swappiness=60:10", facts).off == {}, "what the host has need not be set"
    assert named("vm.dirty_bytes=256MiB", facts).changes[0].on_text == "256 MiB"


def test_knobs_that_are_changed_together_are_one_thing(facts: Facts) -> None:
    subject = named("vm.dirty_bytes=512MiB+vm.dirty_background_bytes=64MiB", facts)
    assert subject.name == "vm.dirty_background_bytes+vm.dirty_bytes"
    assert subject.on == {"vm.dirty_background_bytes": "64MiB", "vm.dirty_bytes": "512MiB"}
    assert named("vm.swappiness+disk.scheduler=kyber", facts).name == "disk.scheduler+vm.swappiness"


def test_a_plus_within_a_value_parts_nothing(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    target = host / "sys/kernel/mm/transparent_hugepage/defrag"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("always defer defer+madvise [madvise] never\n")
    subject = named("thp.defrag=defer+madvise+vm.swappiness", collect(host))
    assert subject.on == {"thp.defrag": "defer+madvise", "vm.swappiness": "1"}


def test_of_a_host_that_is_so_already_the_kernels_default_is_off(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, sysctls={"vm.swappiness": "1"}))
    (change,) = named("vm.swappiness", facts).changes
    assert (change.off, change.on, change.off_text, change.on_text) == ("60", None, "60", "1")


def test_a_disks_knob_is_of_the_disk_below_the_log(facts: Facts) -> None:
    (change,) = named("disk.scheduler=none", facts).changes
    assert (change.off_text, change.on) == ("mq-deadline", "none")
    assert change.shared == "changes sda while its trials run, which affects all its users"
    (mounted,) = named("mount.noatime", facts).changes
    assert mounted.shared == "remounts /data while its trials run, which affects everything stored there"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vm.swapiness", r"vm\.swapiness.*did you mean vm\.swappiness"),
        ("swap.devices", r"^swap\.devices cannot be proved: "),
        ("unit.limit_nofile", r"^unit\.limit_nofile cannot be proved: .*service unit"),
        ("vm.swappiness=", r"^vm\.swappiness=: names no value after the sign; write KNOB=ON or KNOB=OFF:ON$"),
        ("vm.swappiness=60:", r"names no value after the sign"),
        ("vm.swappiness=low", r"^vm\.swappiness: 'low' is not a"),
        ("vm.swappiness=1+vm.swappiness=10", r"names a knob twice$"),
        ("mount.data_writeback", r"^mount\.data_writeback cannot be proved: .*: --accept-risk mount\.data_writeback$"),
        ("nic.rps_cpus", r"^nic\.rps_cpus cannot be proved: the load runs over loopback"),
    ],
)
def test_what_cannot_be_proved_is_one_line(facts: Facts, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        named(text, facts)
    assert "\n" not in str(caught.value)


def test_a_knob_that_may_not_be_written_here(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^vm\.swappiness cannot be proved: .*read-only"):
        named("vm.swappiness", collect(make_host(tmp_path, read_only_proc_sys=True)))


def test_without_a_name_everything_that_differs_and_can_be_changed_is_meant(facts: Facts) -> None:
    subjects, others = whatever_differs(facts, HOST)
    names = {subject.name for subject in subjects}
    assert {"vm.swappiness", "vm.dirty_bytes"} <= names
    reasons = {item.knob_id: item.reason for item in others}
    assert not names & set(reasons)
    assert all(reasons.values())
