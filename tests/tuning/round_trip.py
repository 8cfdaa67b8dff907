"""A host to try the ways there and back on: mounts, fstab and files of every kind.

It is a process of `tests.playbooks.private_host`, with mounts of its own: /etc is a copy, /var/lib, /run and /mnt are
empty. Here /dev is a folder too, for the links that udev makes, and /proc/sys/vm is one of plain files, so that the
machine stays as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

from highwater.tuning.facts.filesystems import read_mounts
from highwater.tuning.facts.reading import Reader
from highwater.tuning.hostfiles import HostFiles
from tests.playbooks.shipped import shipped
from tests.tuning.cli.invoking import invoke

Way = Literal["apply", "script", "playbook"]
DISK, DATA, FSTAB = Path("/mnt/disk"), Path("/mnt/data"), Path("/etc/fstab")
FOLDER = DISK / "kafka"
OURS, THEIRS = Path("/etc/sysctl.d/90-highwater.conf"), Path("/etc/sysctl.d/50-theirs.conf")
SETTINGS = Path("/proc/sys/vm")
SYSTEMD_SYSCTL = Path("/usr/lib/systemd/systemd-sysctl")
TRADES = ("mount.commit", "mount.lazytime", "mount.fstab_source")
_NODES = ("null", "zero", "full", "random", "urandom", "tty")


@dataclass(frozen=True)
class World:
    """A host. `shown`: whether the data directory is a folder of the disk's mount, or a mount of that folder."""

    disk_flags: tuple[str, ...]
    filesystem_options: tuple[str, ...]
    shown: Literal["folder", "bind", "layers"]
    data_flags: tuple[str, ...]
    fstab: bytes
    form: Literal["file", "link", "link to nowhere", "second name", "missing"]
    ours: bytes | None
    theirs: bytes
    knobs: frozenset[str]

    @property
    def data_dir(self) -> Path:
        return FOLDER if self.shown == "folder" else DATA


def enter(device: str) -> str:
    """Give this process, which has mounts of its own, /dev and /proc/sys/vm of its own. Returns the disk's UUID."""
    run("mkfs.ext4", "-q", device)
    uuid = run("blkid", "-p", "-s", "UUID", "-o", "value", device).strip()
    devices = Path("/mnt/devices")
    (devices / "disk/by-uuid").mkdir(parents=True)
    for node in (*(Path("/dev") / name for name in _NODES), Path(device)):
        found = node.stat()
        os.mknod(devices / node.name, found.st_mode, found.st_rdev)
        (devices / node.name).chmod(stat.S_IMODE(found.st_mode))
    (devices / "disk/by-uuid" / uuid).symlink_to(f"../../{Path(device).name}")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        (devices / name).symlink_to(f"/proc/self/fd/{number}")
    (devices / "fd").symlink_to("/proc/self/fd")
    run("mount", "--bind", str(devices), "/dev")
    plain = Path("/mnt/vm")
    plain.mkdir()
    for setting in SETTINGS.iterdir():
        if os.access(setting, os.R_OK) and setting.stat().st_mode & stat.S_IRUSR:
            (plain / setting.name).write_bytes(setting.read_bytes())
    run("mount", "--bind", str(plain), str(SETTINGS))
    for place in (DISK, DATA, Path("/mnt/other")):
        place.mkdir()
    run("mount", device, str(DISK))
    FOLDER.mkdir()
    (FOLDER / "log").write_text("a record\n")
    run("umount", str(DISK))
    return uuid


@contextmanager
def host_of(world: World, device: str) -> Iterator[None]:
    """The world while the body runs."""
    mounted = [DISK]
    run("mount", "-o", ",".join(["rw", *world.filesystem_options]), device, str(DISK))
    run("mount", "-o", ",".join(["remount", "bind", *world.disk_flags]), device, str(DISK))
    if world.shown != "folder":
        mounted.append(DATA)
        if world.shown == "bind":
            run("mount", "--bind", str(FOLDER), str(DATA))
        else:
            run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={FOLDER}:/mnt/other", str(DATA))
        run("mount", "-o", ",".join(["remount", "bind", *world.data_flags]), str(DATA))
    (SETTINGS / "swappiness").write_text("60\n")
    _write_files(world)
    try:
        yield
    finally:
        for place in reversed(mounted):
            run("umount", str(place))
        for path in (FSTAB, OURS, THEIRS, Path("/etc/real fstab")):
            path.unlink(missing_ok=True)
        for left in Path("/var/lib").iterdir():
            shutil.rmtree(left)


