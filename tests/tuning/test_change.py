"""Changing a host: the plan, the record, the write that is read back, and the second run that does nothing."""

from __future__ import annotations

import dataclasses
import errno
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.tuning.host_tree import make_host, read_sysctl, snapshot, sysctl_path, write
from tuning.change import Plan, apply_plan, changeable_knobs, make_plan
from tuning.errors import TuningError
from tuning.facts import collect
from tuning.hostfiles import HostFiles
from tuning.model import Knob
from tuning.record import DEFAULT_PATH, Record
from tuning.workload import Workload

MANAGED = "/etc/sysctl.d/90-highwater.conf"
DROP_IN = "/etc/systemd/system/highwater-broker@.service.d/90-highwater-limits.conf"
LIMITS = "/etc/security/limits.d/90-highwater.conf"
TWINS = {
    "/proc/sys/vm/dirty_bytes": "/proc/sys/vm/dirty_ratio",
    "/proc/sys/vm/dirty_background_bytes": "/proc/sys/vm/dirty_background_ratio",
}


class Kernel(HostFiles):
    """A tree that behaves like the kernel: paired keys, and faults on demand."""

    ignored: str = ""
    refused: str = ""
    full_directory: str = ""

    def write_setting(self, path: str, text: str) -> None:
        if path == self.refused:
            raise OSError(errno.EINVAL, "Invalid argument")
        if path == self.ignored:
            return
        super().write_setting(path, text)
        if path in TWINS:
            super().write_setting(TWINS[path], "0")

    def replace_file(self, path: str, text: str, mode: int) -> None:
        if self.full_directory and path.startswith(self.full_directory):
            raise OSError(errno.ENOSPC, "No space left on device")
        super().replace_file(path, text, mode)


def _plan(kernel: Kernel, knobs: Sequence[Knob] | None = None, **workload: Any) -> tuple[Plan, Record]:
    facts = dataclasses.replace(collect(kernel.root), files=kernel)
    record = Record(kernel, DEFAULT_PATH)
    chosen = changeable_knobs(["all"], []) if knobs is None else knobs
    inputs = Workload(data_dirs=("/data",), **workload)
    plan = make_plan(facts, inputs, chosen, ["highwater-broker@.service"], ["*", "root"], record)
    return plan, record


def _run(kernel: Kernel, knobs: Sequence[Knob] | None = None, **workload: Any) -> Plan:
    plan, record = _plan(kernel, knobs, **workload)
    apply_plan(kernel, plan, record)
    return plan


def _recorded(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / DEFAULT_PATH.lstrip("/")).read_text())
    return document


