"""Who else sets what this program sets."""

from __future__ import annotations

from pathlib import Path

from highwater.tuning.facts import collect
from tests.tuning.host_tree import make_host, write


def _what(tmp_path: Path) -> dict[str, str]:
    return {f"{item.name} {item.path}": item.what for item in collect(tmp_path).competitors}


def test_tuned_with_its_profile_and_who_has_the_last_word(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/etc/tuned/active_profile", "throughput-performance\n")
    assert _what(tmp_path) == {}, "a profile of a service that is off changes nothing"
    write(tmp_path, "/sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "1\n")
    (what,) = _what(tmp_path).values()
    assert what.startswith("runs with profile throughput-performance")
    assert "sysctl.d has the last word" in what
    write(tmp_path, "/etc/tuned/tuned-main.conf", "reapply_sysctl = 0\n")
    (what,) = _what(tmp_path).values()
    assert "has the last word over sysctl.d" in what


def test_services_that_run_or_are_enabled(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/sys/fs/cgroup/systemd/system.slice/irqbalance.service/cgroup.procs", "7\n")
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir()
    (wants / "walinuxagent.service").symlink_to("/lib/systemd/system/walinuxagent.service")
    (wants / "numad.service").symlink_to("/lib/systemd/system/numad.service")
    (tmp_path / "etc/systemd/system/numad.service").symlink_to("/dev/null")
    found = {item.name: item.what for item in collect(tmp_path).competitors}
    assert set(found) == {"irqbalance", "Azure agent"}, "a masked service is none"
    assert found["irqbalance"].startswith("runs: ")
    assert found["Azure agent"].startswith("is enabled: ")


def test_files_of_sysctl_d_that_set_what_is_tuned(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/etc/sysctl.d/99-mine.conf", "-vm/swappiness=10\n# vm.dirty_ratio = 5\nkernel.sysrq = 0\n")
    write(tmp_path, "/usr/lib/sysctl.d/99-mine.conf", "vm.dirty_bytes = 1\n")
    write(tmp_path, "/usr/lib/sysctl.d/50-default.conf", "net.ipv4.conf.all.rp_filter = 2\n")
    write(tmp_path, "/etc/sysctl.d/90-highwater.conf", "vm.swappiness = 1\n")
    write(tmp_path, "/etc/sysctl.conf", "net.core.somaxconn = 128\n")
    assert _what(tmp_path) == {
        "sysctl /etc/sysctl.d/99-mine.conf": "sets vm.swappiness",
        "sysctl /etc/sysctl.conf": "sets net.core.somaxconn",
    }