def _write_files(world: World) -> None:
    real = Path("/etc/real fstab")
    FSTAB.unlink(missing_ok=True)
    if world.form in ("link", "second name"):
        real.write_bytes(world.fstab)
    if world.form == "file":
        FSTAB.write_bytes(world.fstab)
        FSTAB.chmod(0o640)
        os.chown(FSTAB, 0, 4)
    elif world.form == "second name":
        FSTAB.hardlink_to(real)
    elif world.form != "missing":
        FSTAB.symlink_to(real.name)
    THEIRS.write_bytes(world.theirs)
    if world.ours is not None:
        OURS.write_bytes(world.ours)
        OURS.chmod(0o600)


def snapshot() -> dict[str, object]:
    """All of the host that a way could change: files with all their attributes, both layers of each mount, settings."""
    found: dict[str, object] = {}
    for top in ("/etc", "/var/lib", str(SETTINGS)):
        for path in (Path(top), *Path(top).rglob("*")):
            seen = path.lstat()
            content: object = None
            if path.is_symlink():
                content = path.readlink()
            elif path.is_file():
                content = path.read_bytes()
            found[str(path)] = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_nlink if path.is_file() else 0, content)
    for mount in read_mounts(Reader(HostFiles())):
        if mount.mount_point.startswith("/mnt/"):
            found[f"mount {mount.mount_point}"] = (
                mount.source,
                mount.root,
                set(mount.mount_options),
                set(mount.superblock_options),
            )
    return found


def changed(before: dict[str, object]) -> dict[str, tuple[object, object]]:
    """What is not as it was, by its name: before and now."""
    now = snapshot()
    names = sorted({*before, *now})
    return {name: (before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)}


def mountable() -> dict[Path, bool]:
    """Whether each place could be mounted by its line of fstab, as a boot does it; tried in mounts of its own."""
    script = (
        f"umount {DATA} {DISK} 2>/dev/null; umount {DISK} 2>/dev/null; mount {DISK}; echo $?; mount {DATA}; echo $?"
    )
    shown = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=True)
    return dict(zip((DISK, DATA), (status == "0" for status in shown.stdout.split()), strict=True))


def swappiness_after_boot() -> str | None:
    """The value that systemd-sysctl itself sets from the two files of a world; None if it sets none."""
    setting = SETTINGS / "swappiness"
    present = setting.read_text()
    try:
        setting.write_text("")
        files = [str(path) for path in (THEIRS, OURS) if path.exists()]
        subprocess.run([str(SYSTEMD_SYSCTL), *files], capture_output=True, check=False)
        return setting.read_text().strip() or None
    finally:
        setting.write_text(present)


def go(way: Way, world: World, folder: Path) -> str:
    """Go there. Returns the error in one line with which it is refused; empty when it is done."""
    arguments = ["--data-dir", str(world.data_dir)]
    for knob in sorted(world.knobs):
        arguments += ["--only", knob, *(["--accept-risk", knob] if knob in TRADES else [])]
    if way == "playbook":
        return _played("present", world)
    printed = way == "script"
    result = invoke(*(("plan", "--script") if printed else ("apply", "--yes")), *arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    if result.exit_code == 2:
        assert result.stderr.startswith("error: "), result.stderr
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr
    # A plan ends with 1 if it changes something.
    assert result.exit_code in ((0, 1) if printed else (0,)), result.stderr
    if printed:
        (folder / "tune.sh").write_bytes(result.stdout_bytes)
        assert _script(folder) == 0, (folder / "said").read_text()
    return ""


def go_back(way: Way, world: World, folder: Path) -> None:
    if way == "playbook":
        assert _played("absent", world) == ""
    elif way == "apply":
        result = invoke("rollback", "--yes")
        assert result.exit_code == 0, result.output
    else:
        assert _script(folder, "undo") == 0


def _script(folder: Path, *arguments: str) -> int:
    done = subprocess.run(["sh", str(folder / "tune.sh"), *arguments], capture_output=True, check=False)
    assert b"left alone" not in done.stdout, done.stdout
    (folder / "said").write_bytes(done.stderr)
    return done.returncode


def _played(state: Literal["present", "absent"], world: World) -> str:
    """What highwater_tune does of tune.yml and of rollback.yml; the error with which it fails the host."""
    module = shipped("library/highwater_tune.py")
    parameters = {
        "state": state,
        "profile": "recommended",
        "only": sorted(world.knobs),
        "skip": [],
        "accept_risk": [knob for knob in world.knobs if knob in TRADES],
        "workload": {"data_dirs": [str(world.data_dir)]},
        "disks": [],
        "units": [],
        "login_domains": [],
        "keep_swap": True,
        "force": False,
        "root": "/",
    }
    try:
        result = getattr(module, state)(SimpleNamespace(params=parameters, check_mode=False))
    except module.TuningError as error:
        return f"error: {error}\n"
    json.dumps(result).encode()
    return ""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
