"""The disks of a lab: files on loop devices, one of each host's slowed down like a hard disk.

What is emulated, and what is not, is told in bench/storage/emulated_hdd.py.
"""

from __future__ import annotations

import errno
import json
import re
import time
from typing import Final

from highwater.bench.storage import block_tools
from highwater.bench.storage.block_tools import LoopDevice
from highwater.bench.storage.control_groups import hierarchies, set_root_limits
from highwater.bench.storage.emulated_hdd import DEFAULT_LIMITS, like_a_disk
from highwater.common.errors import UsageError
from highwater.tuning.facts import collect
from highwater.tuning.hostfiles import HostFiles
from tests.lab import groups
from tests.lab.record import DISKS, LoopSettings, Node, Record, Store

SIZE_BYTES: Final = 4 << 30

_QUEUE: Final = ("scheduler", "rotational", "read_ahead_kb")
_FREE_WITHIN_S: Final = 60.0


def make(store: Store, record: Record, node: Node) -> Record:
    """Attach the disks of a host, their files made when they are not there. Its control groups are there."""
    for disk in DISKS:
        image = store.disk_image(node, disk)
        if not image.exists():
            image.touch(0o600)
            with image.open("r+b") as file:
                file.truncate(SIZE_BYTES)
        device = block_tools.loop_device_of(image) or block_tools.attach(image)
        if str(image) not in record.loops:
            record = record.model_copy(update={"loops": record.loops | {str(image): _settings(device)}})
            store.write(record)
        if disk == "hdd":
            like_a_disk(HostFiles(), device, DEFAULT_LIMITS)
            limit(record.loops[str(image)].device_number, node)
        else:
            HostFiles().write_setting(f"/sys/block/{device.name}/queue/rotational", "0")
    return record


def devices(store: Store, node: Node) -> dict[str, LoopDevice]:
    """The loop device of each disk. Raises UsageError when one is not attached."""
    found = {}
    for disk in DISKS:
        device = block_tools.loop_device_of(store.disk_image(node, disk))
        if device is None:
            raise UsageError(f"the {disk} of {node.name} is not attached; run down, then up")
        found[disk] = device
    return found


def remove(store: Store, record: Record) -> None:
    """Detach every disk of a lab, of which nothing runs any more.

    The limits go first: what a host wrote and the disk does not have yet would come at a hard disk's pace.
    """
    for settings in record.loops.values():
        _unlimit(settings.device_number)
    for image, device in _attached(store):
        if image in record.loops:
            _restore(device, record.loops[image])
        block_tools.run("losetup", "--detach", device)
    # A device that a mount of a host which has just ended still holds goes with that mount.
    deadline_s = time.monotonic() + _FREE_WITHIN_S
    while left := _attached(store):
        if time.monotonic() > deadline_s:
            raise UsageError(f"{left[0][1]} is still in use ({left[0][0]}); see: findmnt {left[0][1]}, then run down")
        time.sleep(0.05)


def _attached(store: Store) -> list[tuple[str, str]]:
    """The image and the loop device of every disk that has its image among the files of this lab."""
    printed = block_tools.run("losetup", "--json", "--list", "--output", "NAME,BACK-FILE")
    listed = json.loads(printed)["loopdevices"] if printed.strip() else []
    pairs = (((loop["back-file"] or "").removesuffix(" (deleted)"), loop["name"]) for loop in listed)
    return [(image, device) for image, device in pairs if image.startswith(f"{store.directory}/")]


def _settings(device: LoopDevice) -> LoopSettings:
    files = HostFiles()
    number = files.read(f"/sys/block/{device.name}/dev").text
    if number is None:
        raise UsageError(f"{device.path} has no device number in /sys/block; is /sys mounted?")
    queue = {name: files.read(f"/sys/block/{device.name}/queue/{name}").text or "" for name in _QUEUE}
    return LoopSettings(device_number=number, queue=queue)


def _restore(device: str, settings: LoopSettings) -> None:
    for name, before in settings.queue.items():
        chosen = re.search(r"\[(.+?)\]", before)  # of a list of schedulers
        path = f"/sys/block/{device.removeprefix('/dev/')}/queue/{name}"
        HostFiles().write_setting(path, chosen[1] if chosen else before)


def limit(device_number: str, node: Node) -> None:
    """Hold a disk to what a hard disk does: in the root group of version 1, in the group of its host in version 2."""
    facts = collect()
    blkio = hierarchies(facts).blkio_v1
    if blkio is not None:
        set_root_limits(facts.files, blkio, device_number, DEFAULT_LIMITS)
        return
    unified = groups.unified_with_io()
    if unified is None:
        raise UsageError("this machine has no control groups to slow a disk down with (v1 blkio, or v2 with io)")
    rate, operations = DEFAULT_LIMITS.bandwidth_bytes_per_s, DEFAULT_LIMITS.operations_per_s
    line = f"{device_number} rbps={rate} wbps={rate} riops={operations} wiops={operations}"
    facts.files.write_setting(str(groups.of_node(unified, node) / "io.max"), line)


def _unlimit(device_number: str) -> None:
    """Of version 1; in version 2 the limits are the host's group's, and are gone with it."""
    facts = collect()
    blkio = hierarchies(facts).blkio_v1
    if blkio is None:
        return
    try:
        set_root_limits(facts.files, blkio, device_number, None)
    except OSError as error:
        if error.errno not in (errno.ENODEV, errno.ENXIO):
            raise
