"""The facts of a host as values, for formulas, checks and reports.

An unknown fact is None or empty, with the reason in `Facts.unknown`. The other modules of this package read the facts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Final, Literal, NamedTuple

from ..hostfiles import HostFiles
from .reading import parse_whole
from .units import Limit, Unit, read_unit

Medium = Literal["hdd", "ssd", "nvme"]
BlockDeviceKind = Literal[
    "disk",  # SCSI, SATA, MMC and everything else with a controller of its own
    "nvme",
    "virtio",  # virtio or Xen: the hypervisor hides what lies below
    "raid",  # md
    "lvm",
    "crypt",
    "multipath",
    "device mapper",
    "loop",
    "zram",
    "virtual",  # memory or network: it has no disk that could be tuned
]
InterfaceKind = Literal["physical", "virtio", "bond", "bridge", "vlan", "veth", "loopback", "virtual"]
MountLayer = Literal["mount", "superblock"]
"""Where the kernel keeps a mount option: with one mount, or with the file system that several mounts may show."""
SwapForm = Literal["fstab", "systemd", "zram-generator", "dphys-swapfile"]
CgroupVersion = Literal["v1", "v2", "hybrid"]

_CAP_SYS_RESOURCE: Final = 24
# The kernel's own views, which say nothing about where a log can be kept.
_PSEUDO_FILESYSTEMS: Final = frozenset(
    {"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"}
    | {"fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "sysfs", "tracefs"}
)


class Choice(NamedTuple):
    """One of several words that the kernel offers, as of a governor or a clock source."""

    current: str | None
    available: tuple[str, ...]


@dataclass(frozen=True)
class NumaNode:
    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | None


@dataclass(frozen=True)
class Memory:
    total_bytes: int | None = None
    available_bytes: int | None = None
    cgroup_limit_bytes: int | None = None
    """The tightest memory limit of this process's control group and its ancestors; None when there is none."""
    page_bytes: int | None = None

    @property
    def usable_bytes(self) -> int | None:
        """Available memory, or the control group's limit where that is less: page cache is charged to the group."""
        known = [size for size in (self.available_bytes, self.cgroup_limit_bytes) if size is not None]
        return min(known) if self.available_bytes is not None else None

    @property
    def budget_bytes(self) -> int | None:
        """All memory that is there to be divided: of the host, or of the control group where that is less."""
        known = [size for size in (self.total_bytes, self.cgroup_limit_bytes) if size is not None]
        return min(known) if self.total_bytes is not None else None


@dataclass(frozen=True)
class Swap:
    """An active swap device or file."""

    device: str
    kind: str
    size_bytes: int
    used_bytes: int
    priority: int = 0


@dataclass(frozen=True)
class SwapSource:
    """Something that turns swap on at boot."""

    form: SwapForm
    path: str
    """The file that turns it on."""
    device: str
    """The device or file it names, as written there; empty where the tool finds one itself."""
    masked: bool = False
    """A unit that is linked to /dev/null, or a configuration that an empty file hides: it turns nothing on."""


@dataclass(frozen=True)
class Mount:
    mount_point: str
    filesystem: str
    source: str
    device_number: str
    mount_options: tuple[str, ...]
    """Options of this mount alone: other mounts of the same file system have their own."""
    root: str = "/"
    """The part of the file system that is mounted: not / for a bind mount or a btrfs subvolume."""
    superblock_options: tuple[str, ...] = ()
    """Options of the file system, and so of all its mounts."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the mount, then of its superblock, each once; `ro` when either is read-only."""
        # "rw" of the superblock does not undo "ro" of the mount.
        of_superblock = (option for option in self.superblock_options if option not in ("ro", "rw"))
        options = dict.fromkeys([*self.mount_options, *of_superblock])
        if "ro" in self.superblock_options:
            options = dict.fromkeys(["ro" if option == "rw" else option for option in options])
        return tuple(options)

    def options_of(self, layer: MountLayer) -> tuple[str, ...]:
        return self.mount_options if layer == "mount" else self.superblock_options


