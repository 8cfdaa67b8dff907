"""Verification beyond the file: a setting whose file is right and whose effect is not has failed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.tuning import engine
from highwater.tuning.boot_files.systemd import drop_in
from highwater.tuning.catalogue import select_knobs
from highwater.tuning.effects import Effect, verify
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts, Systemd
from highwater.tuning.journal import Owner
from highwater.tuning.planning import make_plan
from highwater.tuning.planning.draft import PlanOptions
from highwater.tuning.runner import CapturedTreeRunner, Completed
from highwater.tuning.workload import Workload
from tests.tuning.fake_kernel import FakeKernel, FakeRunner
from tests.tuning.host_tree import Disk, add_interface, make_host, sysctl_path, write

UNIT = "highwater-broker@.service"
WORKLOAD = Workload(data_dirs=("/data",))
GROUP = "/sys/fs/cgroup/system.slice/system-highwater\\x2dbroker.slice/highwater-broker@1.service"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "var/lib").mkdir(parents=True)
    return make_host(tmp_path)


def rows(root: Path, *ids: str, facts: Facts | None = None) -> list[Effect]:
    return verify(facts or collect(root), WORKLOAD, select_knobs(ids), CapturedTreeRunner())


def row(root: Path, knob_id: str) -> Effect:
    (found,) = rows(root, knob_id)
    return found


def running_broker(root: Path, *, nofile: str = "1024", started_s: int = 1000) -> None:
    """Process 4711 of an instance of the unit, started at that second of a host that booted at second 0."""
    write(root, "/proc/stat", "cpu 0\nbtime 0\n")
    write(root, "/proc/4711/stat", f"4711 (broker) S {'0 ' * 18}{started_s * 100} 0\n")
    write(root, "/proc/4711/limits", f"Limit Soft Hard Units\nMax open files {nofile} 524288 files\n")
    write(root, "/proc/4711/oom_score_adj", "0\n")
    write(root, "/proc/4711/status", "Cpus_allowed_list:\t0-7\n")
    write(root, "/proc/4711/cgroup", f"0::{GROUP.removeprefix('/sys/fs/cgroup')}\n")
    write(root, f"{GROUP}/cgroup.procs", "4711\n")
    write(root, f"{GROUP}/pids.max", "max\n")
    write(root, f"{GROUP}/io.weight", "default 100\n")


def drop_in_of(root: Path, text: str, written_s: int) -> None:
    path = write(root, drop_in(UNIT), f"[Service]\n{text}\n")
    os.utime(path, (written_s, written_s))


def test_what_was_applied_is_in_effect(tmp_path: Path) -> None:
    make_host(tmp_path, disks=[Disk("sda", "/data")], swaps="/dev/sdb2 partition 1048576 0 -2\n")
    write(tmp_path, "/etc/fstab", "/dev/sda1 /data ext4 defaults 0 2\n/dev/sdb2 none swap sw 0 0\n")
    write(tmp_path, "/dev/sdb2", "")
    (tmp_path / "var/lib").mkdir(parents=True)
    kernel, ids = FakeKernel(tmp_path), ("vm.swappiness", "vm.max_map_count", "swap.devices", "mount.noatime")
    before = rows(tmp_path, *ids)
    assert [effect.state for effect in before] == ["failed"] * 4
    plan = make_plan(dataclasses.replace(collect(tmp_path), files=kernel), WORKLOAD, select_knobs(ids), PlanOptions())
    engine.apply(kernel, FakeRunner(kernel), plan, Owner("test", 1, "1"))
    after = {effect.parameter: effect for effect in rows(tmp_path, *ids)}
    assert {effect.state for effect in after.values()} == {"effective"}
    swappiness = after["vm.swappiness"]
    assert (swappiness.expected, swappiness.actual, swappiness.effective) == ("1", "1", "1")
    assert swappiness.at_boot.startswith("/etc/sysctl.d/90-highwater.conf:")
    assert after["swap.devices"].seen_by == "/proc/swaps"
    assert after["mount.noatime"].at_boot == "/etc/fstab mounts with defaults,noatime"


def test_a_later_file_that_undoes_it_at_boot_is_a_failure(root: Path) -> None:
    write(root, sysctl_path("vm.swappiness"), "1\n")
    assert row(root, "vm.swappiness").state == "effective", "no file says otherwise"
    write(root, "/etc/sysctl.d/90-highwater.conf", "vm.swappiness = 1\n")
    write(root, "/etc/sysctl.d/99-site.conf", "vm.swappiness = 60\n")
    effect = row(root, "vm.swappiness")
    assert (effect.state, effect.footnotes) == ("failed", ("undone at the next boot",))
    assert effect.at_boot.startswith("/etc/sysctl.d/99-site.conf:1 sets vm.swappiness = 60")


def test_a_line_of_fstab_that_undoes_it_at_boot_is_a_failure(tmp_path: Path) -> None:
    make_host(tmp_path, disks=[Disk("sda", "/data", mount_options="rw,noatime")])
    write(tmp_path, "/etc/fstab", "/dev/sda1 /data ext4 relatime 0 2\n")
    assert row(tmp_path, "mount.noatime").state == "failed"
    write(tmp_path, "/etc/fstab", "/dev/sda1 /data ext4 noatime 0 2\n")
    assert row(tmp_path, "mount.noatime").state == "effective"


def test_swap_that_comes_back_at_boot_is_a_failure(root: Path) -> None:
    assert row(root, "swap.devices").state == "effective"
    write(root, "/etc/fstab", "/dev/sdb2 none swap sw 0 0\n")
    effect = row(root, "swap.devices")
    assert (effect.state, effect.at_boot) == ("failed", "/etc/fstab turns /dev/sdb2 on")


def test_a_dirty_limit_that_the_kernel_does_not_go_by(root: Path) -> None:
    write(root, sysctl_path("vm.dirty_bytes"), "3200253952\n")
    write(root, sysctl_path("vm.dirty_ratio"), "0\n")
    write(root, "/proc/vmstat", f"nr_dirty 7\nnr_dirty_threshold {3200253952 // 4096}\n")
    effect = row(root, "vm.dirty_bytes")
    assert (effect.state, effect.seen_by) == ("effective", "/proc/vmstat nr_dirty_threshold")
    write(root, "/proc/vmstat", "nr_dirty_threshold 1000\n")
    effect = row(root, "vm.dirty_bytes")
    assert effect.state == "failed"
    assert effect.footnotes[0].startswith("the kernel uses 3.91 MiB and not the")


def test_an_interrupt_that_another_processor_takes_has_failed_although_its_file_is_right(root: Path) -> None:
    add_interface(root, "eth0", queues=8)
    for queue in range(8):
        write(root, f"/proc/irq/{100 + queue}/smp_affinity_list", f"{queue}\n")
        write(root, f"/proc/irq/{100 + queue}/effective_affinity_list", "7\n")
    found = {effect.target: effect for effect in rows(root, "irq.affinity")}
    assert {target for target, effect in found.items() if effect.state == "effective"} == {"107"}
    effect = found["100"]
    assert (effect.expected, effect.actual, effect.effective, effect.state) == ("0", "0", "7", "failed")
    assert effect.footnotes == ("processor 7 takes it, which smp_affinity_list does not name",)
    for queue in range(8):
        write(root, f"/proc/irq/{100 + queue}/effective_affinity_list", f"{queue}\n")
    assert {effect.state for effect in rows(root, "irq.affinity")} == {"effective"}


def test_a_unit_that_does_not_run_waits_for_its_start(root: Path) -> None:
    drop_in_of(root, "LimitNOFILE=100000:524288", 500)
    effect = row(root, "unit.limit_nofile")
    assert (effect.state, effect.effective) == ("pending", "not running")


def test_a_process_from_before_its_drop_in_has_to_be_started_again(root: Path) -> None:
    running_broker(root, started_s=1000)
    drop_in_of(root, "LimitNOFILE=100000:524288", 2000)
    effect = row(root, "unit.limit_nofile")
    assert (effect.state, effect.seen_by) == ("pending", "/proc/4711/limits")
    assert effect.effective == "1024:524288 in highwater-broker@1.service"


def test_a_process_that_does_not_have_what_its_drop_in_says_has_failed(root: Path) -> None:
    running_broker(root, started_s=3000)
    drop_in_of(root, "LimitNOFILE=100000:524288", 2000)
    assert row(root, "unit.limit_nofile").state == "failed"
    running_broker(root, started_s=3000, nofile="100000")
    assert row(root, "unit.limit_nofile").state == "effective"


def test_what_a_control_group_has_counts(root: Path) -> None:
    running_broker(root, started_s=3000)
    drop_in_of(root, "IOWeight=500\nOOMScoreAdjust=-900", 2000)
    weight, score = row(root, "unit.io_weight"), row(root, "unit.oom_score_adjust")
    assert (weight.state, weight.effective) == ("failed", "100 in highwater-broker@1.service")
    assert (score.state, score.seen_by) == ("failed", "/proc/4711/oom_score_adj")
    write(root, f"{GROUP}/io.weight", "default 500\n")
    write(root, "/proc/4711/oom_score_adj", "-900\n")
    assert {row(root, "unit.io_weight").state, row(root, "unit.oom_score_adjust").state} == {"effective"}


def test_a_unit_with_its_own_mount_namespace_keeps_its_old_options(tmp_path: Path) -> None:
    root = make_host(tmp_path, disks=[Disk("sda", "/data", mount_options="rw,noatime")])
    running_broker(root)
    write(root, "/proc/4711/mountinfo", "10 1 8:1 / /data rw,relatime - ext4 /dev/sda1 rw\n")
    effect = row(root, "mount.noatime")
    assert (effect.state, effect.seen_by) == ("pending", "/proc/4711/mountinfo")
    write(root, "/proc/4711/mountinfo", "10 1 8:1 / /data rw,noatime - ext4 /dev/sda1 rw\n")
    assert row(root, "mount.noatime").state == "effective"


class SystemdRunner:
    """A systemd that has not read its files again."""

    absent = ""

    def __init__(self) -> None:
        self.commands: list[Sequence[str]] = []

    def run(self, argv: Sequence[str]) -> Completed:
        self.commands.append(argv)
        return Completed(0, "NeedDaemonReload=yes\n")


def test_systemd_that_has_not_read_the_drop_in_is_told_of(root: Path) -> None:
    running_broker(root)
    drop_in_of(root, "LimitNOFILE=100000:524288", 2000)
    facts, runner = dataclasses.replace(collect(root), systemd=Systemd(True, 252)), SystemdRunner()
    (effect,) = verify(facts, WORKLOAD, select_knobs(["unit.limit_nofile"]), runner)
    assert (effect.state, "daemon-reload" in effect.footnotes[0]) == ("pending", True)
    assert runner.commands == [("systemctl", "show", "--property=NeedDaemonReload", "highwater-broker@1.service")]


def test_the_page_caches_own_figure_counts_for_read_ahead(tmp_path: Path) -> None:
    root = make_host(tmp_path, disks=[Disk("sda", "/data", rotational=True)])
    write(root, "/sys/block/sda/queue/read_ahead_kb", "4096\n")
    write(root, "/sys/class/bdi/8:0/read_ahead_kb", "128\n")
    effect = row(root, "disk.read_ahead_kb")
    assert (effect.state, effect.effective) == ("failed", "128 KiB")
    write(root, "/sys/class/bdi/8:0/read_ahead_kb", "4096\n")
    assert row(root, "disk.read_ahead_kb").state == "effective"


def test_a_login_is_seen_in_this_session_or_waits_for_the_next(root: Path) -> None:
    unasked = row(root, "login.nofile")
    assert unasked.state == "not_applicable", "apply does not give it to logins either, unless it is told whose"
    assert unasked.footnotes == ("not requested: apply --login WHO gives it to logins",)
    write(root, "/etc/security/limits.d/90-highwater.conf", "* soft nofile 100000\n* hard nofile 524288\n")
    assert row(root, "login.nofile").state == "pending"
    write(root, "/etc/security/limits.d/95-site.conf", "* soft nofile 1024\n")
    effect = row(root, "login.nofile")
    assert (effect.state, effect.at_boot) == (
        "failed",
        "* 1024:524288 by /etc/security/limits.d/95-site.conf",
    )


def test_advice_and_trades_that_nobody_accepted_are_no_failures(root: Path) -> None:
    write(root, "/sys/block/sda/queue/write_cache", "write through\n")
    found = rows(root, "disk.write_cache", "mount.data_writeback", "mount.nobh")
    assert {effect.state for effect in found} <= {"not_applicable", "effective"}


def test_nothing_is_written(root: Path) -> None:
    kernel = FakeKernel(root)
    verify(dataclasses.replace(collect(root), files=kernel), WORKLOAD, select_knobs(["all"]), CapturedTreeRunner())
    assert kernel.operations == []


def test_a_row_is_plain_data(root: Path) -> None:
    document = row(root, "vm.swappiness").as_json()
    assert document["parameter"] == "vm.swappiness"
    assert set(document) == {field.name for field in dataclasses.fields(Effect)}


def test_where_it_was_seen_names_the_target(root: Path) -> None:
    for knob_id in ("unit.oom_score_adjust", "disk.write_cache"):
        assert all("{target}" not in row.seen_by for row in rows(root, knob_id))
