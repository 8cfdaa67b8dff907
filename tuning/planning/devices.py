"""Maps a setting of /sys to its device, and the device to the match of a udev rule."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Final

from ..boot_files import udev
from ..facts.model import Facts

_DISKS: Final = "/sys/block/"
_INTERFACES: Final = "/sys/class/net/"


class Devices:
    """The devices of a host, as the matches of udev rules."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._matches: dict[str, str] = {}

    def rule_of(self, path: str) -> tuple[str, str]:
        """The udev match of a path's device, and the path below the device; for /sys/block and /sys/class/net."""
        folder = _INTERFACES if path.startswith(_INTERFACES) else _DISKS
        name, _, attribute = path.removeprefix(folder).partition("/")
        device = folder + name
        if device not in self._matches:
            self._matches[device] = self._interface(name) if folder == _INTERFACES else self._disk(name)
        return self._matches[device], attribute

    def _disk(self, name: str) -> str:
        disk = self._facts.block_device(name)
        known = disk.udev.items() if disk else ()
        # Two paths to one disk, or two namespaces of one, share a serial number.
        return udev.disk_match(name, dict(item for item in known if self._count[item] == 1))

    def _interface(self, name: str) -> str:
        """The match of a network interface, whose key in udev's database is `n` and its index."""
        files = self._facts.files
        index = files.read(f"/sys/class/net/{name}/ifindex").text
        lines = (files.read(f"/run/udev/data/n{index}").text or "").splitlines()
        return udev.interface_match(
            name, dict(line[2:].split("=", 1) for line in lines if line[:2] == "E:" and "=" in line)
        )

    @cached_property
    def _count(self) -> Counter[tuple[str, str]]:
        return Counter(item for disk in self._facts.block_devices for item in disk.udev.items())
