"""Plans: nothing is written by making one, what is good stays, and the plan after an apply is empty."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from highwater.tuning import engine
from highwater.tuning.boot_files import fstab, limits_d, swap, sysctl_d, tmpfiles, udev
from highwater.tuning.boot_files.systemd import drop_in
from highwater.tuning.catalogue import KNOBS, find_knob, select_knobs
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts, Systemd
from highwater.tuning.formulas.common import constant
from highwater.tuning.journal import Owner
from highwater.tuning.model import Knob
from highwater.tuning.planning import make_plan
from highwater.tuning.planning.draft import PlanOptions
from highwater.tuning.steps import CommandStep, FileStep, RemountStep, SettingStep, SwapOffStep, TuningPlan, conflicts
from highwater.tuning.workload import Workload
from tests.tuning.fake_kernel import FakeKernel, FakeRunner, whole_tree
from tests.tuning.host_tree import Disk, add_interface, make_big_host, make_host, read_sysctl, sysctl_path, write

UNIT = "highwater-broker@.service"
OWNER = Owner("highwater tune apply", 999999, "12345")
FSTAB = (
    "# local disks\nUUID=1  /  ext4\tdefaults 0 1\n"
    "/dev/sda1 /data ext4 defaults,nofail 0 2\n/dev/sdb2 none swap sw 0 0\n"
)


def facts_of(kernel: FakeKernel, *, systemd: bool = False) -> Facts:
    facts = dataclasses.replace(collect(kernel.root), files=kernel)
    return dataclasses.replace(facts, systemd=Systemd(systemd, 252)) if systemd else facts


def knobs_of(*ids: str) -> tuple[Knob, ...]:
    return select_knobs(ids or ["all"])


def plan_of(
    kernel: FakeKernel, *ids: str, options: PlanOptions | None = None, systemd: bool = False, **workload: Any
) -> TuningPlan:
    options = dataclasses.replace(options or PlanOptions(), original_texts=engine.original_texts(kernel))
    workload.setdefault("data_dirs", ("/data",))
    return make_plan(facts_of(kernel, systemd=systemd), Workload(**workload), knobs_of(*ids), options)


def run(
    kernel: FakeKernel, *ids: str, options: PlanOptions | None = None, systemd: bool = False, **workload: Any
) -> TuningPlan:
    plan = plan_of(kernel, *ids, options=options, systemd=systemd, **workload)
    assert list(conflicts(plan.steps)) == []
    engine.apply(kernel, FakeRunner(kernel), plan, OWNER)
    return plan


def settings(plan: TuningPlan) -> dict[str, str]:
    return {
        step.knob_id + (f" {step.target}" if step.target else ""): step.after
        for step in plan.steps
        if isinstance(step, SettingStep)
    }


def files(plan: TuningPlan) -> dict[str, str | None]:
    return {step.path: step.after for step in plan.steps if isinstance(step, FileStep)}


def text_of(root: Path, path: str) -> str:
    return (root / path.lstrip("/")).read_text()


def full_host(root: Path) -> FakeKernel:
    """A host with something to do for every mechanism."""
    make_host(
        root,
        disks=[Disk("sda", "/data", rotational=True, schedulers="none mq-deadline [bfq]")],
        swaps="/dev/sdb2 partition 1048576 0 -2\n",
    )
    write(root, "/etc/fstab", FSTAB)
    write(root, "/dev/sdb2", "")
    write(root, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    write(root, "/sys/kernel/mm/ksm/run", "1\n")
    write(root, "/sys/block/sda/queue/nomerges", "2\n")
    add_interface(root, "eth0", queues=2)
    (root / "var/lib").mkdir(parents=True)
    return FakeKernel(root)


EVERYTHING = PlanOptions(login_domains=("*", "root"))


def test_making_a_plan_writes_nothing(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    before = whole_tree(tmp_path)
    assert plan_of(kernel, options=EVERYTHING).changes_anything
    assert whole_tree(tmp_path) == before


def test_the_plan_after_an_apply_is_empty_and_a_rollback_leaves_nothing_of_ours(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    before = whole_tree(tmp_path)
    plan = run(kernel, options=EVERYTHING, systemd=True)
    kinds = {type(step) for step in plan.steps}
    assert kinds == {SettingStep, RemountStep, SwapOffStep, FileStep, CommandStep}
    assert set(files(plan)) == {
        sysctl_d.MANAGED_FILE,
        udev.MANAGED_FILE,
        tmpfiles.MANAGED_FILE,
        limits_d.MANAGED_FILE,
        fstab.PATH,
        drop_in(UNIT),
    }
    again = plan_of(kernel, options=EVERYTHING, systemd=True)
    assert [step.describe() for step in again.steps] == []
    rolled_back = engine.rollback(kernel, FakeRunner(kernel))
    assert rolled_back.problems == ()
    assert whole_tree(tmp_path) == before


def test_steps_are_in_the_order_in_which_they_have_to_be_made(tmp_path: Path) -> None:
    plan = plan_of(full_host(tmp_path), options=EVERYTHING, systemd=True)
    order = [SettingStep, RemountStep, SwapOffStep, FileStep, CommandStep]
    ranks = [order.index(type(step)) for step in plan.steps]
    assert ranks == sorted(ranks)
    commands = [step.argv for step in plan.steps if isinstance(step, CommandStep)]
    assert commands == [("systemctl", "daemon-reload"), ("udevadm", "control", "--reload")]


def test_without_a_running_systemd_nothing_is_reloaded(tmp_path: Path) -> None:
    plan = plan_of(full_host(tmp_path), options=EVERYTHING)
    assert not [step for step in plan.steps if isinstance(step, CommandStep)]


def test_what_is_good_at_boot_gets_no_line(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path, sysctls={"net.ipv4.tcp_rmem": "4096 131072 33554432"}))
    text = files(plan_of(kernel))[sysctl_d.MANAGED_FILE] or ""
    assert "tcp_rmem" not in text, "a line would pin today's default and lower tomorrow's"
    assert "\nvm.swappiness = 1\n" in text


def test_what_another_file_sets_well_needs_no_line_and_what_is_well_by_accident_does(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    write(tmp_path, "/etc/sysctl.d/10-site.conf", "vm.swappiness = 1\n")
    plan = run(kernel, "vm.swappiness")
    assert (settings(plan), files(plan)) == ({"vm.swappiness": "1"}, {})
    write(tmp_path, "/etc/sysctl.d/10-site.conf", "vm.swappiness = 60\n")
    assert list(files(plan_of(kernel, "vm.swappiness"))) == [sysctl_d.MANAGED_FILE], "the next boot would undo it"


def test_numbers_that_the_knob_does_not_govern_stay(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    plan = run(kernel, "net.ipv4.tcp_rmem", rtt_ms=10.0)
    assert settings(plan) == {"net.ipv4.tcp_rmem": "4096 131072 25000000"}
    assert "\nnet.ipv4.tcp_rmem = 4096 131072 25000000\n" in text_of(tmp_path, sysctl_d.MANAGED_FILE)


def test_after_our_file_went_it_is_put_back(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    (tmp_path / "var/lib").mkdir(parents=True)
    run(kernel, "vm.swappiness")
    (tmp_path / sysctl_d.MANAGED_FILE[1:]).unlink()
    plan = plan_of(kernel, "vm.swappiness")
    assert settings(plan) == {}, "the running kernel is still right"
    assert list(files(plan)) == [sysctl_d.MANAGED_FILE]


def test_drift_of_the_running_kernel_is_put_right(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    run(kernel, "vm.swappiness")
    write(tmp_path, sysctl_path("vm.swappiness"), "30\n")
    plan = plan_of(kernel, "vm.swappiness")
    assert (settings(plan), files(plan)) == ({"vm.swappiness": "1"}, {})


def test_fewer_knobs_leave_the_others_as_they_are(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    run(kernel, options=EVERYTHING)
    assert not plan_of(kernel, "vm.swappiness", "thp.enabled").changes_anything


def test_lines_of_others_in_our_file_stay_but_a_percentage_does_not_undo_bytes(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    write(tmp_path, sysctl_d.MANAGED_FILE, "kernel.panic = 10\nvm.dirty_ratio = 80\nvm/swappiness = 60\n")
    run(kernel, "vm.swappiness", "vm.dirty_bytes")
    text = text_of(tmp_path, sysctl_d.MANAGED_FILE)
    assert "\nkernel.panic = 10\n" in text
    assert "dirty_ratio" not in text
    assert "\nvm.swappiness = 1\n" in text
    with_both = f"{text}vm.dirty_ratio = 80\n"
    write(tmp_path, sysctl_d.MANAGED_FILE, with_both)
    assert "dirty_ratio" not in (files(plan_of(kernel, "vm.dirty_bytes"))[sysctl_d.MANAGED_FILE] or "")


def test_without_keeping_no_file_changes(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    plan = plan_of(kernel, options=dataclasses.replace(EVERYTHING, persist=False))
    assert files(plan) == {}
    assert "vm.swappiness" in settings(plan)


def test_a_later_file_that_undoes_ours_is_a_warning_that_names_its_line(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    write(tmp_path, "/usr/lib/systemd/systemd-sysctl", "")
    write(tmp_path, "/usr/lib/sysctl.d/99-vendor.conf", "vm.swappiness = 10\n")
    write(tmp_path, "/etc/sysctl.d/99-vendor.conf", "# hides the vendor's file\nvm.dirty_ratio = 80\n")
    write(tmp_path, "/etc/sysctl.d/10-early.conf", "vm.swappiness = 99\n")
    write(tmp_path, "/etc/sysctl.conf", "net.core.somaxconn=128\nnet.core.rmem_max = 524288000\n")
    (tmp_path / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    warnings = plan_of(kernel, "vm.swappiness", "vm.dirty_bytes", "net.core.somaxconn", "net.core.rmem_max").warnings
    assert sorted(warning.partition(" (")[0] for warning in warnings) == [
        "/etc/sysctl.d/99-sysctl.conf:1 sets net.core.somaxconn = 128",
        "/etc/sysctl.d/99-vendor.conf:2 sets vm.dirty_ratio = 80",
    ]


def test_tuned_is_named_where_it_undoes_a_setting_of_sys(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    write(tmp_path, "/etc/systemd/system/multi-user.target.wants/tuned.service", "")
    write(tmp_path, "/etc/tuned/active_profile", "mine\n")
    write(tmp_path, "/etc/tuned/mine/tuned.conf", "[vm]\ntransparent_hugepages=always\n")
    (warning,) = plan_of(kernel, "thp.enabled").warnings
    assert warning == (
        "/etc/tuned/mine/tuned.conf:2: TuneD's profile mine sets transparent_hugepages = always whenever it starts, "
        "which undoes thp.enabled"
    )


def test_rules_and_lines_of_others_that_undo_a_setting_of_sys_are_named(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    rule = 'SUBSYSTEM=="block", ATTR{queue/nomerges}="2", ATTR{queue/rotational}=="1"\n'
    write(tmp_path, "/usr/lib/udev/rules.d/60-early.rules", rule)
    write(tmp_path, "/usr/lib/tmpfiles.d/thp.conf", "w /sys/kernel/mm/transparent_hugepage/enabled - - - - always\n")
    assert plan_of(kernel, "disk.nomerges").warnings == (), "ours comes later"
    write(tmp_path, "/usr/lib/udev/rules.d/99-site.rules", f"# a word\n{rule}")
    of_huge_pages, of_disk = plan_of(kernel, "disk.nomerges", "thp.enabled").warnings
    assert of_huge_pages.startswith("/usr/lib/tmpfiles.d/thp.conf writes always for thp.enabled at boot as well")
    assert of_disk.startswith("/usr/lib/udev/rules.d/99-site.rules:2 sets queue/nomerges = 2 after /etc/udev/rules.d/")


def test_a_profiles_own_value_comes_as_a_knob_with_another_formula(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    knob = dataclasses.replace(find_knob("vm.swappiness"), recommend=constant(30, "the profile says so"))
    plan = make_plan(facts_of(kernel), Workload(), [knob])
    assert settings(plan) == {"vm.swappiness": "30"}
    assert "vm.swappiness = 30\n" in (files(plan)[sysctl_d.MANAGED_FILE] or "")


def test_devices_are_kept_by_udev_and_the_host_by_tmpfiles(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    write(tmp_path, "/run/udev/data/b8:0", "E:ID_SERIAL=Disk_S3NA0K\n")
    plan = plan_of(kernel, "disk.nomerges", "thp.enabled")
    assert files(plan)[udev.MANAGED_FILE] is not None
    assert 'ENV{ID_SERIAL}=="Disk_S3NA0K", ATTR{queue/nomerges}="0"\n' in (files(plan)[udev.MANAGED_FILE] or "")
    assert (files(plan)[tmpfiles.MANAGED_FILE] or "").endswith(
        "\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"
    )


def test_two_paths_to_one_disk_are_told_apart(tmp_path: Path) -> None:
    disks = [Disk("sda", "/data"), Disk("sdb", "/data2")]
    kernel = FakeKernel(make_host(tmp_path, disks=disks))
    for number, name in enumerate("ab"):
        write(tmp_path, f"/sys/block/sd{name}/queue/nomerges", "2\n")
        udev_data = f"E:ID_SERIAL=Disk_1\nE:ID_PATH=pci-{number}\n"
        write(tmp_path, f"/run/udev/data/b8:{16 * number}", udev_data)
    text = files(plan_of(kernel, "disk.nomerges", data_dirs=("/data", "/data2")))[udev.MANAGED_FILE] or ""
    assert "ID_SERIAL" not in text
    assert 'ENV{ID_PATH}=="pci-0", ' in text
    assert 'ENV{ID_PATH}=="pci-1", ' in text


def test_a_named_knob_that_cannot_be_set_stops_everything_and_another_is_left_out(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path, sysctls={"vm.max_map_count": None}, read_only_proc_sys=True))
    named = PlanOptions(named=frozenset({"vm.swappiness", "vm.max_map_count"}))
    with pytest.raises(TuningError) as caught:
        plan_of(kernel, "vm.swappiness", "vm.max_map_count", options=named)
    assert "vm.max_map_count: " in str(caught.value)
    assert "vm.swappiness cannot be changed here: " in str(caught.value)
    assert "\n" not in str(caught.value)
    plan = plan_of(kernel, "vm.swappiness")
    assert plan.steps == ()
    assert plan.warnings[0].startswith("left as it is: vm.swappiness cannot be changed here")


def test_advice_is_never_carried_out(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    advice = [knob for knob in KNOBS if knob.mechanism == "advice"]
    assert make_plan(facts_of(kernel), Workload(data_dirs=("/data",)), advice).steps == ()
    named = PlanOptions(named=frozenset({"disk.write_cache"}))
    with pytest.raises(TuningError, match=r"disk\.write_cache.* never changed by this program"):
        plan_of(kernel, "disk.write_cache", options=named)


def test_trades_of_durability_are_made_only_for_those_who_accept_them(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    assert not plan_of(kernel, "mount.commit", "mount.data_writeback").changes_anything
    accepted = PlanOptions(accepted=frozenset({"mount.commit", "mount.data_writeback"}))
    plan = plan_of(kernel, "mount.commit", "mount.data_writeback", options=accepted)
    (remount,) = [step for step in plan.steps if isinstance(step, RemountStep)]
    assert set(remount.after_options) - set(remount.before_options) == {"commit=30"}
    assert "/data ext4 defaults,nofail,data=writeback,commit=30 0 2" in (files(plan)[fstab.PATH] or "").replace(
        "commit=30,data=writeback", "data=writeback,commit=30"
    )
    assert plan.pending == ("data=writeback on /data: when it is next mounted",), "ext4 refuses it in a remount"


def test_a_mount_is_changed_now_and_in_its_line_of_fstab(tmp_path: Path) -> None:
    plan = plan_of(full_host(tmp_path), "mount.noatime")
    (remount,) = [step for step in plan.steps if isinstance(step, RemountStep)]
    assert (remount.mount_point, remount.before_options, remount.after_options) == (
        "/data",
        ("rw", "relatime"),
        ("rw", "noatime"),
    )
    assert files(plan) == {fstab.PATH: FSTAB.replace("defaults,nofail", "defaults,nofail,noatime")}


def test_a_remark_in_another_encoding_stays_byte_for_byte(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    place = kernel.locate(fstab.PATH)
    text = b"# caf\xe9\n" + FSTAB.encode()
    place.write_bytes(text)
    run(kernel, "mount.noatime")
    assert place.read_bytes() == text.replace(b"defaults,nofail", b"defaults,nofail,noatime")
    assert engine.rollback(kernel, FakeRunner(kernel)).problems == ()
    assert place.read_bytes() == text


def test_options_of_a_file_system_are_kept_where_it_is_mounted_and_flags_with_each_mount(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path, disks=[Disk("sda", "/big")]))
    table = kernel.locate("/proc/self/mountinfo")
    table.write_text(table.read_text() + "51 10 8:1 /kafka /data ro,relatime - ext4 /dev/sda1 rw\n")
    before = table.read_text()
    write(tmp_path, fstab.PATH, "UUID=1 /big ext4 defaults 0 2\n/big/kafka /data none bind,ro 0 0\n")
    accepted = PlanOptions(accepted=frozenset({"mount.commit"}))
    plan = plan_of(kernel, "mount.noatime", "mount.commit", options=accepted)
    assert files(plan)[fstab.PATH] == (
        "UUID=1 /big ext4 defaults,commit=30 0 2\n/big/kafka /data none bind,ro,noatime 0 0\n"
    )
    engine.apply(kernel, FakeRunner(kernel), plan, OWNER)
    assert table.read_text() == before.replace("ro,relatime", "ro,noatime").replace("sda1 rw", "sda1 rw,commit=30")
    assert not plan_of(kernel, "mount.noatime", "mount.commit", options=accepted).changes_anything
    assert engine.rollback(kernel, FakeRunner(kernel)).problems == ()
    assert table.read_text() == before


@pytest.mark.parametrize(
    ("kind", "edited"),
    [("ext4", True), ("auto", True), ("xfs,ext4", True), ("xfs", False), ("overlay", False), ("none", False)],
)
def test_a_line_of_another_file_system_than_the_one_that_is_mounted_stays(
    tmp_path: Path, kind: str, edited: bool
) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    write(tmp_path, fstab.PATH, f"source /data {kind} defaults 0 2\n")
    plan = plan_of(kernel, "mount.noatime")
    assert bool(files(plan)) == edited
    assert len(plan.warnings) == (not edited)


def test_a_mount_unit_gets_a_drop_in_and_a_mount_of_nobody_a_warning(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    (warning,) = plan_of(kernel, "mount.noatime").warnings
    assert warning.startswith(
        "neither /etc/fstab nor a mount unit mounts /data: noatime lasts until it is next mounted;"
    )
    write(tmp_path, "/etc/systemd/system/data.mount", "[Mount]\nWhat=/dev/sda1\nWhere=/data\nOptions=nodev,relatime\n")
    plan = run(kernel, "mount.noatime")
    assert (files(plan)[drop_in("data.mount")] or "").endswith("[Mount]\nOptions=nodev,noatime\n")
    assert not plan_of(kernel, "mount.noatime").changes_anything


def test_fstab_is_put_right_where_only_the_running_mount_is(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path, disks=[Disk("sda", "/data", mount_options="rw,noatime")]))
    write(tmp_path, "/etc/fstab", FSTAB)
    plan = plan_of(kernel, "mount.noatime")
    assert list(files(plan)) == [fstab.PATH]
    assert len(plan.steps) == 1


def test_swap_goes_in_all_its_forms(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    write(tmp_path, "/usr/lib/systemd/system/swapfile.swap", "[Swap]\nWhat=/swapfile\n")
    write(tmp_path, "/usr/lib/systemd/zram-generator.conf", "[zram0]\nzram-size = ram / 2\n")
    write(tmp_path, "/etc/dphys-swapfile", "CONF_SWAPSIZE=100\n")
    before = whole_tree(tmp_path)
    plan = run(kernel, "swap.devices", systemd=True)
    assert [step.device for step in plan.steps if isinstance(step, SwapOffStep)] == ["/dev/sdb2"]
    assert files(plan) == {
        fstab.PATH: FSTAB.replace("/dev/sdb2", f"{fstab.MARK}/dev/sdb2"),
        "/etc/systemd/system/swapfile.swap": "",
        swap.ZRAM_FILE: swap.without_zram(None, ["zram0"]),
        "/etc/systemd/system/dphys-swapfile.service": "",
    }
    assert plan_of(kernel, "swap.devices").steps == ()
    assert engine.rollback(kernel, FakeRunner(kernel)).problems == ()
    assert whole_tree(tmp_path) == before


def test_swap_that_no_file_names_is_masked_where_systemd_found_it(tmp_path: Path) -> None:
    kernel = FakeKernel(
        make_host(tmp_path, swaps="/dev/sdb3 partition 1048576 0 -2\n/dev/zram0 partition 1048576 0 100\n")
    )
    write(tmp_path, "/usr/lib/systemd/system/zramswap.service", "[Service]\n")
    plan = plan_of(kernel, "swap.devices", systemd=True)
    assert set(files(plan)) == {"/etc/systemd/system/dev-sdb3.swap", "/etc/systemd/system/zramswap.service"}
    without = plan_of(kernel, "swap.devices")
    assert without.warnings == (
        "no file was found that turns /dev/sdb3 on at boot: check after the next boot whether it is off",
    )


def test_swap_that_has_to_stay_is_kept_from_the_units(tmp_path: Path) -> None:
    kernel = full_host(tmp_path)
    write(tmp_path, "/sys/fs/cgroup/cgroup.controllers", "memory\n")
    plan = plan_of(kernel, "swap.devices", "unit.memory_swap_max", options=PlanOptions(keep_swap=True))
    assert not [step for step in plan.steps if isinstance(step, SwapOffStep)]
    assert "\nMemorySwapMax=0\n" in (files(plan)[drop_in(UNIT)] or "")
    off = plan_of(kernel, "swap.devices", "unit.memory_swap_max")
    assert drop_in(UNIT) not in files(off)


def test_a_units_settings_are_one_drop_in_that_waits_for_a_restart(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    plan = run(kernel, "unit.limit_nofile", "unit.oom_score_adjust")
    text = files(plan)[drop_in(UNIT)] or ""
    assert "[Service]\nLimitNOFILE=100000:524288\nOOMScoreAdjust=-900\n" in text
    assert f"LimitNOFILE=100000:524288 of {UNIT}: when it is next started" in plan.pending
    write(tmp_path, drop_in(UNIT), text.replace("100000:524288", "600000"))
    assert not plan_of(kernel, "unit.limit_nofile").changes_anything, "a higher limit stays"
    write(tmp_path, f"/etc/systemd/system/{UNIT}.d/99-site.conf", "[Service]\nLimitNOFILE=4096\n")
    write(tmp_path, drop_in(UNIT), text)
    assert plan_of(kernel, "unit.limit_nofile").warnings == (
        f"/etc/systemd/system/{UNIT}.d/99-site.conf sets LimitNOFILE after {drop_in(UNIT)}: it wins; remove that line",
    )


def test_a_unit_that_is_not_here_is_said_to_be_so(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    assert plan_of(kernel, "unit.limit_nofile").warnings == (
        (
            f"{UNIT} is not installed; its drop-in takes effect once it is: "
            "name the broker's unit (--unit) if it has another name"
        ),
    )
    write(tmp_path, f"/etc/systemd/system/{UNIT}", "[Service]\n")
    assert plan_of(kernel, "unit.limit_nofile").warnings == ()


def test_a_limit_above_nr_open_is_refused_since_nothing_would_start(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    many: dict[str, Any] = {"partitions": 40_000, "connections": 10_000}
    named = PlanOptions(named=frozenset({"unit.limit_nofile"}))
    with pytest.raises(TuningError, match=r"unit\.limit_nofile 1452000 is more than fs\.nr_open 1048576 allows"):
        plan_of(kernel, "unit.limit_nofile", options=named, **many)
    assert "more than fs.nr_open" in plan_of(kernel, "unit.limit_nofile", **many).warnings[0]
    plan = run(kernel, "fs.nr_open", "unit.limit_nofile", **many)
    assert read_sysctl(tmp_path, "fs.nr_open") == "1452000"
    assert "LimitNOFILE=1452000:1452000\n" in (files(plan)[drop_in(UNIT)] or "")


def test_logins_get_limits_that_take_nothing_away(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path, nofile=(1024, 1048576)))
    plan = run(kernel, "login.nofile", options=EVERYTHING)
    assert "* soft nofile 100000\n* hard nofile 1048576\nroot soft nofile 100000\n" in (
        files(plan)[limits_d.MANAGED_FILE] or ""
    )
    assert not plan_of(kernel, "login.nofile", options=EVERYTHING).changes_anything
    with pytest.raises(TuningError, match=r"login\.nofile: name the logins it is for"):
        plan_of(kernel, "login.nofile", options=PlanOptions(named=frozenset({"login.nofile"})))
    with pytest.raises(TuningError, match="is not a user, @group"):
        plan_of(kernel, "login.nofile", options=PlanOptions(login_domains=("x\ny",)))


def test_a_hard_limit_stays_within_what_the_host_can_grant(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path, nofile=(1024, 200000), capabilities="000001fffeffffff"))
    plan = plan_of(kernel, "unit.limit_nofile")
    assert "LimitNOFILE=100000:200000\n" in (files(plan)[drop_in(UNIT)] or "")


def test_a_file_that_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    kernel = FakeKernel(make_host(tmp_path))
    (tmp_path / sysctl_d.MANAGED_FILE[1:]).mkdir()
    with pytest.raises(TuningError, match=r"90-highwater\.conf cannot be read"):
        plan_of(kernel, "vm.swappiness")


def test_a_host_with_many_disks_and_queues_is_planned_once_and_for_all(tmp_path: Path) -> None:
    kernel = FakeKernel(make_big_host(tmp_path, disks=12, queues=8, cpus=16))
    (tmp_path / "var/lib").mkdir(parents=True)
    directories = tuple(f"/data/{number}" for number in range(12))
    plan = run(kernel, data_dirs=directories)
    assert len({step.resource for step in plan.steps if not isinstance(step, CommandStep)}) == len(plan.steps)
    assert [step.describe() for step in plan_of(kernel, data_dirs=directories).steps] == []
