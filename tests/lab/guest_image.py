"""What a guest boots: the lab's Debian with a kernel of its own, as a root disk, a kernel and an initrd; made once."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.lab import groups, image
from tests.lab.record import held

# Of the cloud: the drivers of virtual machines and no firmware, which makes it a third of the other.
KERNEL_PACKAGE: Final = "linux-image-cloud-amd64"
ROOT_DISK: Final = "root.img"
KERNEL: Final = "vmlinuz"
INITRD: Final = "initrd"
_ROOT_SIZE: Final = "8G"
_GROUP: Final = "_guest"

# $1 is where the image comes to be, $2 the lab's tree, $3 the size of the root disk.
_BUILD: Final = f"""
set -eu
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay guest -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /etc/resolv.conf "$1/root/etc/resolv.conf"
chroot "$1/root" apt-get update
DEBIAN_FRONTEND=noninteractive chroot "$1/root" apt-get install -y --no-install-recommends {KERNEL_PACKAGE}
chroot "$1/root" apt-get clean
cp "$1"/root/boot/vmlinuz-* "$1/{KERNEL}"
cp "$1"/root/boot/initrd.img-* "$1/{INITRD}"
echo 'LABEL=root / ext4 errors=remount-ro 0 1' > "$1/root/etc/fstab"
umount "$1/root/proc" "$1/root/etc/resolv.conf"
mkfs.ext4 -q -L root -d "$1/root" "$1/{ROOT_DISK}" "$3"
umount "$1/root"
rm -rf "$1/upper" "$1/work" "$1/root"
"""


def ensure(labs: Path, tree: Path, tell: Callable[[str], None]) -> Path:
    """The directory of the image that lies over `tree`; made when it is not there. Needs root. Raises UsageError."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    made = labs / "_guest" / f"{tree.name}-{recipe}"
    with held(labs / "_guest-image.lock", wait=True):
        if made.is_dir() and made.stat().st_mtime >= tree.stat().st_mtime:
            return made
        groups.remove(_GROUP)
        unfinished = labs / "_guest/unfinished"
        for old in (unfinished, *(labs / "_guest").glob(f"{image.suite_of(tree)}-*")):
            shutil.rmtree(old, ignore_errors=True)
        unfinished.mkdir(parents=True)
        log = labs / "_guest/build.log"
        tell(f"making the image of guests ({KERNEL_PACKAGE}, once, a minute); see {log}")
        started_s = time.monotonic()
        with log.open("w", encoding="utf-8") as file:
            command = ("sh", "-c", _BUILD, "sh", str(unfinished), str(tree), _ROOT_SIZE)
            image.run_step(_GROUP, command, log, file.fileno())
        groups.remove(_GROUP)
        unfinished.rename(made)
        tell(f"the image of guests is made, in {time.monotonic() - started_s:.0f} s")
        return made
