"""A host's files for a test of its own: a process in a mount namespace, with copies of what the playbooks write.

Mounts that are made there, and all that is written below /etc, /var/lib, /run and /mnt, end with the process. Block
devices are the machine's: a test brings loop devices. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import cloudpickle

_CLONE_NEWNS = 0x00020000
_FSTAB = (
    "# made by the installer\nproc\t/proc  proc  defaults 0 0 # as ever\n\nUUID=0e0f /boot ext2 defaults,nofail 0 2\n"
)


def why_not() -> str | None:
    """Why there can be no such host here; None when there can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("mkfs.ext4", "losetup", "wipefs", "unshare", "mkswap") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    tried = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return f"no loop device: {tried.stderr.strip()}" if tried.returncode else None


def on_private_host(folder: Path, body: Callable[[], None]) -> None:
    """Run `body` there, in a process of its own; its failure is this one's.

    A fresh process and no fork: pytest's process has threads of clients that other tests made, and a fork of it may
    die of them.
    """
    (folder / "body").write_bytes(cloudpickle.dumps(body))  # type: ignore[no-untyped-call]
    command = [sys.executable, "-m", __name__, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise AssertionError(ended.stderr or f"the process ended with status {ended.returncode}")


def run_until_killed(body: Callable[[], None]) -> bool:
    """Run `body` in a process; whether something ended that process with SIGKILL. Its failure is this one's."""
    with child(body) as pid:
        _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "its failure is on standard error"
    return os.WIFSIGNALED(status)


@contextmanager
def child(body: Callable[[], None]) -> Iterator[int]:
    pid = os.fork()
    if pid:
        yield pid
        return
    try:
        body()
        sys.stdout.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def unshare_mounts() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount("--make-rprivate", "/")


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _enter(folder: Path) -> None:
    unshare_mounts()
    etc = folder / "etc"
    shutil.copytree("/etc", etc, symlinks=True)
    (etc / "fstab").write_text(_FSTAB, encoding="utf-8")
    mount("--bind", etc, "/etc")
    for place in ("/var/lib", "/run", "/mnt"):
        mount("-t", "tmpfs", "tmpfs", place)


@contextmanager
def loop_devices(folder: Path, count: int, size_bytes: int = 32 << 20) -> Iterator[list[str]]:
    """Blank disks; what is on them goes with them."""
    devices: list[str] = []
    try:
        for number in range(count):
            image = folder / f"disk{number}.img"
            with image.open("wb") as file:
                file.truncate(size_bytes)
            made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=True)
            devices.append(made.stdout.strip())
        yield devices
    finally:
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=True)


if __name__ == "__main__":
    here = Path(sys.argv[1])
    _enter(here)
    cloudpickle.loads((here / "body").read_bytes())()
