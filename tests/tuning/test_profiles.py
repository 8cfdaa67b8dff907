"""Host profiles on trees that are no host: what is written is read back, and what was there comes back."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.tuning.host_tree import make_host, write
from tuning.check import sysctl_path
from tuning.errors import TuningError
from tuning.facts import Facts, collect
from tuning.fingerprint import fingerprint
from tuning.hostfiles import HostFiles
from tuning.profile_session import (
    JOURNAL,
    Change,
    apply_profile,
    differing,
    plan_profile,
    recover,
    roll_back,
    value_of,
)
from tuning.profiles import PROFILES, Profile, Setting, find_profile
from tuning.workload import Workload

DIRTY_BYTES, DIRTY_RATIO = sysctl_path("vm.dirty_bytes"), sysctl_path("vm.dirty_ratio")
PAIRS = (("vm.dirty_bytes", "vm.dirty_ratio"), ("vm.dirty_background_bytes", "vm.dirty_background_ratio"))
EXTRA = {"vm.dirty_writeback_centisecs": "500", "vm.dirty_expire_centisecs": "3000", "vm.stat_interval": "1"}


class KernelFiles(HostFiles):
    """A tree that does what a kernel does: one of a pair zeroes the other, and `stubborn` files keep their value."""

    stubborn: tuple[str, ...] = ()

    def write_setting(self, path: str, text: str) -> None:
        if path in self.stubborn:
            return
        pairs = {sysctl_path(one): sysctl_path(other) for one, other in PAIRS}
        pairs |= {other: one for one, other in pairs.items()}
        if path in pairs:
            assert text != "0", "the kernel takes no 0 for either of the two"
            super().write_setting(pairs[path], "0")
        super().write_setting(path, text)


def profile_of(*settings: Setting) -> Profile:
    return Profile("p", "", lambda _facts, _workload: iter(settings))


def planned(facts: Facts, *settings: tuple[str, str]) -> list[Change]:
    profile = profile_of(*(Setting(sysctl_path(key), value, "") for key, value in settings))
    return plan_profile(profile, facts, Workload())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_host(tmp_path, sysctls=EXTRA)
    write(root, f"/proc/{os.getpid()}/stat", (Path("/proc/self/stat")).read_text())
    return root


def values(root: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted((root / "proc/sys").rglob("*")) if path.is_file()}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_every_profile_is_applied_held_and_taken_back(root: Path, profile: Profile) -> None:
    files, before = KernelFiles(root), values(root)
    changes = plan_profile(profile, collect(root), Workload())
    assert changes
    apply_profile(files, profile.name, changes)
    assert values(root) != before
    assert differing(files, changes) == []
    assert {change.path for change in roll_back(files)} == {
        change.path for change in changes if change.before != change.after
    }
    assert values(root) == before
    assert not files.exists(JOURNAL)
    assert roll_back(files) == []


def test_of_a_pair_the_one_that_was_set_comes_back(root: Path) -> None:
    files = KernelFiles(root)
    changes = planned(collect(root), ("vm.dirty_bytes", "1000000"))
    assert [(change.name, change.before, change.after) for change in changes] == [
        ("vm.dirty_bytes", "0", "1000000"),
        ("vm.dirty_ratio", "20", "0"),
    ]
    apply_profile(files, "p", changes)
    assert (files.read(DIRTY_BYTES).text, files.read(DIRTY_RATIO).text) == ("1000000", "0")
    roll_back(files)
    assert (files.read(DIRTY_BYTES).text, files.read(DIRTY_RATIO).text) == ("0", "20")


def test_a_value_that_somebody_changed_meanwhile_is_told(root: Path) -> None:
    files = KernelFiles(root)
    changes = planned(collect(root), ("vm.swappiness", "1"))
    apply_profile(files, "p", changes)
    files.write_setting(sysctl_path("vm.swappiness"), "33")
    assert differing(files, changes) == ["vm.swappiness is '33'"]


def test_what_does_not_take_effect_leaves_nothing_behind(root: Path) -> None:
    files, before = KernelFiles(root), values(root)
    files.stubborn = (sysctl_path("vm.max_map_count"),)
    changes = planned(collect(root), ("vm.swappiness", "1"), ("vm.max_map_count", "99999"))
    with pytest.raises(TuningError, match=r"^host profile p cannot be applied: vm\.max_map_count: .*had no effect"):
        apply_profile(files, "p", changes)
    assert values(root) == before
    assert not files.exists(JOURNAL)


def test_what_a_killed_run_left_is_taken_back_and_a_living_one_is_left_alone(root: Path) -> None:
    files, before = KernelFiles(root), values(root)
    changes = planned(collect(root), ("vm.swappiness", "1"))
    apply_profile(files, "p", changes)
    with pytest.raises(TuningError, match=rf"^the run of process {os.getpid()} holds host profile p just now"):
        recover(files)
    (root / f"proc/{os.getpid()}/stat").unlink()
    assert [change.name for change in recover(files)] == ["vm.swappiness"]
    assert values(root) == before
    assert recover(files) == []


def test_after_a_reboot_there_is_nothing_to_restore(root: Path) -> None:
    files = KernelFiles(root)
    apply_profile(files, "p", planned(collect(root), ("vm.swappiness", "1")))
    write(root, "/proc/sys/kernel/random/boot_id", "another\n")
    write(root, sysctl_path("vm.swappiness"), "47\n")
    roll_back(files)
    assert files.read(sysctl_path("vm.swappiness")).text == "47"
    assert not files.exists(JOURNAL)


def test_what_cannot_be_restored_keeps_the_journal(root: Path) -> None:
    files = KernelFiles(root)
    apply_profile(files, "p", planned(collect(root), ("vm.swappiness", "1")))
    files.stubborn = (sysctl_path("vm.swappiness"),)
    with pytest.raises(TuningError, match=rf"vm\.swappiness.*the values to restore are in {JOURNAL}$"):
        roll_back(files)
    assert files.exists(JOURNAL)


def test_a_journal_that_is_none_is_not_trusted(root: Path) -> None:
    write(root, JOURNAL, "{}\n")
    with pytest.raises(TuningError, match=r"host-profile\.json is not a readable journal"):
        recover(KernelFiles(root))


def test_a_host_that_lets_nothing_be_set_is_one_line_before_anything_is_written(tmp_path: Path) -> None:
    root = make_host(tmp_path, read_only_proc_sys=True, sysctls={"net.core.rmem_max": None, **EXTRA})
    with pytest.raises(TuningError) as error:
        plan_profile(find_profile("notes"), collect(root), Workload())
    assert str(error.value) == (
        "host profile notes cannot be applied: net.core.rmem_max is not there; "
        "vm.swappiness: /proc/sys is mounted read-only here; "
        "vm.dirty_writeback_centisecs: /proc/sys is mounted read-only here; "
        "vm.dirty_expire_centisecs: /proc/sys is mounted read-only here"
    )
    # What already is as wanted needs no writing.
    assert planned(collect(root), ("vm.swappiness", "60"))


def test_settings_of_every_processor_and_none_where_there_are_none(root: Path) -> None:
    setting = Setting("/sys/cpufreq/policy*/scaling_governor", "performance", "", where_present=True)
    assert plan_profile(profile_of(setting), collect(root), Workload()) == []
    for number in (0, 4):
        write(root, f"/sys/cpufreq/policy{number}/scaling_governor", "powersave\n")
    changes = plan_profile(profile_of(setting), collect(root), Workload())
    assert [change.path for change in changes] == [
        "/sys/cpufreq/policy0/scaling_governor",
        "/sys/cpufreq/policy4/scaling_governor",
    ]


def test_a_misspelt_profile() -> None:
    with pytest.raises(TuningError, match=r"^no host profile is called 'note'; did you mean notes\? \(known: recomm"):
        find_profile("note")


def test_values_are_compared_without_their_dress() -> None:
    assert value_of("4096\t131072  6291456\n") == "4096 131072 6291456"
    assert value_of("always [madvise] never\n") == "madvise"


def test_the_fingerprint_is_of_the_settings_alone(root: Path) -> None:
    one, listed = fingerprint(collect(root))
    assert listed["vm.swappiness"] == "60"
    meminfo = (root / "proc/meminfo").read_text()
    write(root, "/proc/meminfo", re.sub(r"MemAvailable: +\d+", "MemAvailable: 1000000", meminfo))
    assert fingerprint(collect(root))[0] == one, "memory that is free now is no setting"
    write(root, sysctl_path("vm.swappiness"), "1\n")
    assert fingerprint(collect(root))[0] != one
