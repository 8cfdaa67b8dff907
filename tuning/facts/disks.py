"""Reads block devices: disks, partitions, the layers above them (RAID, LVM, loop), and queues."""

from __future__ import annotations

import re
from typing import Final

from .model import BlockDevice, BlockDeviceKind
from .reading import Reader, parse_whole

_QUEUE_FILES: Final = (
    "scheduler",
    "rotational",
    "nomerges",
    "read_ahead_kb",
    "nr_requests",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "write_cache",
    "wbt_lat_usec",
    "rq_affinity",
    "logical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "discard_max_bytes",
)
_BDI_FILES: Final = ("max_ratio", "min_ratio", "strict_limit")
_UDEV_KEYS: Final = ("ID_SERIAL", "ID_WWN", "ID_PATH", "DM_UUID", "MD_UUID")
_KIND_OF_NAME: Final[tuple[tuple[tuple[str, ...], BlockDeviceKind], ...]] = (
    (("nvme",), "nvme"),
    (("vd", "xvd"), "virtio"),
    (("md",), "raid"),
    (("loop",), "loop"),
    (("zram",), "zram"),
    (("ram", "nbd", "drbd", "rbd", "pmem"), "virtual"),
)
# Prefixes of /sys/block/dm-N/dm/uuid, which whoever made the device has chosen.
_KIND_OF_MAPPING: Final[tuple[tuple[str, BlockDeviceKind], ...]] = (
    ("LVM-", "lvm"),
    ("CRYPT-", "crypt"),
    ("mpath-", "multipath"),
)


def read_block_devices(reader: Reader) -> tuple[BlockDevice, ...]:
    names = reader.files.names("/sys/block")
    if not names:
        reader.unknown["block_devices"] = "/sys/block is empty or does not exist"
    devices = (_block_device(reader, name) for name in names)
    return tuple(device for device in devices if device is not None)


def _block_device(reader: Reader, name: str) -> BlockDevice | None:
    base = f"/sys/block/{name}"
    size = reader.optional(f"{base}/size") or "0"
    if size == "0" or reader.optional(f"{base}/hidden") == "1":
        return None  # a loop device or card reader with nothing in it; one path of a multipath NVMe namespace
    number = reader.optional(f"{base}/dev") or ""
    kind = _kind(reader, name)
    queue = reader.present(f"{base}/queue", _QUEUE_FILES)
    schedulers = queue.get("scheduler", "").split()
    rotational = queue.get("rotational")
    return BlockDevice(
        name=name,
        device_number=number,
        size_bytes=(parse_whole(size) or 0) * 512,
        rotational=None if rotational is None else rotational == "1",
        model=reader.optional(f"{base}/device/model"),
        scheduler=next((word.strip("[]") for word in schedulers if word.startswith("[")), None),
        schedulers=tuple(word.strip("[]") for word in schedulers),
        members=tuple(reader.files.names(f"{base}/slaves")),
        partitions=_partitions(reader, base, name),
        kind=kind,
        raid_level=reader.optional(f"{base}/md/level") if kind == "raid" else None,
        backing_file=reader.optional(f"{base}/loop/backing_file") if kind == "loop" else None,
        queue=queue,
        bdi=reader.present(f"{base}/bdi", _BDI_FILES),
        udev=_udev(reader, number),
    )


def _kind(reader: Reader, name: str) -> BlockDeviceKind:
    if name.startswith("dm-"):
        uuid = reader.optional(f"/sys/block/{name}/dm/uuid") or ""
        return next((kind for prefix, kind in _KIND_OF_MAPPING if uuid.startswith(prefix)), "device mapper")
    return next((kind for prefixes, kind in _KIND_OF_NAME if name.startswith(prefixes)), "disk")


def _partitions(reader: Reader, base: str, name: str) -> dict[str, str]:
    children = (child for child in reader.files.names(base) if child.startswith(name))
    numbered = (
        (reader.optional(f"{base}/{child}/dev"), child)
        for child in children
        if reader.files.exists(f"{base}/{child}/partition")
    )
    return {number: child for number, child in numbered if number}


def _udev(reader: Reader, number: str) -> dict[str, str]:
    """Lines `E:KEY=value` of udev's own database, which is what a rule can match by."""
    text = reader.optional(f"/run/udev/data/b{number}") or ""
    return {key: value for key, value in re.findall(r"^E:(\w+)=(.*)$", text, re.MULTILINE) if key in _UDEV_KEYS}
