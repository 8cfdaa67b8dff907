"""Reads mounted file systems with their live options, and the UUIDs of file systems."""

from __future__ import annotations

from typing import Final

from ..boot_files.fstab import unescaped
from .model import Mount
from .reading import Reader

_BY_UUID: Final = "/dev/disk/by-uuid"


def read_mounts(reader: Reader) -> tuple[Mount, ...]:
    """Lines of mountinfo(5) in mount order; invalid lines are skipped."""
    mounts = []
    for line in (reader.required("mounts", "/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(" "), after.split(" ")
        if len(left) < 6 or len(right) < 2:
            continue
        mounts.append(
            Mount(
                mount_point=unescaped(left[4]),
                filesystem=right[0],
                source=unescaped(right[1]),
                device_number=left[2],
                mount_options=tuple(left[5].split(",")),
                root=unescaped(left[3]),
                superblock_options=tuple(right[2].split(",")) if len(right) > 2 else (),
            )
        )
    return tuple(mounts)


def read_filesystem_uuids(reader: Reader) -> dict[str, str]:
    """Kernel name of a device to the UUID of its file system, from the links that udev makes."""
    links = ((uuid, reader.files.link(f"{_BY_UUID}/{uuid}")) for uuid in reader.files.names(_BY_UUID))
    return {link.rpartition("/")[2]: uuid for uuid, link in links if link}
