"""Values of frequencies, idle states, clocks and isolation; and the settings that newer kernels dropped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.catalogue import find_knob
from highwater.tuning.check import report_on
from highwater.tuning.facts.model import Choice, Facts
from highwater.tuning.formulas import processor
from highwater.tuning.formulas.targets import targets_of
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import NotApplicable, Target
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import write

WORKLOAD = Workload()


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return Facts(files=HostFiles(tmp_path))


def test_every_policy_is_set_those_of_hyper_threads_too(facts: Facts) -> None:
    choice = Choice("schedutil", ("performance", "schedutil"))
    host = replace(facts, cpu_governors={f"policy{number}": choice for number in range(8)})
    targets = targets_of("frequency policy", host, WORKLOAD)
    assert len(targets) == 8
    for target in targets:
        answer = processor.governor(host, WORKLOAD, target)
        assert isinstance(answer, Target)
        assert answer.value == "performance"


def test_a_governor_that_is_not_offered_is_not_asked_for(facts: Facts) -> None:
    host = replace(facts, cpu_governors={"policy0": Choice("userspace", ("userspace",))})
    answer = processor.governor(host, WORKLOAD, "policy0")
    assert answer == NotApplicable("policy0 offers only userspace")
    assert isinstance(processor.governor(facts, WORKLOAD, ""), NotApplicable)


def test_boost_is_on_for_production_and_a_switch_of_the_opposite_sense_is_not_written(
    tmp_path: Path, facts: Facts
) -> None:
    assert processor.boost(facts, WORKLOAD, "") == NotApplicable("this host has no switch for it")
    answer = processor.boost(replace(facts, boost=True), WORKLOAD, "")
    assert isinstance(answer, NotApplicable)
    assert "no_turbo, where 1 means off" in answer.reason
    write(tmp_path, "/sys/devices/system/cpu/cpufreq/boost", "0\n")
    report = report_on(find_knob("cpu.boost"), facts, WORKLOAD)
    assert (report.current, report.recommended, report.state) == (0, 1, "differs")


def _idle_state(root: Path, number: int, name: str, latency: str, disable: str = "0") -> None:
    base = f"/sys/devices/system/cpu/cpu0/cpuidle/state{number}"
    for file, text in {"name": name, "latency": latency, "disable": disable}.items():
        write(root, f"{base}/{file}", f"{text}\n")


def test_deep_idle_states_are_left_to_those_who_name_them(tmp_path: Path, facts: Facts) -> None:
    knob = find_knob("cpu.idle_states")
    assert knob.only_if_named
    assert knob.mechanism == "advice"
    assert isinstance(processor.idle_states(facts, WORKLOAD, ""), NotApplicable)
    _idle_state(tmp_path, 0, "POLL", "0")
    _idle_state(tmp_path, 1, "C1", "2")
    assert "takes 2 µs to leave" in report_on(knob, facts, WORKLOAD).note
    _idle_state(tmp_path, 2, "C6", "133")
    _idle_state(tmp_path, 3, "C10", "600", disable="1")
    _idle_state(tmp_path, 4, "C11", "what")
    report = report_on(knob, facts, WORKLOAD)
    assert (report.current, report.recommended, report.state) == (133, 3, "left_alone")
    assert report.current_text == "133 µs (C6)"


@pytest.mark.parametrize(
    ("current", "available", "state"),
    [
        ("tsc", ("tsc", "hpet", "acpi_pm"), "ok"),
        ("hpet", ("tsc", "hpet", "acpi_pm"), "differs"),
        ("kvm-clock", ("kvm-clock", "tsc", "acpi_pm"), "ok"),
        ("xen", ("xen", "tsc"), "differs"),
        ("hpet", ("hpet", "acpi_pm"), "not_applicable"),
        (None, (), "not_applicable"),
    ],
)
def test_a_clock_is_changed_only_for_one_that_is_read_faster(
    tmp_path: Path, facts: Facts, current: str | None, available: tuple[str, ...], state: str
) -> None:
    if current:
        write(tmp_path, "/sys/devices/system/clocksource/clocksource0/current_clocksource", f"{current}\n")
    host = replace(facts, clocksource=Choice(current, available))
    assert report_on(find_knob("clock.source"), host, WORKLOAD).state == state


def test_isolated_cpus_are_pointed_out_and_never_asked_for(tmp_path: Path, facts: Facts) -> None:
    assert isinstance(processor.isolation(facts, WORKLOAD, ""), NotApplicable)
    write(tmp_path, "/proc/cmdline", "root=/dev/sda1 ro quiet\n")
    assert report_on(find_knob("cpu.isolation"), facts, WORKLOAD).state == "ok"
    write(tmp_path, "/proc/cmdline", "ro isolcpus=2-3 quiet nohz_full=2-3\n")
    report = report_on(find_knob("cpu.isolation"), facts, WORKLOAD)
    assert (report.current, report.state) == ("isolcpus=2-3 nohz_full=2-3", "ok")
    assert "only programs that are bound to these CPUs" in report.note


@pytest.mark.parametrize(
    ("knob_id", "last", "first_without"),
    [
        ("net.ipv4.tcp_tw_recycle", (4, 11), (4, 12)),
        ("kernel.sched_min_granularity_ns", (5, 12), (5, 13)),
        ("kernel.sched_migration_cost_ns", (5, 12), (5, 13)),
        ("kernel.sched_wakeup_granularity_ns", (5, 12), (5, 13)),
    ],
)
def test_what_a_kernel_dropped_is_obsolete_from_that_release_on(
    facts: Facts, knob_id: str, last: tuple[int, int], first_without: tuple[int, int]
) -> None:
    knob = find_knob(knob_id)
    assert report_on(knob, replace(facts, kernel_version=last), WORKLOAD).state != "obsolete"
    report = report_on(knob, replace(facts, kernel_version=first_without), WORKLOAD)
    assert report.state == "obsolete"
    assert "remove it from sysctl files" in report.obsolete
