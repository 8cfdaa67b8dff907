"""A plan as a shell script: what a shell makes of it on a made tree, and what shellcheck says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from highwater.tuning.script import StateChange, commands_of, render_script, state_changes_of
from highwater.tuning.steps import CommandStep, FileStep, RemountStep, SettingStep, Step, SwapOffStep
from tests.tuning.host_tree import read_sysctl, snapshot, write

DROP_IN = "/etc/systemd/system/broker.service.d/90-highwater.conf"
STEPS: Sequence[Step] = (
    SettingStep("vm.swappiness", "", "/proc/sys/vm/swappiness", "60", "1"),
    SettingStep("vm.dirty_bytes", "", "/proc/sys/vm/dirty_bytes", "0", "3221225472", "/proc/sys/vm/dirty_ratio", "20"),
    SettingStep("net.ipv4.tcp_rmem", "", "/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456", "4096 131072 33554432"),
    SettingStep("thp.enabled", "", "/sys/kernel/mm/transparent_hugepage/enabled", "always", "madvise"),
    RemountStep("/data", ("rw", "relatime"), ("rw", "noatime"), "mount"),
    SwapOffStep("/swap file", "file", -2),
    FileStep("/etc/sysctl.d/90-highwater.conf", None, "vm.swappiness = 1\n"),
    FileStep(DROP_IN, None, "[Service]\nLimitNOFILE=100000\n", why="file limit"),
    FileStep("/etc/fstab", "UUID=1 / ext4 errors=remount-ro 0 1", 'UUID=1 / ext4 noatime 0 1\n# it\'s 100 % "ours"\n'),
    FileStep("/etc/old.conf", "old $HOME\n", None),
    CommandStep(("systemctl", "daemon-reload"), ("systemctl", "daemon-reload"), "drop-ins"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """As the steps found it."""
    tree = tmp_path / "a host"
    write(tree, "/proc/sys/vm/swappiness", "60\n")
    write(tree, "/proc/sys/vm/dirty_bytes", "0\n")
    write(tree, "/proc/sys/vm/dirty_ratio", "20\n")
    write(tree, "/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n")
    write(tree, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    write(tree, "/etc/fstab", "UUID=1 / ext4 errors=remount-ro 0 1").chmod(0o640)
    write(tree, "/etc/old.conf", "old $HOME\n")
    write(tree, "/proc/self/mountinfo", "20 1 8:1 / /data rw,relatime shared:1 - ext4 /dev/sda1 rw,commit=5\n")
    write(tree, "/proc/swaps", "Filename Type Size Used Priority\n/swap\\040file file 1024 512 -2\n")
    write(tree, "/proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 1024 kB\n")
    (tree / "etc/sysctl.d").mkdir()
    return tree


def _script(tmp_path: Path, steps: Sequence[Step] = STEPS) -> Path:
    script = tmp_path / "tune.sh"
    mounts = {"/data": "/dev/sda1"}
    text = render_script(("A test of it: 100 %.", ""), state_changes_of(steps), commands_of(steps), mounts)
    script.write_text(text, encoding="utf-8")
    return script


def _run(script: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HIGHWATER_ROOT": str(root)}
    return subprocess.run(
        ["/bin/sh", str(script), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_it_changes_what_the_steps_change(tmp_path: Path, root: Path) -> None:
    done = _run(_script(tmp_path), root)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_sysctl(root, "vm.swappiness") == "1"
    assert read_sysctl(root, "vm.dirty_bytes") == "3221225472"
    assert read_sysctl(root, "vm.dirty_ratio") == "20"  # a kernel makes it 0 by itself; this one is a file
    assert read_sysctl(root, "net.ipv4.tcp_rmem") == "4096 131072 33554432"
    assert (root / "etc/sysctl.d/90-highwater.conf").read_text("utf-8") == "vm.swappiness = 1\n"
    assert (root / DROP_IN[1:]).stat().st_mode & 0o777 == 0o644
    fstab = root / "etc/fstab"
    assert fstab.read_text("utf-8") == 'UUID=1 / ext4 noatime 0 1\n# it\'s 100 % "ours"\n'
    assert fstab.stat().st_mode & 0o777 == 0o640
    assert not (root / "etc/old.conf").exists()
    assert f"not run below {root}: mount -o remount,bind,rw,noatime /dev/sda1 /data" in done.stdout
    assert f"not run below {root}: swapoff /swap file" in done.stdout
    assert f"not run below {root}: systemctl daemon-reload" in done.stdout
    saved = root / "var/lib/highwater-tuning/by-script"
    assert (saved / "proc/sys/vm/swappiness").read_text("utf-8") == "60\n"
    assert (saved / "etc/old.conf").read_text("utf-8") == "old $HOME\n"
    again = _run(_script(tmp_path), root)
    assert (again.returncode, "has been run here before" in again.stderr) == (2, True)


def test_it_takes_everything_back(tmp_path: Path, root: Path) -> None:
    before = snapshot(root)
    script = _script(tmp_path)
    assert _run(script, root).returncode == 0
    undone = _run(script, root, "undo")
    assert (undone.returncode, undone.stderr) == (0, "")
    expected = before | {
        "proc/sys/net/ipv4/tcp_rmem": "4096 131072 6291456\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always\n",
        # No kernel is here that would make it 0 for the other's sake.
        "proc/sys/vm/dirty_bytes": "3221225472\n",
    }
    assert snapshot(root) == expected
    assert not (root / DROP_IN[1:]).parent.exists()
    assert f"not run below {root}: swapon /swap file" in undone.stdout
    assert _run(script, root, "undo").returncode == 2


def test_what_somebody_changed_since_is_left_alone(tmp_path: Path, root: Path) -> None:
    script = _script(tmp_path)
    assert _run(script, root).returncode == 0
    write(root, "/proc/sys/vm/swappiness", "10\n")
    write(root, "/etc/fstab", "theirs\n")
    undone = _run(script, root, "undo")
    assert undone.returncode == 0
    assert undone.stdout.count("left alone, as somebody changed it since") == 2
    assert read_sysctl(root, "vm.swappiness") == "10"
    assert (root / "etc/fstab").read_text("utf-8") == "theirs\n"


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("/proc/sys/vm/swappiness", "10\n", "/proc/sys/vm/swappiness is '10', and was '60' when this script was"),
        ("/etc/fstab", "theirs\n", "/etc/fstab is not as it was"),
        ("/etc/sysctl.d/90-highwater.conf", "", "/etc/sysctl.d/90-highwater.conf was not there"),
        (
            "/proc/self/mountinfo",
            "20 1 8:1 / /data rw,nosuid,relatime - ext4 /dev/sda1 rw\n",
            "mount /data is 'rw,nosuid,relatime', and was 'rw,relatime'",
        ),
        ("/proc/swaps", "Filename Type Size Used Priority\n", "/swap\\040file was swap when this script was written"),
        ("/proc/meminfo", "MemAvailable: 1000 kB\n", "swap holds 512 KiB, and 1000 KiB of memory are available"),
        ("/var/lib/highwater-tuning/session.jsonl", "", "a benchmark has, or left, a host profile in force"),
    ],
)
def test_it_stops_before_its_first_change_on_another_host(
    tmp_path: Path, root: Path, path: str, text: str, complaint: str
) -> None:
    write(root, path, text)
    before = snapshot(root)
    refused = _run(_script(tmp_path), root)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert complaint in refused.stderr
    assert snapshot(root) == before


@pytest.mark.parametrize("form", ["link", "link to nowhere", "name of a linked file"])
@pytest.mark.parametrize("path", ["/etc/fstab", "/etc/old.conf", "/etc/sysctl.d/90-highwater.conf"])
def test_it_replaces_no_link(tmp_path: Path, root: Path, path: str, form: str) -> None:
    place, elsewhere = root / path[1:], root / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    elif form != "link to nowhere":
        elsewhere.write_text("")
    if form == "name of a linked file":
        place.hardlink_to(elsewhere)
    else:
        place.symlink_to(elsewhere)
        if form == "link to nowhere":
            elsewhere.unlink(missing_ok=True)
    refused = _run(_script(tmp_path), root)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert f"{path} " in refused.stderr
    assert place.is_symlink() == (form != "name of a linked file")
    assert place.is_symlink() or place.samefile(elsewhere)
    assert not (root / "var/lib").exists()


def test_a_write_without_effect_stops_it_part_way(tmp_path: Path, root: Path) -> None:
    (root / "proc/sys/vm/nothing").symlink_to("/dev/null")
    steps = (STEPS[0], SettingStep("vm.nothing", "", "/proc/sys/vm/nothing", "", "1"), STEPS[2])
    script = _script(tmp_path, steps)
    stopped = _run(script, root)
    assert stopped.returncode == 3
    assert "the write of '1' had no effect" in stopped.stderr
    assert f"to undo the changes: sh {script} undo" in stopped.stderr
    assert read_sysctl(root, "net.ipv4.tcp_rmem") == "4096\t131072\t6291456"
    assert _run(script, root, "undo").returncode == 0
    assert read_sysctl(root, "vm.swappiness") == "60"


def test_it_says_how_it_is_called(tmp_path: Path, root: Path) -> None:
    refused = _run(_script(tmp_path), root, "redo")
    assert (refused.returncode, "usage: sh" in refused.stderr) == (2, True)


def test_the_way_back_is_a_script_of_moves(tmp_path: Path, root: Path) -> None:
    resource = STEPS[1].resource  # type: ignore[union-attr]
    names = "/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"
    ours, original = dict(zip(names, ("3221225472", "0"), strict=True)), dict(zip(names, ("0", "20"), strict=True))
    text = render_script((), [StateChange(resource, ours, original)], (), {})
    assert "write_setting /proc/sys/vm/dirty_ratio 20\n" in text


@pytest.mark.parametrize("steps", [STEPS, ()], ids=["steps of every kind", "nothing"])
def test_shellcheck_has_nothing_to_say(tmp_path: Path, steps: Sequence[Step]) -> None:
    script = _script(tmp_path, steps)
    checked = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), "--shell=sh", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert checked.stdout == ""
    assert checked.returncode == 0
