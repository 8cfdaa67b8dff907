"""Recommendations on hosts of several sizes, and what is said where something stands in the way."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from highwater.tuning.catalogue import find_knob
from highwater.tuning.check import KnobReport, evaluate
from highwater.tuning.facts import collect
from highwater.tuning.formulas.common import constant
from highwater.tuning.model import Knob, Lifetime, Observation
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import GIB, Disk, make_host, write

MIB = 2**20
ON_DATA = Workload(data_dirs=("/data",))


def _reports(tmp_path: Path, workload: Workload = ON_DATA, **host: Any) -> dict[str, KnobReport]:
    return {report.id: report for report in evaluate(collect(make_host(tmp_path, **host)), workload)}


@pytest.mark.parametrize(
    ("memory_bytes", "background_mib", "dirty_mib"),
    [
        # 400 MB/s is assumed for an SSD: 1.5 s are 572 MiB and 8 s are 3052 MiB.
        (8 * GIB, 369, 2949),  # bounded by 5 % and 40 % of the 7.2 GiB that are available, not of 8 GiB
        (64 * GIB, 572, 3052),
        (256 * GIB, 572, 3052),  # where 20 % would be 46 GiB
    ],
)
def test_dirty_limits_follow_the_disk_within_available_memory(
    tmp_path: Path, memory_bytes: int, background_mib: int, dirty_mib: int
) -> None:
    reports = _reports(tmp_path, memory_bytes=memory_bytes)
    assert reports["vm.dirty_background_bytes"].recommended == background_mib * MIB
    assert reports["vm.dirty_bytes"].recommended == dirty_mib * MIB
    assert reports["vm.dirty_bytes"].state == "differs"


def test_a_measured_rate_counts_once_per_disk_and_the_formula_says_so(tmp_path: Path) -> None:
    disks = (Disk("sda", "/d1", rotational=True), Disk("sdb", "/d2", rotational=True))
    workload = Workload(data_dirs=("/d1", "/d1/more", "/d2"), disk_write_bytes_per_s=100 * 10**6)
    report = _reports(tmp_path, workload, disks=disks)["vm.dirty_background_bytes"]
    assert report.recommended == 286 * MIB
    assert report.formula.startswith("1.5 s × 200 MB/s (given, 2 × 100 MB/s) = 286 MiB, between 64 MiB and 2.88 GiB")


def test_an_unknown_disk_is_assumed_slow_and_the_formula_says_so(tmp_path: Path) -> None:
    report = _reports(tmp_path, Workload(data_dirs=("/nowhere",)))["vm.dirty_bytes"]
    assert "150 MB/s (assumed: no local disk found)" in report.formula


def test_a_percentage_in_force_is_shown_and_judged_in_bytes(tmp_path: Path) -> None:
    sysctls = {"vm.dirty_background_ratio": "1"}
    report = _reports(tmp_path, sysctls=sysctls)["vm.dirty_background_bytes"]
    assert report.current_text == "1 % = 590 MiB"
    assert report.state == "ok", "590 MiB are as good as 572 MiB"


def test_bytes_in_force_hide_the_percentage(tmp_path: Path) -> None:
    sysctls = {"vm.dirty_bytes": str(200 * MIB), "vm.dirty_ratio": "0"}
    report = _reports(tmp_path, sysctls=sysctls)["vm.dirty_bytes"]
    assert (report.current, report.state) == (200 * MIB, "differs")


def test_a_higher_ceiling_is_never_lowered(tmp_path: Path) -> None:
    sysctls = {
        "net.ipv4.tcp_rmem": "4096 131072 33554432",
        "vm.max_map_count": "1048576",
        "net.core.somaxconn": "65535",
    }
    reports = _reports(tmp_path, kernel="6.18.0", sysctls=sysctls)
    for knob_id in sysctls:
        assert reports[knob_id].state == "ok"
        assert reports[knob_id].recommended == reports[knob_id].current
    assert reports["net.ipv4.tcp_rmem"].current == 33554432
    assert reports["fs.file-max"].recommended == 9223372036854775807


def test_buffers_grow_with_the_path_up_to_what_tcp_can_use(tmp_path: Path) -> None:
    far = Workload(data_dirs=("/data",), rtt_ms=100.0)
    reports = _reports(tmp_path / "far", far)
    assert reports["net.ipv4.tcp_wmem"].recommended == 250_000_000
    assert reports["net.ipv4.tcp_wmem"].formula == "max(current 4 MiB, 2 × 10 Gbit/s × 100 ms / 8 = 238 MiB)"
    moon = Workload(data_dirs=("/data",), rtt_ms=2560.0)
    assert _reports(tmp_path / "moon", moon)["net.ipv4.tcp_rmem"].recommended == 2**30


def test_file_limits_follow_partitions_and_nr_open_follows_them(tmp_path: Path) -> None:
    reports = _reports(tmp_path, Workload(data_dirs=("/data",), partitions=40_000, connections=10_000))
    assert reports["unit.limit_nofile"].recommended == 1_452_000
    assert reports["fs.nr_open"].recommended == 1_452_000
    assert reports["vm.max_map_count"].recommended == 1_200_000
    assert reports["unit.limit_nofile"].current_text == "1024 (default)"


def test_swappiness_of_zero_is_good_only_without_swap(tmp_path: Path) -> None:
    zero = {"vm.swappiness": "0"}
    assert _reports(tmp_path / "off", sysctls=zero)["vm.swappiness"].state == "ok"
    swapping = _reports(tmp_path / "on", sysctls=zero, swaps="/dev/zram0 partition 8388604 0 100\n")
    assert swapping["vm.swappiness"].state == "differs"
    assert swapping["swap.devices"].state == "differs"
    assert swapping["swap.devices"].current == "/dev/zram0 8 GiB"


@pytest.mark.parametrize(
    ("disk", "state", "recommended"),
    [
        (Disk("nvme0n1", "/data", schedulers="[none] mq-deadline"), "ok", "none"),
        (Disk("sda", "/data", schedulers="none [mq-deadline]"), "differs", "none"),
        (Disk("sda", "/data", rotational=True, schedulers="[none] mq-deadline"), "differs", "mq-deadline"),
        (Disk("sda", "/data", rotational=True, schedulers="[none]"), "not_applicable", None),
        (Disk("vda", "/data", rotational=True, schedulers="none [mq-deadline]"), "not_applicable", None),
    ],
)
def test_the_scheduler_follows_the_medium(tmp_path: Path, disk: Disk, state: str, recommended: str | None) -> None:
    report = _reports(tmp_path, disks=(disk,))["disk.scheduler"]
    assert (report.target, report.state, report.recommended) == (disk.name, state, recommended)
    assert bool(report.note) == (state == "not_applicable")


def test_noatime_is_judged_per_data_directory(tmp_path: Path) -> None:
    disks = (Disk("sda", "/d1", mount_options="rw,noatime"), Disk("sdb", "/d2", mount_options="rw"))
    facts = collect(make_host(tmp_path, disks=disks))
    reports = [r for r in evaluate(facts, Workload(data_dirs=("/d1/log", "/d2"))) if r.id == "mount.noatime"]
    assert [(r.target, r.current, r.state) for r in reports] == [
        ("/d1/log", "noatime", "ok"),
        ("/d2", "strictatime", "differs"),
    ]


def test_a_missing_key_says_why(tmp_path: Path) -> None:
    missing = {"vm.max_map_count": None, "net.core.rmem_max": None}
    reports = _reports(tmp_path, sysctls=missing, pid_namespace="pid:[4026532281]")
    assert reports["vm.max_map_count"].state == "unknown"
    assert reports["vm.max_map_count"].note == "/proc/sys/vm/max_map_count does not exist on kernel 6.1.0-18-amd64"
    assert reports["net.core.rmem_max"].note.endswith("not visible in this container's network namespace")


def test_read_only_settings_are_told_where_they_differ(tmp_path: Path) -> None:
    reports = _reports(tmp_path, read_only_proc_sys=True, pid_namespace="pid:[4026532281]")
    swappiness = reports["vm.swappiness"]
    assert "/proc/sys is mounted read-only in this container (unidentified)" in swappiness.note
    assert swappiness.ask == "vm.swappiness = 1 on the host below (in its /etc/sysctl.d)"
    assert reports["net.core.somaxconn"].note == ""
    assert reports["thp.enabled"].obstacle == ""


def test_nothing_at_all_is_known_of_an_empty_tree(tmp_path: Path) -> None:
    reports = evaluate(collect(tmp_path))
    assert {report.state for report in reports} == {"unknown", "not_applicable"}
    assert all(report.note for report in reports)


def test_reports_are_plain_data(tmp_path: Path) -> None:
    for report in _reports(tmp_path).values():
        tree = json.loads(json.dumps(report.as_json()))
        assert tree["id"] == report.id
        assert tree["sources"][0]["url"].startswith("https://")


def _trade(**changes: Any) -> Knob:
    """A knob on vm.swappiness that trades something away."""
    trade = {"recommend": constant(77, "77"), "comparison": "equal", "only_if_named": "nobody should want it"}
    return dataclasses.replace(find_knob("vm.swappiness"), **{**trade, **changes})


def test_a_trade_is_left_alone_until_it_is_named_and_told_when_it_is_in_force(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path / "off"))
    (report,) = evaluate(facts, ON_DATA, [_trade()])
    assert (report.state, report.trade_in_force, report.recommended) == ("left_alone", False, 77)
    assert report.note == "left alone unless it is named: nobody should want it"
    (report,) = evaluate(facts, ON_DATA, [_trade()], named=frozenset({"vm.swappiness"}))
    assert (report.state, report.trade_in_force) == ("differs", False)
    facts = collect(make_host(tmp_path / "on", sysctls={"vm.swappiness": "77"}))
    (report,) = evaluate(facts, ON_DATA, [_trade()])
    assert (report.state, report.trade_in_force) == ("left_alone", True)
    assert report.note == "in force here: nobody should want it"
    (report,) = evaluate(facts, ON_DATA, [_trade()], named=frozenset({"vm.swappiness"}))
    assert (report.state, report.trade_in_force) == ("ok", True)


@pytest.mark.parametrize(
    ("kernel", "lifetime", "state", "note"),
    [
        (
            "6.1.0",
            Lifetime(removed=(4, 12), text="use another"),
            "obsolete",
            "removed in Linux 4.12, and this is 6.1: use another",
        ),
        ("4.12.7", Lifetime(removed=(4, 12)), "obsolete", "removed in Linux 4.12, and this is 4.12"),
        ("4.11.0-el7", Lifetime(removed=(4, 12)), "differs", ""),
        ("4.4.0", Lifetime(since=(4, 10)), "not_applicable", "new in Linux 4.10, and this is 4.4"),
        ("4.10.0", Lifetime(since=(4, 10)), "differs", ""),
        (
            "mainline",
            Lifetime(removed=(4, 12)),
            "differs",
            "the kernel's version is not known, and it exists until Linux 4.12 only",
        ),
        (
            "mainline",
            Lifetime(since=(3, 1), removed=(4, 12)),
            "differs",
            "the kernel's version is not known, and it exists since Linux 3.1 until Linux 4.12 only",
        ),
    ],
)
def test_what_a_kernel_no_longer_or_not_yet_knows(
    tmp_path: Path, kernel: str, lifetime: Lifetime, state: str, note: str
) -> None:
    knob = dataclasses.replace(find_knob("vm.max_map_count"), lifetime=lifetime)
    (report,) = evaluate(collect(make_host(tmp_path, kernel=kernel)), ON_DATA, [knob])
    assert (report.state, report.note) == (state, note)
    assert report.obsolete == (note if state == "obsolete" else "")


def test_a_floor_is_never_raised(tmp_path: Path) -> None:
    knob = dataclasses.replace(find_knob("vm.swappiness"), recommend=constant(80, "80"), comparison="at_most")
    (report,) = evaluate(collect(make_host(tmp_path)), ON_DATA, [knob])
    assert (report.state, report.recommended, report.formula) == ("ok", 60, "min(current 60, 80)")


def test_a_knob_without_a_target_says_so(tmp_path: Path) -> None:
    reports = evaluate(collect(make_host(tmp_path)), Workload(data_dirs=("/proc/x",)), [find_knob("disk.scheduler")])
    assert [(report.target, report.state) for report in reports] == [("", "not_applicable")]
    assert reports[0].note == "no local disk is under the data directories"


def test_a_file_that_makes_it_worse_at_boot_is_named(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    write(
        root, "/etc/sysctl.d/99-site.conf", "# ours\nvm.swappiness = 30\nvm.dirty_ratio = 80\nvm.max_map_count=999999\n"
    )
    reports = {report.id: report for report in evaluate(collect(root), ON_DATA)}
    assert reports["vm.swappiness"].overridden_by.startswith("/etc/sysctl.d/99-site.conf:2 sets vm.swappiness = 30")
    assert reports["vm.dirty_bytes"].overridden_by.startswith("/etc/sysctl.d/99-site.conf:3 sets vm.dirty_ratio = 80")
    assert reports["vm.max_map_count"].overridden_by == ""


def test_a_value_in_words_equals_nothing_but_itself(tmp_path: Path) -> None:
    infinite = dataclasses.replace(
        find_knob("unit.limit_nofile"), observe=lambda _facts, _target: Observation("infinity", "infinity")
    )
    facts = collect(make_host(tmp_path))
    assert [report.current for report in evaluate(facts, ON_DATA, [infinite])] == ["infinity"]