def test_a_plan_writes_nothing(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    before = snapshot(tmp_path)
    plan, _ = _plan(kernel)
    assert plan.changes_anything
    assert snapshot(tmp_path) == before


def test_the_first_run_changes_and_the_second_does_not(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    plan = _run(kernel)
    assert read_sysctl(tmp_path, "vm.swappiness") == "1"
    assert read_sysctl(tmp_path, "vm.dirty_ratio") == "0"
    assert read_sysctl(tmp_path, "net.core.rmem_max") == "2500000"
    assert read_sysctl(tmp_path, "net.ipv4.tcp_rmem") == "4096\t131072\t6291456", "6 MiB is above the target"
    assert (tmp_path / DROP_IN[1:]).read_text().endswith("[Service]\nLimitNOFILE=100000:524288\n")
    assert "* hard nofile 524288\nroot soft nofile 100000\n" in (tmp_path / LIMITS[1:]).read_text()
    assert [change.path for change in plan.files] == [MANAGED, DROP_IN, LIMITS]
    after = snapshot(tmp_path)
    assert not _run(kernel).changes_anything
    assert snapshot(tmp_path) == after


def test_what_is_good_at_boot_gets_no_line(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path, sysctls={"net.ipv4.tcp_rmem": "4096 131072 33554432"}))
    _run(kernel)
    text = (tmp_path / MANAGED[1:]).read_text()
    assert "tcp_rmem" not in text, "a line would pin today's default and lower tomorrow's"
    assert "\nvm.swappiness = 1\n" in text


def test_numbers_that_the_knob_does_not_govern_stay(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    _run(kernel, rtt_ms=10.0)
    assert read_sysctl(tmp_path, "net.ipv4.tcp_rmem") == "4096 131072 25000000"
    assert "\nnet.ipv4.tcp_rmem = 4096 131072 25000000\n" in (tmp_path / MANAGED[1:]).read_text()


def test_the_record_keeps_the_first_values_and_both_members_of_a_pair(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    _run(kernel)
    _run(kernel, partitions=50_000)
    document = _recorded(tmp_path)
    assert document["schema"] == "tuning.record/1"
    settings = document["settings"]
    assert settings["/proc/sys/vm/max_map_count"]["before"] == "65530"
    assert settings["/proc/sys/vm/max_map_count"]["after"] == "1500000"
    assert settings["/proc/sys/vm/dirty_bytes"]["before"] == "0"
    assert settings["/proc/sys/vm/dirty_ratio"]["before"] == "20"
    assert settings["/proc/sys/vm/swappiness"]["boot_id"] == "0c1a3a6e-0000-4000-8000-000000000001"
    assert document["files"][MANAGED]["before"] is None


def test_the_record_comes_before_the_first_change(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    kernel.full_directory = "/var/lib/highwater"
    before = snapshot(tmp_path)
    with pytest.raises(TuningError, match=r"the record .* cannot be written \(No space left.*nothing was changed"):
        _run(kernel)
    assert snapshot(tmp_path) == before


def test_after_a_reboot_without_our_file_it_is_put_back(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    _run(kernel)
    (tmp_path / MANAGED[1:]).unlink()
    plan = _run(kernel)
    assert not plan.settings, "the running kernel is still right"
    assert [change.path for change in plan.files] == [MANAGED]
    assert "vm.swappiness = 1" in (tmp_path / MANAGED[1:]).read_text()


def test_drift_of_the_running_kernel_is_put_right(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    _run(kernel)
    write(tmp_path, sysctl_path("vm.swappiness"), "30\n")
    plan = _run(kernel)
    assert [(change.knob.id, change.before, change.after) for change in plan.settings] == [("vm.swappiness", "30", "1")]
    assert not plan.files


def test_fewer_knobs_leave_the_others_as_they_are(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    _run(kernel)
    assert not _run(kernel, changeable_knobs(["vm.swappiness"], [])).changes_anything
    other = Kernel(make_host(tmp_path / "other"))
    plan = _run(other, changeable_knobs(["vm.swappiness"], []))
    assert [change.knob.id for change in plan.settings] == ["vm.swappiness"]
    assert [change.path for change in plan.files] == [MANAGED]


def test_lines_of_others_in_our_file_stay_but_a_percentage_does_not_undo_bytes(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    write(tmp_path, MANAGED, "kernel.panic = 10\nvm.dirty_ratio = 80\nvm/swappiness = 60\n")
    _run(kernel)
    text = (tmp_path / MANAGED[1:]).read_text()
    assert "\nkernel.panic = 10\n" in text
    assert "dirty_ratio" not in text
    assert "\nvm.swappiness = 1\n" in text
    assert _recorded(tmp_path)["files"][MANAGED]["before"].startswith("kernel.panic = 10\n")


def test_an_ignored_write_is_a_failure_that_names_the_key(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    kernel.ignored = "/proc/sys/vm/max_map_count"
    with pytest.raises(TuningError, match=r"vm\.max_map_count: the write of '262144' had no effect, it reads '65530'"):
        _run(kernel)
    assert _recorded(tmp_path)["settings"]["/proc/sys/vm/swappiness"]["before"] == "60"


def test_a_refused_write_is_a_failure_that_names_the_key(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    kernel.refused = "/proc/sys/vm/max_map_count"
    with pytest.raises(TuningError, match=r"vm\.max_map_count: the kernel refuses '262144' \(Invalid argument\)"):
        _run(kernel)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    kernel.full_directory = "/etc/sysctl.d"
    with pytest.raises(TuningError, match=r"90-highwater\.conf cannot be written \(No space left"):
        _run(kernel)


def test_a_file_that_cannot_be_read_is_not_taken_for_absent(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    (tmp_path / MANAGED[1:]).write_bytes(b"# caf\xe9\n")
    with pytest.raises(TuningError, match=r"90-highwater\.conf cannot be read"):
        _plan(kernel)


def test_every_knob_that_cannot_be_set_is_named_before_anything_is_changed(tmp_path: Path) -> None:
    missing = {"vm.max_map_count": None, "fs.file-max": None}
    kernel = Kernel(make_host(tmp_path, sysctls=missing))
    before = snapshot(tmp_path)
    with pytest.raises(TuningError) as caught:
        _run(kernel)
    assert "vm.max_map_count: /proc/sys/vm/max_map_count does not exist" in str(caught.value)
    assert "fs.file-max: /proc/sys/fs/file-max does not exist" in str(caught.value)
    assert snapshot(tmp_path) == before
    knobs = changeable_knobs(["all"], list(missing))
    assert _run(kernel, knobs).changes_anything


def test_a_read_only_setting_that_is_good_is_no_problem(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path, read_only_proc_sys=True))
    with pytest.raises(TuningError, match=r"vm\.swappiness cannot be changed here: /proc/sys is mounted read-only"):
        _plan(kernel)
    assert not _plan(kernel, changeable_knobs(["net.core.somaxconn"], []))[0].changes_anything


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": "tuning.record/9"}', '{"schema": "tuning.record/1"}'])
def test_a_corrupt_record_stops_everything(tmp_path: Path, text: str) -> None:
    kernel = Kernel(make_host(tmp_path))
    write(tmp_path, DEFAULT_PATH, text)
    before = snapshot(tmp_path)
    with pytest.raises(TuningError, match=r"tuning-record\.json is not a readable record .* move it away"):
        _run(kernel)
    assert snapshot(tmp_path) == before


def test_a_later_file_that_undoes_ours_is_a_warning(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    write(tmp_path, "/usr/lib/sysctl.d/99-vendor.conf", "vm.swappiness = 10\n")
    write(tmp_path, "/etc/sysctl.d/99-vendor.conf", "# hides the vendor's file\nvm.dirty_ratio = 80\n")
    write(tmp_path, "/etc/sysctl.d/10-early.conf", "vm.swappiness = 99\n")
    write(tmp_path, "/etc/sysctl.conf", "net.core.somaxconn=128\nnet.core.rmem_max = 524288000\n")
    warnings = _run(kernel).warnings
    assert [warning.partition(" and ")[0] for warning in warnings] == [
        "/etc/sysctl.d/99-vendor.conf sets vm.dirty_ratio = 80",
        "/etc/sysctl.conf sets net.core.somaxconn = 128",
    ]


def test_a_login_keeps_a_higher_hard_limit(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path, nofile=(1024, 1048576)))
    _run(kernel)
    assert "* soft nofile 100000\n* hard nofile 1048576\n" in (tmp_path / LIMITS[1:]).read_text()
    write(tmp_path, DROP_IN, "[Service]\nLimitNOFILE=600000\n")
    _run(kernel)
    assert "LimitNOFILE=600000:600000\n" in (tmp_path / DROP_IN[1:]).read_text()


def test_a_limit_above_nr_open_is_refused_since_it_would_lock_people_out(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path))
    only_nofile = changeable_knobs(["unit.limit_nofile"], [])
    with pytest.raises(TuningError, match=r"unit\.limit_nofile 1452000 is more than fs\.nr_open 1048576 allows"):
        _run(kernel, only_nofile, partitions=40_000, connections=10_000)
    _run(kernel, partitions=40_000, connections=10_000)
    assert read_sysctl(tmp_path, "fs.nr_open") == "1452000"
    assert "LimitNOFILE=1452000:1452000\n" in (tmp_path / DROP_IN[1:]).read_text()


WITHOUT_CAP_SYS_RESOURCE = "000001fffeffffff"


def test_a_limit_that_the_host_cannot_grant_is_refused(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path, nofile=(1024, 20000), capabilities=WITHOUT_CAP_SYS_RESOURCE))
    with pytest.raises(TuningError, match=r"unit\.limit_nofile cannot be raised here: the hard limit is 20000"):
        _plan(kernel)
    assert _run(kernel, changeable_knobs(["all"], ["unit.limit_nofile"])).changes_anything


def test_a_hard_limit_stays_within_what_the_host_can_grant(tmp_path: Path) -> None:
    kernel = Kernel(make_host(tmp_path, nofile=(1024, 200000), capabilities=WITHOUT_CAP_SYS_RESOURCE))
    _run(kernel)
    assert "LimitNOFILE=100000:200000\n" in (tmp_path / DROP_IN[1:]).read_text()


@pytest.mark.parametrize(
    ("missing", "message"),
    [("etc/systemd/system", "this host has no systemd"), ("etc/security/limits.d", "this host has no pam_limits")],
)
def test_a_host_without_the_mechanism_is_told(tmp_path: Path, missing: str, message: str) -> None:
    kernel = Kernel(make_host(tmp_path))
    (tmp_path / missing).rmdir()
    (tmp_path / missing).parent.rmdir()
    with pytest.raises(TuningError, match=message):
        _plan(kernel)


@pytest.mark.parametrize(
    ("units", "domains", "message"),
    [
        (["../../evil.service"], [], "is not the name of a service unit"),
        (["kafka"], [], "is not the name of a service unit"),
        ([], ["root hard nofile 1\nx"], "is not a user"),
    ],
)
def test_names_that_would_end_up_in_paths_are_checked(
    tmp_path: Path, units: list[str], domains: list[str], message: str
) -> None:
    kernel = Kernel(make_host(tmp_path))
    knobs = changeable_knobs(["unit.limit_nofile"], [])
    with pytest.raises(TuningError, match=message):
        make_plan(collect(tmp_path), Workload(), knobs, units, domains, Record(kernel, DEFAULT_PATH))


def test_a_knob_that_is_only_checked_is_refused_by_name() -> None:
    with pytest.raises(TuningError, match=r"mount\.noatime is checked but cannot be changed from here"):
        changeable_knobs(["mount.noatime"], [])
    with pytest.raises(TuningError, match=r"did you mean vm\.dirty_bytes"):
        changeable_knobs(["vm.dirty_byte"], [])
