"""A profile in force for a while, on trees that are no host: what it comes to, and that all of it comes back."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect, collect_from
from highwater.tuning.facts.model import Facts
from highwater.tuning.profiles import ad_hoc, find_profile
from highwater.tuning.profiles.session import (
    begin_session,
    differing,
    end_session,
    plan_session,
    recover_session,
)
from highwater.tuning.runner import CapturedTreeRunner
from highwater.tuning.steps import RemountStep, SettingStep
from highwater.tuning.workload import Workload
from tests.tuning.fake_kernel import FakeKernel
from tests.tuning.host_tree import Disk, make_host, snapshot, sysctl_path, write

RUNNER = CapturedTreeRunner()
ON_DATA = Workload(data_dirs=("/data",))
EXTRA = {"vm.dirty_writeback_centisecs": "500", "vm.dirty_expire_centisecs": "3000"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_host(tmp_path, sysctls=EXTRA)
    write(root, f"/proc/{os.getpid()}/stat", Path("/proc/self/stat").read_text())
    return root


def _facts(root: Path) -> Facts:
    return collect_from(FakeKernel(root))


@pytest.mark.parametrize("name", ["recommended", "throughput", "latency", "durable", "notes", "benchmark-repeatable"])
def test_every_profile_comes_and_goes_without_a_trace(root: Path, name: str) -> None:
    facts, before = _facts(root), snapshot(root)
    session = plan_session(find_profile(name), facts, ON_DATA)
    assert snapshot(root) == before, "planning writes nothing"
    assert session.plan.steps
    begin_session(facts.files, RUNNER, session)
    assert differing(session, collect_from(facts.files)) == []
    for setting, value in session.after.items():
        path = setting if setting.startswith("/") else sysctl_path(setting)
        assert " ".join((facts.files.read(path).text or "").split()).endswith(value) or f"[{value}]" in (
            facts.files.read(path).text or ""
        )
    end_session(facts.files, RUNNER, session)
    assert snapshot(root) == before
    end_session(facts.files, RUNNER, session)


def test_what_is_so_already_is_told_and_held(root: Path) -> None:
    write(root, sysctl_path("vm.swappiness"), "1\n")
    facts = _facts(root)
    session = plan_session(ad_hoc({"vm.swappiness": "1", "vm.dirty_bytes": "256MiB"}), facts, ON_DATA)
    assert session.before == {"vm.swappiness": "1", "vm.dirty_bytes": "0", "vm.dirty_ratio": "20"}
    assert session.after == {"vm.swappiness": "1", "vm.dirty_bytes": str(256 << 20), "vm.dirty_ratio": "0"}
    begin_session(facts.files, RUNNER, session)
    facts.files.write_setting(sysctl_path("vm.swappiness"), "5")
    facts.files.write_setting(sysctl_path("vm.dirty_ratio"), "7")
    assert [text.partition(" is ")[0] for text in differing(session, facts)] == [
        "vm.swappiness",
        "vm.dirty_bytes",
        "vm.dirty_ratio",
    ]
    end_session(facts.files, RUNNER, session)
    assert facts.files.read(sysctl_path("vm.dirty_ratio")).text == "20"


def test_only_what_is_for_a_moment_is_changed(root: Path) -> None:
    session = plan_session(find_profile("recommended"), _facts(root), ON_DATA)
    assert not [name for name in session.after if name.startswith("mount")]
    assert {type(step) for step in session.plan.steps} == {SettingStep}


def test_a_mount_is_changed_where_it_is_named(root: Path) -> None:
    session = plan_session(ad_hoc({"mount.noatime": "noatime"}), _facts(root), ON_DATA)
    assert {type(step) for step in session.plan.steps} == {RemountStep}
    (name,) = session.after
    assert name == "mount /data"
    assert "noatime" in session.after[name].split(",")
    assert "relatime" in session.before[name].split(",")


def test_a_host_that_lets_nothing_be_set_is_one_line(tmp_path: Path) -> None:
    root = make_host(tmp_path, read_only_proc_sys=True, sysctls={"net.core.rmem_max": None, **EXTRA})
    before = snapshot(root)
    with pytest.raises(TuningError) as error:
        plan_session(find_profile("notes"), collect(root), ON_DATA)
    text = str(error.value)
    assert text.startswith("host profile notes cannot be applied: ")
    assert "net.core.rmem_max: /proc/sys/net/core/rmem_max does not exist" in text
    for key in ("vm.swappiness", "vm.dirty_writeback_centisecs", "vm.dirty_expire_centisecs"):
        assert f"{key} cannot be changed here: /proc/sys is mounted read-only" in text
    assert "\n" not in text
    assert snapshot(root) == before
    # What already is as wanted needs no writing.
    assert plan_session(ad_hoc({"vm.swappiness": "60"}), collect(root), ON_DATA).plan.steps == ()


def test_what_is_only_for_hosts_that_have_it(tmp_path: Path) -> None:
    root = make_host(tmp_path, sysctls={"kernel.nmi_watchdog": None, **EXTRA})
    session = plan_session(find_profile("benchmark-repeatable"), collect(root), ON_DATA)
    assert "kernel.nmi_watchdog" not in session.after
    assert "vm.swappiness" in session.after


def test_a_disk_without_the_wanted_choice_leaves_nothing_behind(tmp_path: Path) -> None:
    root = make_host(tmp_path, disks=(Disk("sda", "/data", schedulers="[none] mq-deadline"),), sysctls=EXTRA)
    write(root, f"/proc/{os.getpid()}/stat", Path("/proc/self/stat").read_text())
    facts, before = _facts(root), snapshot(root)
    session = plan_session(ad_hoc({"vm.swappiness": "3", "disk.scheduler": "bfq"}), facts, ON_DATA)
    with pytest.raises(TuningError, match=r"^host profile settings cannot be applied: .*scheduler"):
        begin_session(facts.files, RUNNER, session)
    assert snapshot(root) == before


def test_what_a_killed_run_left_is_taken_back_and_a_living_one_is_left_alone(root: Path) -> None:
    facts, before = _facts(root), snapshot(root)
    session = plan_session(find_profile("notes"), facts, ON_DATA)
    begin_session(facts.files, RUNNER, session)
    with pytest.raises(TuningError, match=rf"^the run of process {os.getpid()} has host profile notes in force"):
        recover_session(facts.files, RUNNER)
    stat = root / f"proc/{os.getpid()}/stat"
    text = stat.read_text()
    stat.unlink()
    assert "vm.swappiness: 1 -> 60" in recover_session(facts.files, RUNNER)
    stat.write_text(text)
    assert snapshot(root) == before
    assert recover_session(facts.files, RUNNER) == []


class ReadOnlyHost(FakeKernel):
    """A host as a service with ProtectSystem=strict sees it: rmdir(2) returns EROFS for what does not exist, too."""

    def remove_folder_if_empty(self, path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


def test_nothing_is_taken_back_on_a_host_that_is_read_only_and_was_never_tuned(root: Path) -> None:
    assert recover_session(ReadOnlyHost(root), RUNNER) == []