@dataclass(frozen=True)
class BlockDevice:
    """A whole disk, or a layer over disks (RAID, LVM) made of `members`, which are disks or partitions."""

    name: str
    device_number: str
    size_bytes: int
    rotational: bool | None
    model: str | None
    scheduler: str | None
    schedulers: tuple[str, ...]
    members: tuple[str, ...] = ()
    partitions: Mapping[str, str] = field(default_factory=dict)
    """Device number of each partition to its name."""
    kind: BlockDeviceKind = "disk"
    raid_level: str | None = None
    """The level of an md array, as the kernel writes it: raid0, raid1, raid10, raid5…"""
    backing_file: str | None = None
    """The file below a loop device."""
    queue: Mapping[str, str] = field(default_factory=dict)
    """Files of queue/ by name: nomerges, read_ahead_kb, write_cache, … A file that is missing is left out."""
    bdi: Mapping[str, str] = field(default_factory=dict)
    """Files of bdi/ (its backing device information) by name: max_ratio, strict_limit, …"""
    udev: Mapping[str, str] = field(default_factory=dict)
    """What udev knows of it: ID_SERIAL, ID_WWN, ID_PATH; of layers DM_UUID, MD_UUID."""

    @property
    def medium(self) -> Medium | None:
        if self.rotational is None or (self.rotational and self.name.startswith(("vd", "xvd"))):
            return None  # Linux marks virtio and Xen disks as rotational whatever lies below them
        if self.rotational:
            return "hdd"
        return "nvme" if self.name.startswith("nvme") else "ssd"

    def queue_number(self, name: str) -> int | None:
        """A file of queue/ as a number; None when it is missing or holds something else."""
        return parse_whole(self.queue.get(name, ""))


@dataclass(frozen=True)
class Interrupt:
    number: int
    name: str
    """The last column of /proc/interrupts, such as `eth0-TxRx-3` or `virtio2-input.0`."""
    affinity: tuple[int, ...] | None
    """CPUs that may take it (smp_affinity_list)."""
    effective_affinity: tuple[int, ...] | None
    """CPUs that do take it, chosen by the interrupt controller from `affinity`."""


@dataclass(frozen=True)
class NetworkInterface:
    name: str
    kind: InterfaceKind
    driver: str | None
    up: bool | None
    speed_bits_per_s: int | None
    mtu: int | None
    rx_queues: tuple[str, ...]
    """`rx-0`, `rx-1`, … in the order of their numbers."""
    tx_queues: tuple[str, ...]
    rps_cpus: Mapping[str, str]
    """The CPU mask of each receive queue, as the kernel writes it."""
    rps_flow_cnt: Mapping[str, int]
    xps_cpus: Mapping[str, str]
    irqs: tuple[int, ...]
    """Numbers of its interrupts, in `Facts.interrupts`; those of a virtio interface are its device's."""
    master: str | None = None
    """The bond or bridge it belongs to."""
    members: tuple[str, ...] = ()
    """The interfaces below a bond, bridge or VLAN."""
    numa_node: int | None = None

    @property
    def virtual(self) -> bool:
        """Whether it has no device of its own; only its members can be tuned."""
        return self.kind not in ("physical", "virtio")


@dataclass(frozen=True)
class Softnet:
    """Sums over all CPUs since boot (/proc/net/softnet_stat)."""

    processed: int
    dropped: int
    """Packets that found the backlog (netdev_max_backlog) full."""
    time_squeeze: int
    """Times that a round of receiving ended with work left (netdev_budget)."""


@dataclass(frozen=True)
class ControlGroup:
    """The limits of this process's control group and its ancestors; None: no limit, or unknown."""

    version: CgroupVersion | None = None
    path: str | None = None
    """The path in the hierarchy of the memory controller."""
    memory_max_bytes: int | None = None
    memory_high_bytes: int | None = None
    memory_swap_max_bytes: int | None = None
    cpu_limit: float | None = None
    """A number of CPUs: quota by period."""
    cpus: tuple[int, ...] | None = None
    """CPUs that the group may use (cpuset)."""
    pids_max: int | None = None
    io_max: tuple[str, ...] = ()
    """Lines of io.max, or blkio.throttle files of version 1 as `8:0 wbps=…`."""


