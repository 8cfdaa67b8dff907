"""The lab's base image: a Debian tree that hosts lie over, made once and kept until its recipe changes.

The recipe is what this module names and the files below image_tree/. The tree appears whole or not at all; what makes
it runs in a control group and a mount namespace of its own, so that nothing is left of one that was killed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from tests.lab import groups, processes
from tests.lab.record import held

# Debian 12, and 13.
SUITES: Final = ("bookworm", "trixie")
# A server as Debian's installer leaves it, less what a lab has no use for. What roles need they install.
PACKAGES: Final = (
    "ca-certificates",
    "dbus",
    "e2fsprogs",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libpam-systemd",
    "netbase",
    "openssh-server",
    "procps",
    "python3",
    "python3-apt",
    "sudo",
    "systemd",
    "systemd-sysv",
    "tzdata",
    "udev",
)
_ENABLED: Final = ("systemd-networkd.service", "lab-mounts.service")
# Timers of the archive would hold apt's lock whenever they like, and consoles are for whoever stands before a host.
_MASKED: Final = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "console-getty.service",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "systemd-networkd-wait-online.service",
)
_INSIDE: Final = f"""
set -eu
apt-get update
apt-get clean
useradd --create-home --shell /bin/bash lab
systemctl enable {" ".join(_ENABLED)}
systemctl mask {" ".join(_MASKED)}
rm -f /etc/ssh/ssh_host_*_key* /var/lib/dbus/machine-id /var/log/bootstrap.log
for file in /etc/machine-id /etc/resolv.conf /etc/fstab; do : > "$file"; done
"""
_TREE: Final = Path(__file__).parent / "image_tree"
# Debian replaces packages now and then, and then the lists of an old image name files that are gone.
_FRESH_FOR_S: Final = 30 * 86_400
_GROUP: Final = "_image"


def recipe(suite: str) -> str:
    """Names the image that this source makes."""
    digest = hashlib.sha256("\0".join((suite, *PACKAGES, _INSIDE)).encode())
    for path in sorted(path for path in _TREE.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(_TREE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def ensure(labs: Path, suite: str, tell: Callable[[str], None]) -> Path:
    """The tree, made when there is none of this recipe or it is too old. Needs root. Raises UsageError."""
    if (tree := _fresh(labs, suite)) is not None:
        return tree
    with held(lock_of(labs), wait=True):
        if (tree := _fresh(labs, suite)) is not None:
            return tree
        remove_unfinished(labs)
        log = labs / "_image/build.log"
        unfinished = labs / "_image/unfinished"
        unfinished.mkdir(parents=True)
        tell(f"making the image of the hosts (debootstrap {suite}, once, two minutes); see {log}")
        started_s = time.monotonic()
        _build(unfinished, suite, labs / "_archive/debootstrap", log)
        groups.remove(_GROUP)
        tree = labs / "_image" / f"{suite}-{recipe(suite)}-{time.time():.0f}"
        unfinished.rename(tree)
        tell(f"the image is made, in {time.monotonic() - started_s:.0f} s")
    return tree


def lock_of(labs: Path) -> Path:
    return labs / "_base-image.lock"


def suite_of(tree: Path) -> str:
    return tree.name.partition("-")[0]


def archives(tree: Path) -> list[str]:
    """The hosts that its packages come from."""
    lines = (tree / "etc/apt/sources.list").read_text(encoding="utf-8").splitlines()
    return sorted({line.split()[1].split("/")[2] for line in lines if line.startswith("deb ")})


def remove_unfinished(labs: Path) -> None:
    """What a build that was killed left; who calls has the lock of images."""
    groups.remove(_GROUP)
    shutil.rmtree(labs / "_image/unfinished", ignore_errors=True)


def remove_old(labs: Path, used: set[str]) -> None:
    """Images that no lab lies over, and that the next one would not take."""
    keep = used | {str(_fresh(labs, suite)) for suite in SUITES}
    for path in (path for suite in SUITES for path in (labs / "_image").glob(f"{suite}-*")):
        if str(path) not in keep:
            shutil.rmtree(path)


def _fresh(labs: Path, suite: str) -> Path | None:
    """The newest image of this recipe, unless it is too old."""
    made = {path: int(path.name.rpartition("-")[2]) for path in (labs / "_image").glob(f"{suite}-{recipe(suite)}-*")}
    newest = max(made, key=lambda path: made[path], default=None)
    return newest if newest is not None and time.time() - made[newest] < _FRESH_FOR_S else None


def _build(tree: Path, suite: str, cache: Path, log: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    debootstrap = ("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", f"--cache-dir={cache}")
    with log.open("w", encoding="utf-8") as file:
        run_step(_GROUP, (*debootstrap, suite, str(tree)), log, file.fileno())
        for path in sorted(path for path in _TREE.rglob("*") if path.is_file()):
            target = tree / path.relative_to(_TREE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o440 if "sudoers.d" in target.parts else 0o644)
        run_step(_GROUP, ("chroot", str(tree), "/bin/sh", "-c", _INSIDE), log, file.fileno())


def run_step(group: str, command: tuple[str, ...], log: Path, output: int) -> None:
    """A step of making an image, in mounts of its own. Raises UsageError that says what it complained of."""
    in_private_mounts = ("unshare", "--mount", "--propagation", "private", *command)
    done = subprocess.run(
        processes.in_groups(groups.make(group, "build"), in_private_mounts),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=processes.environment(),
        check=False,
    )
    if done.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = next(
            (line for line in reversed(lines) if line.startswith(("E:", "W: Failure"))),
            lines[-1] if lines else "it printed nothing",
        )
        raise UsageError(f"{command[0]} failed: {said}; the whole log: {log}")
