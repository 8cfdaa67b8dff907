"""Who wins for a kernel setting at boot: every place that sets one, in the order in which they are applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.tuning.boot_files import tuned
from highwater.tuning.boot_files.precedence import Boot, simulate_boot
from highwater.tuning.boot_files.sysctl_d import PAIRED_KEYS
from highwater.tuning.catalogue import KNOBS
from highwater.tuning.hostfiles import HostFiles
from tests.tuning.host_tree import write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "/usr/lib/systemd/systemd-sysctl", "")
    return tmp_path


def boot_of(root: Path) -> Boot:
    return simulate_boot(HostFiles(root))


def winner(root: Path, key: str) -> tuple[str, str, str] | None:
    found = boot_of(root).winner(key)
    return (found.where, found.key, found.value) if found else None


def test_the_last_name_wins_wherever_its_file_is(root: Path) -> None:
    write(root, "/etc/sysctl.d/90-highwater.conf", "# ours\nvm.swappiness = 1\n")
    write(root, "/usr/lib/sysctl.d/99-vendor.conf", "\nvm/swappiness=10\n")
    write(root, "/run/sysctl.d/10-early.conf", "vm.swappiness=99\n")
    assert winner(root, "vm.swappiness") == ("/usr/lib/sysctl.d/99-vendor.conf:2", "vm.swappiness", "10")
    assert boot_of(root).explain("vm.swappiness") == [
        "/run/sysctl.d/10-early.conf:1 sets vm.swappiness = 99 (systemd-sysctl)",
        "/etc/sysctl.d/90-highwater.conf:2 sets vm.swappiness = 1 (systemd-sysctl)",
        "/usr/lib/sysctl.d/99-vendor.conf:2 sets vm.swappiness = 10 (systemd-sysctl): it wins at boot",
    ]


def test_a_name_counts_once_and_a_link_to_nowhere_masks_it(root: Path) -> None:
    write(root, "/usr/lib/sysctl.d/99-vendor.conf", "vm.swappiness=10\n")
    write(root, "/etc/sysctl.d/99-vendor.conf", "# hides the vendor's\n")
    assert winner(root, "vm.swappiness") is None
    write(root, "/usr/lib/sysctl.d/50-other.conf", "vm.swappiness=20\n")
    (root / "etc/sysctl.d/50-other.conf").symlink_to("/dev/null")
    assert winner(root, "vm.swappiness") is None
    assert boot_of(root).explain("vm.swappiness") == ["no file sets vm.swappiness at boot: the kernel's default stays"]


def test_a_file_counts_whatever_bytes_its_remarks_hold(root: Path) -> None:
    write(root, "/etc/sysctl.d/50-other.conf", "vm.swappiness = 5\n")
    (root / "etc/sysctl.d/60-latin.conf").write_bytes(b"\n# f\xfcr uns\nvm.swappiness = 7\n")
    assert winner(root, "vm.swappiness") == ("/etc/sysctl.d/60-latin.conf:3", "vm.swappiness", "7")


def test_sysctl_conf_is_read_by_systemd_through_a_link_only(root: Path) -> None:
    write(root, "/etc/sysctl.conf", "vm.swappiness=30\n")
    assert winner(root, "vm.swappiness") is None
    (root / "etc/sysctl.d").mkdir()
    (root / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    assert winner(root, "vm.swappiness") == ("/etc/sysctl.d/99-sysctl.conf:1", "vm.swappiness", "30")


def test_without_systemd_sysctl_conf_comes_last(tmp_path: Path) -> None:
    write(tmp_path, "/etc/sysctl.d/99-z.conf", "vm.swappiness=1\n")
    write(tmp_path, "/etc/sysctl.conf", "vm.swappiness=30\n")
    found = boot_of(tmp_path).winner("vm.swappiness")
    assert found is not None
    assert (found.path, found.reader) == ("/etc/sysctl.conf", "sysctl --system")


def test_a_percentage_undoes_the_bytes_of_its_pair(root: Path) -> None:
    write(root, "/etc/sysctl.d/90-highwater.conf", "vm.dirty_bytes = 1000000\n")
    write(root, "/etc/sysctl.d/99-a.conf", "vm.dirty_ratio = 40\n")
    assert winner(root, "vm.dirty_bytes") == ("/etc/sysctl.d/99-a.conf:1", "vm.dirty_ratio", "40")
    assert boot_of(root).settings() == {"vm.dirty_ratio": "40"}
    write(root, "/etc/sysctl.d/99-b.conf", "vm.dirty_bytes = 2000000\nvm.dirty_ratio = 0\n")
    assert boot_of(root).settings() == {"vm.dirty_bytes": "2000000"}, "the kernel takes no 0 for a member of a pair"


def test_an_equal_line_keeps_the_place_of_the_earlier_one_under_systemd(root: Path) -> None:
    write(root, "/etc/sysctl.d/10-a.conf", "vm.dirty_bytes = 1000000\n")
    write(root, "/etc/sysctl.d/70-b.conf", "vm.dirty_ratio = 40\n")
    write(root, "/etc/sysctl.d/90-highwater.conf", "vm.dirty_bytes = 1000000\n")
    no_effect = "no effect, as it repeats /etc/sysctl.d/10-a.conf:1, which keeps its place"
    assert boot_of(root).explain("vm.dirty_bytes") == [
        "/etc/sysctl.d/10-a.conf:1 sets vm.dirty_bytes = 1000000 (systemd-sysctl)",
        f"/etc/sysctl.d/90-highwater.conf:1 sets vm.dirty_bytes = 1000000 (systemd-sysctl): {no_effect}",
        "/etc/sysctl.d/70-b.conf:1 sets vm.dirty_ratio = 40 (systemd-sysctl): it wins at boot",
    ]
    (root / "usr/lib/systemd/systemd-sysctl").unlink()
    assert winner(root, "vm.dirty_bytes") == ("/etc/sysctl.d/90-highwater.conf:1", "vm.dirty_bytes", "1000000")


def test_a_key_that_is_excluded_is_not_set_under_systemd(root: Path) -> None:
    write(root, "/etc/sysctl.d/10-a.conf", "vm.swappiness = 5\n")
    write(root, "/etc/sysctl.d/20-b.conf", "-vm.swappiness\n")
    assert winner(root, "vm.swappiness") is None
    no_effect = "no effect, as /etc/sysctl.d/20-b.conf:1 excludes the key"
    assert boot_of(root).explain("vm.swappiness") == [
        f"/etc/sysctl.d/10-a.conf:1 sets vm.swappiness = 5 (systemd-sysctl): {no_effect}",
        "no file sets vm.swappiness at boot: the kernel's default stays",
    ]


def test_the_pairs_are_those_of_the_catalogue() -> None:
    pairs = {knob.id: knob.twin for knob in KNOBS if knob.twin}
    assert {key: twin for key, twin in PAIRED_KEYS.items() if key in pairs} == pairs
    assert all(PAIRED_KEYS[twin] == key for key, twin in PAIRED_KEYS.items())


def test_the_command_line_comes_first_and_boot_scripts_last(root: Path) -> None:
    write(root, "/proc/cmdline", "root=/dev/vda sysctl.vm.swappiness=5 quiet\n")
    assert winner(root, "vm.swappiness") == ("/proc/cmdline", "vm.swappiness", "5")
    write(root, "/etc/sysctl.d/90-highwater.conf", "vm.swappiness = 1\n")
    assert winner(root, "vm.swappiness") == ("/etc/sysctl.d/90-highwater.conf:1", "vm.swappiness", "1")
    write(root, "/etc/rc.local", "#!/bin/sh\n# sysctl -w vm.swappiness=9\nsysctl -q -w vm.swappiness=60\n")
    assert winner(root, "vm.swappiness") == ("/etc/rc.local:3", "vm.swappiness", "60")
    write(root, "/etc/rc.local", "#!/bin/sh\necho 70 > /proc/sys/vm/swappiness\n")
    assert winner(root, "vm.swappiness") == ("/etc/rc.local:2", "vm.swappiness", "70")


def test_a_pattern_stands_back_behind_a_key_that_is_named(root: Path) -> None:
    for interface in ("eth0", "eth1"):
        write(root, f"/proc/sys/net/ipv4/conf/{interface}/rp_filter", "0\n")
    write(root, "/etc/sysctl.d/10-a.conf", "net.ipv4.conf.eth0.rp_filter = 1\n")
    write(root, "/etc/sysctl.d/20-b.conf", "net.ipv4.conf.*.rp_filter = 2\n")
    assert boot_of(root).settings() == {
        "net.ipv4.conf.eth0.rp_filter": "1",
        "net.ipv4.conf.eth1.rp_filter": "2",
    }


def test_other_texts_instead_of_a_file(root: Path) -> None:
    ours = "/etc/sysctl.d/90-highwater.conf"
    write(root, "/usr/lib/sysctl.d/10-default.conf", "vm.swappiness = 60\n")
    planned = simulate_boot(HostFiles(root), {ours: "vm.swappiness = 1\n"}).winner("vm.swappiness")
    assert planned is not None
    assert planned.path == ours, "a file that is not there yet"
    write(root, ours, "vm.swappiness = 1\n")
    without = simulate_boot(HostFiles(root), {ours: None}).winner("vm.swappiness")
    assert without is not None
    assert without.value == "60"


def _with_tuned(root: Path, main: str = "") -> None:
    write(root, "/etc/systemd/system/multi-user.target.wants/tuned.service", "")
    write(root, "/etc/tuned/active_profile", "mine\n")
    write(root, "/etc/tuned/tuned-main.conf", main)
    write(root, "/etc/tuned/profiles/mine/tuned.conf", "[main]\ninclude = base\n\n[sysctl]\nvm.swappiness = 10\n")
    write(
        root,
        "/usr/lib/tuned/base/tuned.conf",
        "[vm]\ntransparent_hugepages=always\n[sysctl]\nvm.swappiness=30\nnet.core.somaxconn=>2048\n"
        "[disk]\nreadahead=>4096\n",
    )


def test_tuned_wins_where_it_does_not_apply_sysctl_d_again(root: Path) -> None:
    write(root, "/etc/sysctl.d/90-highwater.conf", "vm.swappiness = 1\n")
    _with_tuned(root, "reapply_sysctl = 0\n")
    assert winner(root, "vm.swappiness") == ("/etc/tuned/profiles/mine/tuned.conf:5", "vm.swappiness", "10")
    _with_tuned(root)
    found = boot_of(root).winner("vm.swappiness")
    assert found is not None
    assert (found.path, found.reader) == ("/etc/sysctl.d/90-highwater.conf", "TuneD, reapply_sysctl")


def test_tuned_only_raises_what_it_says_it_raises(root: Path) -> None:
    write(root, "/usr/lib/sysctl.d/10-default.conf", "net.core.somaxconn = 4096\n")
    _with_tuned(root, "reapply_sysctl = 0\n")
    assert boot_of(root).settings()["net.core.somaxconn"] == "4096"
    write(root, "/usr/lib/sysctl.d/10-default.conf", "net.core.somaxconn = 128\n")
    assert boot_of(root).settings()["net.core.somaxconn"] == "2048"


def test_a_profile_of_tuned_that_cannot_be_read_sets_nothing(root: Path) -> None:
    _with_tuned(root)
    (root / "usr/lib/tuned/base/tuned.conf").unlink()
    (root / "usr/lib/tuned/base/tuned.conf").mkdir()
    profile = tuned.active_profile(HostFiles(root))
    assert profile is not None
    assert [line.value for line in profile.sysctls] == ["10"]


def test_what_tuned_sets_besides(root: Path) -> None:
    _with_tuned(root)
    profile = tuned.active_profile(HostFiles(root))
    assert profile is not None
    line = profile.sets("thp.enabled", "/sys/kernel/mm/transparent_hugepage/enabled")
    assert line is not None
    assert (line.path, line.number, line.value) == ("/usr/lib/tuned/base/tuned.conf", 2, "always")
    assert profile.sets("disk.scheduler", "/sys/block/sda/queue/scheduler") is None
    (root / "etc/systemd/system/multi-user.target.wants/tuned.service").unlink()
    assert tuned.active_profile(HostFiles(root)) is None
