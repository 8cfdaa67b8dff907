"""What this host is: kernel, CPUs, memory, swap, mounts, disks, limits; read from /proc and /sys below a root.

A file that is missing or forbidden leaves its fact None and its reason in `Facts.unknown`; collecting never fails.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ..hostfiles import HostFiles
from .model import BlockDevice, Facts, Medium, Memory, Mount, Swap

__all__ = ["BlockDevice", "Facts", "Medium", "Memory", "Mount", "Swap", "collect"]
# PROC_PID_INIT_INO of include/linux/proc_ns.h: the pid namespace that the kernel itself made.
_INITIAL_PID_NAMESPACE: Final = "pid:[4026531836]"
_CAP_SYS_RESOURCE: Final = 24
# cgroup v1 prints "no limit" as LONG_MAX rounded down to a page.
_CGROUP_V1_UNLIMITED_BYTES: Final = 2**62


def collect(root: Path = Path("/")) -> Facts:
    """Read the facts of the host whose files are below `root` (a captured tree works as well as `/`)."""
    return _Collector(HostFiles(root)).collect()


class _Collector:
    def __init__(self, files: HostFiles) -> None:
        self.files = files
        self.unknown: dict[str, str] = {}

    def collect(self) -> Facts:
        mounts = self._mounts()
        nofile_soft, nofile_hard = self._nofile()
        return Facts(
            files=self.files,
            kernel_release=self._text("kernel_release", "/proc/sys/kernel/osrelease"),
            operating_system=self._operating_system(),
            cpu_count=self._cpu_count(),
            cpu_model=self._first_match("cpu_model", "/proc/cpuinfo", r"^(?:model name|Model|cpu)\s*:\s*(.+)$"),
            memory=Memory(
                total_bytes=self._meminfo_bytes("memory.total_bytes", "MemTotal"),
                available_bytes=self._meminfo_bytes("memory.available_bytes", "MemAvailable"),
                cgroup_limit_bytes=self._cgroup_limit_bytes(mounts),
            ),
            swaps=self._swaps(),
            mounts=mounts,
            block_devices=self._block_devices(),
            nofile_soft=nofile_soft,
            nofile_hard=nofile_hard,
            can_raise_limits=self._can_raise_limits(),
            container=self._container(),
            virtual_machine=self._virtual_machine(),
            unknown=self.unknown,
        )

    def _text(self, fact: str, path: str) -> str | None:
        reading = self.files.read(path)
        if reading.text is None:
            self.unknown[fact] = reading.reason
        return reading.text

    def _first_match(self, fact: str, path: str, pattern: str) -> str | None:
        text = self._text(fact, path)
        if text is None:
            return None
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            self.unknown[fact] = f"{path} does not tell"
            return None
        return match[1].strip()

    def _operating_system(self) -> str | None:
        name = self._first_match("operating_system", "/etc/os-release", r"^PRETTY_NAME=(.+)$")
        return name.strip("\"'") if name else None

    def _cpu_count(self) -> int | None:
        text = self._text("cpu_count", "/sys/devices/system/cpu/online")
        if text is None:
            return None
        count = 0
        for part in text.split(","):
            first, _, last = part.partition("-")
            if not first.isdecimal() or (last and not last.isdecimal()):
                self.unknown["cpu_count"] = f"/sys/devices/system/cpu/online holds {text!r}"
                return None
            count += int(last or first) - int(first) + 1
        return count

    def _meminfo_bytes(self, fact: str, key: str) -> int | None:
        kibibytes = self._first_match(fact, "/proc/meminfo", rf"^{key}:\s+(\d+) kB$")
        return int(kibibytes) * 1024 if kibibytes else None

    def _swaps(self) -> tuple[Swap, ...] | None:
        text = self._text("swaps", "/proc/swaps")
        if text is None:
            return None
        rows = (line.split() for line in text.splitlines()[1:])
        return tuple(Swap(row[0], row[1], int(row[2]) * 1024, int(row[3]) * 1024) for row in rows if len(row) >= 4)

    def _mounts(self) -> tuple[Mount, ...]:
        text = self._text("mounts", "/proc/self/mountinfo")
        mounts = []
        for line in (text or "").splitlines():
            before, _, after = line.partition(" - ")
            left, right = before.split(" "), after.split(" ")
            if len(left) < 6 or len(right) < 2:
                continue
            super_options = right[2].split(",") if len(right) > 2 else []
            # Options of the mount come first; "rw" of the superblock does not undo "ro" of the mount.
            options = dict.fromkeys([*left[5].split(","), *(o for o in super_options if o not in ("ro", "rw"))])
            if "ro" in super_options:
                options = dict.fromkeys(["ro" if option == "rw" else option for option in options])
            mounts.append(Mount(_unescape(left[4]), right[0], _unescape(right[1]), left[2], tuple(options)))
        return tuple(mounts)

    def _nofile(self) -> tuple[int | None, int | None]:
        text = self._text("nofile", "/proc/self/limits")
        match = re.search(r"^Max open files\s+(\d+)\s+(\d+)", text or "", re.MULTILINE)
        if match is None:
            self.unknown.setdefault("nofile", "/proc/self/limits does not tell")
            return None, None
        return int(match[1]), int(match[2])

    def _can_raise_limits(self) -> bool | None:
        bounding_set = self._first_match("can_raise_limits", "/proc/self/status", r"^CapBnd:\s*([0-9a-f]+)$")
        return bool(int(bounding_set, 16) >> _CAP_SYS_RESOURCE & 1) if bounding_set else None

    def _block_devices(self) -> tuple[BlockDevice, ...]:
        names = self.files.names("/sys/block")
        if not names:
            self.unknown["block_devices"] = "/sys/block is empty or does not exist"
        devices = (self._block_device(name) for name in names)
        return tuple(device for device in devices if device is not None)

    def _block_device(self, name: str) -> BlockDevice | None:
        base = f"/sys/block/{name}"
        size = self.files.read(f"{base}/size").text or "0"
        if size == "0" or self.files.read(f"{base}/hidden").text == "1":
            return None  # a loop device or card reader with nothing in it; one path of a multipath NVMe namespace
        rotational = self.files.read(f"{base}/queue/rotational").text
        schedulers = (self.files.read(f"{base}/queue/scheduler").text or "").split()
        chosen = next((word.strip("[]") for word in schedulers if word.startswith("[")), None)
        partitions = {
            number: child
            for child in self.files.names(base)
            if self.files.exists(f"{base}/{child}/partition")
            and (number := self.files.read(f"{base}/{child}/dev").text)
        }
        return BlockDevice(
            name=name,
            device_number=self.files.read(f"{base}/dev").text or "",
            size_bytes=int(size) * 512 if size.isdecimal() else 0,
            rotational=None if rotational is None else rotational == "1",
            model=self.files.read(f"{base}/device/model").text,
            scheduler=chosen,
            schedulers=tuple(word.strip("[]") for word in schedulers),
            members=tuple(self.files.names(f"{base}/slaves")),
            partitions=partitions,
        )

    def _cgroup_limit_bytes(self, mounts: tuple[Mount, ...]) -> int | None:
        text = self._text("memory.cgroup_limit_bytes", "/proc/self/cgroup")
        limits: list[int] = []
        for line in (text or "").splitlines():
            hierarchy, _, rest = line.partition(":")
            controllers, _, group = rest.partition(":")
            if hierarchy == "0":
                mounted, limit_file = [m for m in mounts if m.filesystem == "cgroup2"], "memory.max"
            elif "memory" in controllers.split(","):
                mounted = [m for m in mounts if m.filesystem == "cgroup" and "memory" in m.options]
                limit_file = "memory.limit_in_bytes"
            else:
                continue
            for mount in mounted[:1]:
                limits += self._limits_upwards(mount.mount_point, group, limit_file)
        return min(limits, default=None)

    def _limits_upwards(self, mount_point: str, group: str, limit_file: str) -> list[int]:
        """Limits of the group and its ancestors. Inside a container the group's path may lie above what is mounted."""
        parts = [part for part in group.split("/") if part not in ("", "..")]
        paths = ["/".join([mount_point, *parts[:depth], limit_file]) for depth in range(len(parts) + 1)]
        values = [self.files.read(path).text for path in paths]
        return [int(v) for v in values if v and v.isdecimal() and int(v) < _CGROUP_V1_UNLIMITED_BYTES]

    def _container(self) -> str | None:
        """What kind of container this is, None for none. The pid namespace decides; marker files only give the name."""
        namespace = self.files.link("/proc/self/ns/pid")
        if namespace == _INITIAL_PID_NAMESPACE:
            return None
        named = self.files.read("/run/systemd/container").text
        if named:
            return named
        for marker, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
            if self.files.exists(marker):
                return name
        if namespace is None:
            self.unknown["container"] = "/proc/self/ns/pid cannot be read"
            return None
        return "unidentified"

    def _virtual_machine(self) -> str | None:
        flags = self.files.read("/proc/cpuinfo").text or ""
        if not re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE) and not self.files.exists(
            "/sys/hypervisor/type"
        ):
            return None
        vendor = self.files.read("/sys/class/dmi/id/sys_vendor").text
        product = self.files.read("/sys/class/dmi/id/product_name").text
        return " ".join(word for word in (vendor, product) if word) or "unidentified"


def _unescape(text: str) -> str:
    r"""Mount tables write space, tab, newline and backslash as \ooo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
