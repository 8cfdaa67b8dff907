"""How processes of a lab are started: each in its control groups before it does anything, apart from who starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError

# 0 stands for whoever writes it.
_JOIN: Final = """
set -eu
while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs"; shift; done
shift
exec "$@"
"""
_TOOLS: Final = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "losetup": "mount",
    "setsid": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}


def environment() -> dict[str, str]:
    """For programs of the system: not of this project's Python, and in English."""
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "http_proxy", "no_proxy", "TERM")}
    return kept | {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


def in_groups(groups: Sequence[Path], command: Sequence[str]) -> list[str]:
    return ["sh", "-c", _JOIN, "sh", *map(str, groups), "--", *command]


def start(groups: Sequence[Path], command: Sequence[str], output: Path, variables: Mapping[str, str]) -> None:
    """Have a command run on after this process has ended; what it prints is added to a file."""
    for group in groups:
        group.mkdir(exist_ok=True)
    with output.open("ab") as file:
        subprocess.run(
            in_groups(groups, ("setsid", "--fork", *command)),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**environment(), **variables},
            cwd="/",
            check=True,
        )


def require_root_and_tools(more: Mapping[str, str]) -> None:
    """Installs what is missing, where that is Debian's way. Raises UsageError with the way out.

    more: further commands, each with the package that it comes with.
    """
    if os.geteuid() != 0:
        raise UsageError("a lab can be made and taken away by root alone (mounts, loop devices, a bridge); use sudo")
    path = environment()["PATH"]
    missing = sorted({package for tool, package in {**_TOOLS, **more}.items() if shutil.which(tool, path=path) is None})
    if not missing:
        return
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    if shutil.which("apt-get", path=path) is None:
        raise UsageError(f"missing here: {', '.join(missing)} (Debian's names); install them, then run this again")
    for step in (["apt-get", "update", "-q"], command):
        done = subprocess.run(
            step,
            env=environment() | {"DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
            raise UsageError(f"{' '.join(step)} failed: {said}")
