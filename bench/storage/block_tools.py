"""The programs that make a file into a disk: losetup, mkfs, mount. Each fault is one line of what the program said."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from highwater.common.errors import UsageError

FileSystem = Literal["ext4", "xfs"]

_TIMEOUT_S: Final = 120.0
_TOOLS: Final = {
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
    "blkid": "util-linux",
}
_MAKERS: Final[dict[FileSystem, str]] = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}


@dataclass(frozen=True, slots=True)
class LoopDevice:
    path: str
    """/dev/loopN"""
    direct: bool
    """Whether the device uses direct I/O on the file system below."""
    deleted: bool
    """The file of the device has been deleted."""

    @property
    def name(self) -> str:
        return Path(self.path).name


def require_tools(filesystem: FileSystem = "ext4") -> None:
    """Raises UsageError that names the package of the first program that is missing."""
    for tool, package in {**_TOOLS, f"mkfs.{filesystem}": _MAKERS[filesystem]}.items():
        if shutil.which(tool) is None:
            raise UsageError(f"{tool} is not installed; on Debian and Ubuntu: apt-get install -y {package}")


def loop_device_of(image: Path) -> LoopDevice | None:
    """The loop device that `image` is attached to."""
    printed = run("losetup", "--json", "--list", "--output", "NAME,BACK-FILE,DIO")
    devices = json.loads(printed)["loopdevices"] if printed.strip() else []
    for device in devices:
        file = device["back-file"] or ""
        if file.removesuffix(" (deleted)") == str(image):
            # Older versions of losetup print numbers as text.
            direct = str(device["dio"]).lower() in ("1", "true")
            return LoopDevice(device["name"], direct, file.endswith(" (deleted)"))
    return None


def attach(image: Path) -> LoopDevice:
    """Attach `image` to a loop device. Raises UsageError."""
    run("losetup", "--find", "--direct-io=on", str(image))
    device = loop_device_of(image)
    if device is None:
        raise UsageError(f"{image} was attached to a loop device and is on none; is another program detaching it?")
    return device


def detach(device: LoopDevice) -> None:
    run("losetup", "--detach", device.path)


def filesystem_uuid(image: Path) -> str | None:
    """The UUID of the file system in `image`; None when blkid finds none."""
    done = _call("blkid", "--probe", "--match-tag", "UUID", "--output", "value", str(image))
    return done.stdout.strip() or None


def make_ext4(image: Path, label: str, uuid: str) -> None:
    """Make an empty ext4 with all tables initialised: the kernel would write them later and disturb trials."""
    options = ("-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", "-m", "0")
    run("mkfs.ext4", "-q", "-F", "-L", label, "-U", uuid, *options, str(image))


def make_xfs(image: Path, uuid: str) -> None:
    """Make an empty XFS; its label may have twelve characters only, so it has none."""
    run("mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={uuid}", str(image))


def mount(device: LoopDevice, directory: Path, filesystem: FileSystem = "ext4") -> None:
    run("mount", "-t", filesystem, "-o", "nodev,nosuid", device.path, str(directory))


def unmount(directory: Path) -> None:
    """Unmount. Raises UsageError when the mount is in use."""
    run("umount", str(directory))


def run(*command: str) -> str:
    """Run a program and return its output. Raises UsageError with the first line of its error output."""
    done = _call(*command)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise UsageError(f"{command[0]} failed: {said[0] if said else f'exit status {done.returncode}'}")
    return done.stdout


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UsageError(f"{command[0]} was not done after {_TIMEOUT_S:.0f} s, and was ended") from None
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run: {error.strerror or error}") from None