@dataclass(frozen=True)
class Namespaces:
    """Whether each namespace of this process is the initial one of the kernel; None: unknown."""

    network: bool | None = None
    pid: bool | None = None
    user: bool | None = None
    root_is_mapped: bool | None = None
    """Whether user 0 of a user namespace stands for another user of the host, as in unprivileged containers."""


@dataclass(frozen=True)
class Systemd:
    running: bool
    """systemd manages this system now (sd_booted(3))."""
    version: int | None


@dataclass(frozen=True)
class Competitor:
    """Another program or file that sets settings of the catalogue."""

    name: str
    what: str
    """One line: its effect on settings."""
    path: str
    """The file or unit that shows its presence."""


@dataclass(frozen=True)
class Facts:
    files: HostFiles = field(repr=False, compare=False)
    kernel_release: str | None = None
    kernel_version: tuple[int, int] | None = None
    """Major and minor of the release; None when it does not begin with them."""
    operating_system: str | None = None
    cpu_model: str | None = None
    cpus_online: tuple[int, ...] = ()
    cpus_isolated: tuple[int, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    cpu_governors: Mapping[str, Choice] = field(default_factory=dict)
    """Governors by frequency policy (`policy0`, `policy1`, …); empty where the hypervisor or the firmware decides."""
    boost: bool | None = None
    """None where there is no switch for it."""
    smt: bool | None = None
    """Whether processors share cores; None: unknown."""
    clocksource: Choice = field(default=Choice(None, ()))
    memory: Memory = Memory()
    swaps: tuple[Swap, ...] | None = None
    swap_sources: tuple[SwapSource, ...] = ()
    mounts: tuple[Mount, ...] = ()
    filesystem_uuids: Mapping[str, str] = field(default_factory=dict)
    """Kernel name of a device (sda1, dm-0) to the UUID of the file system on it."""
    block_devices: tuple[BlockDevice, ...] = ()
    network_interfaces: Mapping[str, NetworkInterface] = field(default_factory=dict)
    interrupts: Mapping[int, Interrupt] = field(default_factory=dict)
    """Those of the network interfaces."""
    softnet: Softnet | None = None
    tcp_ext: Mapping[str, int] = field(default_factory=dict)
    """Counters since boot: ListenOverflows, ListenDrops, TCPBacklogDrop, …"""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """Limits of this process: nofile, nproc, memlock (bytes)."""
    effective_capabilities: int | None = None
    """CapEff of this process, a bit for each of capabilities(7)."""
    bounding_capabilities: int | None = None
    """CapBnd: all capabilities that root can have here."""
    control_group: ControlGroup = ControlGroup()
    namespaces: Namespaces = Namespaces()
    container: str | None = None
    """docker, podman, lxc, kubernetes, systemd-nspawn, … or `unidentified`; None for no container."""
    virtual_machine: str | None = None
    systemd: Systemd = Systemd(False, None)
    competitors: tuple[Competitor, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)

    @property
    def cpu_count(self) -> int | None:
        return len(self.cpus_online) or None

    @property
    def can_raise_limits(self) -> bool | None:
        """Whether root can have CAP_SYS_RESOURCE here; without it (many containers) no hard limit can be raised."""
        if self.bounding_capabilities is None:
            return None
        return bool(self.bounding_capabilities >> _CAP_SYS_RESOURCE & 1)

    @property
    def cgroup_version(self) -> CgroupVersion | None:
        return self.control_group.version

    @property
    def nofile_soft(self) -> int | None:
        """None when it is not known, and for the rare process without a limit."""
        return self.limits["nofile"].soft if "nofile" in self.limits else None

    @property
    def nofile_hard(self) -> int | None:
        return self.limits["nofile"].hard if "nofile" in self.limits else None

    def as_json(self) -> dict[str, Any]:
        """Plain data for a result file; mounts of the kernel's pseudo file systems are left out."""
        tree = {
            item.name: getattr(self, item.name)
            for item in dataclasses.fields(self)
            if item.name not in ("files", "mounts")
        }
        tree["cpu_count"] = self.cpu_count
        tree["mounts"] = [mount for mount in self.mounts if mount.filesystem not in _PSEUDO_FILESYSTEMS]
        return {name: _plain(value) for name, value in tree.items()}

    def mount_of(self, path: str) -> Mount | None:
        """The mount that holds `path`, which need not exist yet."""
        if path not in self._mount_by_path:
            self._mount_by_path[path] = self._find_mount(path)
        return self._mount_by_path[path]

    def block_device(self, number_or_name: str) -> BlockDevice | None:
        """The whole device with this name or number, or with a partition of this name or number."""
        return self._device_by_name.get(number_or_name)

    def disks_of(self, path: str) -> list[BlockDevice]:
        """The disks under `path`, through partitions, RAID and LVM; empty when it is not on a local disk."""
        device = self.device_of(path)
        return self._leaves(device) if device else []

    def device_of(self, path: str) -> BlockDevice | None:
        """The block device that carries the file system of `path`: a disk, or a layer over disks."""
        if path not in self._device_by_path:
            self._device_by_path[path] = self._find_device(path)
        return self._device_by_path[path]

    def read_only_mount(self, path: str) -> str | None:
        """The mount point that makes a file of /proc or /sys read-only (as containers do), None when none does."""
        mount = self.mount_of(path)
        return mount.mount_point if mount and "ro" in mount.options else None

    def unit(self, name: str) -> Unit:
        """A systemd service unit (or a template `x@.service` with its instances), read from its files."""
        if name not in self._units:
            self._units[name] = read_unit(self.files, name)
        return self._units[name]

    def physical_interfaces(self) -> tuple[NetworkInterface, ...]:
        """Those with a device of their own, the members of bonds and bridges among them."""
        return tuple(interface for interface in self.network_interfaces.values() if not interface.virtual)

    @cached_property
    def _mount_by_path(self) -> dict[str, Mount | None]:
        return {}

    @cached_property
    def _device_by_path(self) -> dict[str, BlockDevice | None]:
        return {}

    @cached_property
    def _units(self) -> dict[str, Unit]:
        return {}

    @cached_property
    def _device_by_name(self) -> dict[str, BlockDevice]:
        found: dict[str, BlockDevice] = {}
        for device in self.block_devices:
            for key in (device.device_number, device.name, *device.partitions, *device.partitions.values()):
                found.setdefault(key, device)
        return found

    @cached_property
    def _mount_at(self) -> dict[str, Mount]:
        """Mounts by mount point: a later mount on the same point hides the earlier one."""
        return {mount.mount_point: mount for mount in self.mounts}

    def _find_mount(self, path: str) -> Mount | None:
        real = self.files.real_path(path)
        above = (real, *map(str, PurePosixPath(real).parents))
        return next((self._mount_at[folder] for folder in above if folder in self._mount_at), None)

    def _find_device(self, path: str) -> BlockDevice | None:
        mount = self.mount_of(path)
        if mount is None:
            return None
        device = self.block_device(mount.device_number)
        if device is None and mount.source.startswith("/dev/"):
            # btrfs and overlays report a device number of no device; the source still names one.
            device = self.block_device(mount.source.removeprefix("/dev/"))
        return device

    def _leaves(self, device: BlockDevice) -> list[BlockDevice]:
        if not device.members:
            return [device]
        leaves: dict[str, BlockDevice] = {}
        for member in device.members:
            below = self.block_device(member)
            for leaf in self._leaves(below) if below else []:
                leaves[leaf.name] = leaf
        return list(leaves.values())


def _plain(value: Any) -> Any:
    if isinstance(value, BlockDevice):
        return {**_plain_fields(value), "medium": value.medium}
    if isinstance(value, Mount):
        return {**_plain_fields(value), "options": list(value.options)}
    if isinstance(value, Choice | Limit):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_fields(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _plain_fields(value: Any) -> dict[str, Any]:
    return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
