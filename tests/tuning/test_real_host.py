"""Round trips on this very machine, seen with other programs' eyes: sysctl, swapon, findmnt, prlimit.

The journal lies in the test's folder, so that a host that is tuned stays as it is. These tests need root; without it
they fail, as a round trip that nobody made proves nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater.tuning import engine
from highwater.tuning.errors import TuningError
from highwater.tuning.facts import collect
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.journal import APPLIED, Owner
from highwater.tuning.runner import SystemRunner
from highwater.tuning.steps import FileStep, RemountStep, SettingStep, Step, SwapOffStep, TuningPlan, remount_steps
from tests.this_machine import settings_alone

SYSCTLS = ("vm.stat_interval", "vm.dirty_background_bytes", "net.ipv4.tcp_rmem", "fs.nr_open")


class RealHost(HostFiles):
    """This machine, with /etc and the journals' folder elsewhere."""

    def __init__(self, elsewhere: Path) -> None:
        super().__init__()
        self.elsewhere = elsewhere

    def locate(self, path: str) -> Path:
        return self.elsewhere / path.lstrip("/") if path.startswith(("/etc", "/var")) else super().locate(path)


def needs_this_host() -> None:
    """Skips where a round trip cannot be made: it writes to this machine's settings, mounts and swap."""
    if not os.access("/proc/sys/vm/stat_interval", os.W_OK):
        pytest.skip("this machine's settings cannot be written: not root, or /proc/sys is read-only")
    for program in ("sysctl", "findmnt", "mkfs.ext4", "mkswap", "swapon", "prlimit", "taskset", "losetup"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    if subprocess.run(["losetup", "--find"], capture_output=True, check=False).returncode:
        pytest.skip("needs loop devices, and this machine gives none")


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Where a file can be swapped to."""
    return disk_path


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RealHost]:
    """Whatever a test does to this machine's settings, they are as they were after it."""
    needs_this_host()
    (tmp_path / "var/lib").mkdir(parents=True)
    with settings_alone():
        before = [seen(key) for key in (*SYSCTLS, "vm.dirty_background_ratio")]
        yield RealHost(tmp_path)
        after = [seen(key) for key in (*SYSCTLS, "vm.dirty_background_ratio")]
        for key, text in zip((*SYSCTLS, "vm.dirty_background_ratio"), before, strict=True):
            if seen(key) != text and text != "0":
                run("sysctl", "-q", "-w", f"{key}={text}")
    assert after == before
    assert list((tmp_path / "var/lib").iterdir()) == []


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def seen(key: str) -> str:
    """As sysctl(8) shows it."""
    return " ".join(run("sysctl", "-n", key).split())


def path_of(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def setting(key: str, after: str, twin: str = "") -> SettingStep:
    return SettingStep(
        key, "", path_of(key), seen(key), after, path_of(twin) if twin else None, seen(twin) if twin else None
    )


def apply(host: RealHost, *steps: Step) -> None:
    engine.apply(host, SystemRunner(), TuningPlan(steps), Owner.this_process(host, "round trip"))


def roll_back(host: RealHost) -> None:
    back = engine.rollback(host, SystemRunner())
    assert (back.kept, back.problems) == ((), ())


def test_sysctls_of_every_kind_there_and_back(host: RealHost) -> None:
    rmem = seen("net.ipv4.tcp_rmem").split()
    more = f"{rmem[0]} {rmem[1]} {int(rmem[2]) + 4096}"
    pair = setting("vm.dirty_background_bytes", "268435456", "vm.dirty_background_ratio")
    before = seen("vm.dirty_background_bytes"), seen("vm.dirty_background_ratio")
    apply(host, setting("vm.stat_interval", "3"), pair, setting("net.ipv4.tcp_rmem", more))
    assert seen("vm.stat_interval") == "3"
    assert seen("net.ipv4.tcp_rmem") == more
    assert (seen("vm.dirty_background_bytes"), seen("vm.dirty_background_ratio")) == ("268435456", "0")
    assert [held.standing for held in engine.status(host).changes] == ["in_force"] * 3
    roll_back(host)
    assert seen("net.ipv4.tcp_rmem").split() == rmem
    assert (seen("vm.dirty_background_bytes"), seen("vm.dirty_background_ratio")) == before


def test_a_value_that_this_kernel_does_not_take(host: RealHost) -> None:
    with pytest.raises(TuningError, match=r"^vm\.dirty_background_bytes: .*; everything was put back as it was$"):
        apply(
            host,
            setting("vm.stat_interval", "3"),
            setting("vm.dirty_background_bytes", "none", "vm.dirty_background_ratio"),
        )


def test_a_ceiling_that_processes_meet(host: RealHost) -> None:
    """A limit above the old ceiling is granted while the new one is in force; nowhere without CAP_SYS_RESOURCE."""
    more = str(int(seen("fs.nr_open")) + 4096)

    def granted() -> bool:
        return (
            subprocess.run(("prlimit", f"--nofile={more}:{more}", "true"), check=False, capture_output=True).returncode
            == 0
        )

    assert not granted()
    apply(host, setting("fs.nr_open", more))
    assert seen("fs.nr_open") == more
    assert granted() == bool(collect().can_raise_limits)
    roll_back(host)
    assert not granted()


def test_a_process_that_is_killed_half_way(host: RealHost) -> None:
    """A real SIGKILL, right after the kernel took the first value."""
    script = f"""
import os, signal
from pathlib import Path
from tests.this_machine import settings_alone
from tests.tuning.test_real_host import RealHost, apply, setting
host = RealHost(Path({str(host.elsewhere)!r}))
write = host.write_setting
def write_and_die(path, text):
    write(path, text)
    os.kill(os.getpid(), signal.SIGKILL)
host.write_setting = write_and_die
apply(host, setting("vm.stat_interval", "3"), setting("fs.nr_open", str({seen("fs.nr_open")} + 4096)))
"""
    top = Path(__file__).parents[2]
    killed = subprocess.run((sys.executable, "-c", script), check=False, capture_output=True, text=True, cwd=top)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert seen("vm.stat_interval") == "3"
    assert "ended after 0 of 2 changes" in engine.interrupted(host)
    roll_back(host)


def test_swap_goes_and_comes_back(host: RealHost, tmp_path: Path) -> None:
    swap_file = str(tmp_path / "swap file")
    run("dd", "if=/dev/zero", f"of={swap_file}", "bs=1M", "count=8", "status=none")
    (tmp_path / "swap file").chmod(0o600)
    run("mkswap", swap_file)
    run("swapon", "-p", "3", swap_file)
    try:
        apply(host, SwapOffStep(swap_file, "file", 3))
        assert swap_file not in run("swapon", "--show=NAME", "--noheadings")
        roll_back(host)
        assert f"{swap_file} 3" in run("swapon", "--show=NAME,PRIO", "--noheadings", "--raw").replace("\\x20", " ")
    finally:
        subprocess.run(("swapoff", swap_file), check=False, capture_output=True)


@contextmanager
def small_ext4(image: Path, place: Path, options: str) -> Iterator[str]:
    """A file system of 32 MiB in `image`, mounted on `place` meanwhile."""
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 * 2**20)
    run("mkfs.ext4", "-q", str(image))
    run("mount", "-o", f"loop,{options}", str(image), str(place))
    try:
        yield str(place)
    finally:
        run("umount", str(place))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[str]:
    """Mounted with options that a careless remount would lose."""
    with small_ext4(tmp_path / "ext4.img", tmp_path / "mount point", "nosuid,nodev,relatime") as place:
        yield place


def remounts(mount_point: str, gone: str, *new: str) -> list[RemountStep]:
    """What takes an option from the mount of this machine, and gives it others."""
    mount = next(mount for mount in reversed(collect().mounts) if mount.mount_point == mount_point)
    return list(remount_steps(mount, [*(option for option in mount.options if option != gone), *new]))


def options_of(mount_point: str) -> set[str]:
    return set(run("findmnt", "-n", "-o", "OPTIONS", mount_point).strip().split(","))


def test_a_mount_is_made_another_and_comes_back(host: RealHost, mounted: str) -> None:
    before = options_of(mounted)
    assert {"nosuid", "nodev", "relatime"} <= before
    apply(host, *remounts(mounted, "relatime", "noatime", "commit=30"))
    assert options_of(mounted) == before - {"relatime"} | {"noatime", "commit=30"}
    roll_back(host)
    assert options_of(mounted) == before


def test_a_read_only_mount_of_a_folder_leaves_its_file_system_writable(
    host: RealHost, mounted: str, tmp_path: Path
) -> None:
    folder, seen_at = Path(mounted) / "folder", tmp_path / "seen at"
    folder.mkdir()
    seen_at.mkdir()
    run("mount", "--bind", str(folder), str(seen_at))
    try:
        run("mount", "-o", "remount,bind,ro,nodiratime,relatime", str(seen_at))
        before = options_of(mounted), options_of(str(seen_at))
        apply(host, *remounts(str(seen_at), "relatime", "noatime", "commit=30", "lazytime"))
        of_filesystem = {"commit=30", "lazytime"}
        assert options_of(mounted) == before[0] | of_filesystem
        assert options_of(str(seen_at)) == before[1] - {"relatime"} | {"noatime"} | of_filesystem
        (Path(mounted) / "file").write_text("still writable")
        with pytest.raises(OSError, match="Read-only file system"):
            (seen_at / "file").write_text("not writable")
        roll_back(host)
        assert (options_of(mounted), options_of(str(seen_at))) == before
    finally:
        run("umount", str(seen_at))


def test_an_option_that_a_remount_cannot_change(host: RealHost, mounted: str) -> None:
    before = options_of(mounted)
    with pytest.raises(TuningError, match=r"mount -o remount,.*` failed: .*; everything was put back as it was$"):
        apply(host, setting("vm.stat_interval", "3"), *remounts(mounted, "", "data=journal"))
    assert options_of(mounted) == before


def test_a_text_of_fstab_with_an_error_is_not_written(host: RealHost) -> None:
    text = "tmpfs /tmp tmpfs defaults 0 0\n"
    host.replace_file("/etc/fstab", text, 0o644)
    for line in ("UUID=0-0 /tmp ext4 defaults 0 2", "a line", "tmpfs /nowhere/at/all tmpfs defaults 0 0"):
        with pytest.raises(
            TuningError, match=r"^/etc/fstab would get an error \(.*\), which can stop the next boot; noth"
        ):
            apply(host, FileStep("/etc/fstab", text, f"{text}{line}\n"))
    apply(host, FileStep("/etc/fstab", text, f"{text}# a remark\n"))
    roll_back(host)
    assert host.read_verbatim("/etc/fstab") == text


def test_a_scheduler_takes_the_number_of_requests_with_it_and_brings_it_back(host: RealHost, mounted: str) -> None:
    device = run("findmnt", "-n", "-o", "SOURCE", mounted).strip()
    queue = f"/sys/block/{device.removeprefix('/dev/')}/queue"
    host.write_setting(f"{queue}/scheduler", "mq-deadline")
    host.write_setting(f"{queue}/nr_requests", "300")
    apply(host, SettingStep("disk.scheduler", "", f"{queue}/scheduler", "mq-deadline", "none"))
    assert "[none]" in run("cat", f"{queue}/scheduler")
    assert run("cat", f"{queue}/nr_requests") != "300\n"
    roll_back(host)
    assert "[mq-deadline]" in run("cat", f"{queue}/scheduler")
    assert run("cat", f"{queue}/nr_requests") == "300\n"


def test_a_setting_that_was_empty_is_empty_again(host: RealHost) -> None:
    key = "net.ipv4.ip_local_reserved_ports"
    assert seen(key) == "", "this test needs a host that reserves no ports"
    apply(host, setting(key, "29092"))
    assert seen(key) == "29092"
    roll_back(host)
    assert seen(key) == ""


def test_nothing_is_left_of_the_journal(host: RealHost) -> None:
    apply(host, setting("vm.stat_interval", "3"))
    assert host.exists(APPLIED)
    roll_back(host)
    assert not host.exists(APPLIED)
