"""Builds /proc, /sys and /etc of a host that this machine is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater.tuning.steps import MOUNT_FLAGS

GIB = 2**30
INITIAL_PID_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True)
class Disk:
    """A disk with one partition, mounted on `mount_point`."""

    name: str
    mount_point: str
    rotational: bool = False
    schedulers: str = "[none] mq-deadline kyber bfq"
    mount_options: str = "rw,relatime"

    @property
    def partition(self) -> str:
        return f"{self.name}p1" if self.name[-1].isdigit() else f"{self.name}1"


SYSCTLS: Mapping[str, str] = {
    "vm.swappiness": "60",
    "vm.dirty_background_bytes": "0",
    "vm.dirty_background_ratio": "10",
    "vm.dirty_bytes": "0",
    "vm.dirty_ratio": "20",
    "vm.dirty_expire_centisecs": "3000",
    "vm.dirty_writeback_centisecs": "500",
    "vm.max_map_count": "65530",
    "vm.min_free_kbytes": "67584",
    "vm.watermark_scale_factor": "10",
    "vm.vfs_cache_pressure": "100",
    "vm.zone_reclaim_mode": "0",
    "vm.overcommit_memory": "0",
    "kernel.numa_balancing": "0",
    "kernel.core_pattern": "|/usr/lib/systemd/systemd-coredump %P",
    "kernel.panic_on_oops": "0",
    "kernel.pid_max": "4194304",
    "kernel.threads-max": "513000",
    "fs.aio-max-nr": "65536",
    "fs.aio-nr": "0",
    "fs.file-max": "9223372036854775807",
    "fs.nr_open": "1048576",
    "net.core.rmem_max": "212992",
    "net.core.wmem_max": "212992",
    "net.core.somaxconn": "4096",
    "net.ipv4.tcp_rmem": "4096\t131072\t6291456",
    "net.ipv4.tcp_wmem": "4096\t16384\t4194304",
}

QUEUE_FILES: Mapping[str, str] = {
    "scheduler": "[mq-deadline] kyber bfq none",
    "nomerges": "0",
    "read_ahead_kb": "128",
    "nr_requests": "64",
    "max_sectors_kb": "1280",
    "max_hw_sectors_kb": "32767",
    "write_cache": "write back",
    "wbt_lat_usec": "75000",
    "rq_affinity": "1",
    "logical_block_size": "512",
    "minimum_io_size": "512",
    "optimal_io_size": "0",
    "discard_max_bytes": "0",
}


def make_host(
    root: Path,
    *,
    memory_bytes: int = 64 * GIB,
    available_bytes: int | None = None,
    kernel: str = "6.1.0-18-amd64",
    sysctls: Mapping[str, str | None] | None = None,
    disks: Sequence[Disk] = (Disk("sda", "/data"),),
    swaps: str = "",
    pid_namespace: str = INITIAL_PID_NAMESPACE,
    read_only_proc_sys: bool = False,
    nofile: tuple[int, int] = (1024, 524288),
    capabilities: str = "000001ffffffffff",
) -> Path:
    """Write the tree; a sysctl of None is a key that this kernel or namespace does not have."""
    available = available_bytes if available_bytes is not None else memory_bytes * 9 // 10
    write(root, "/proc/meminfo", f"MemTotal: {memory_bytes // 1024} kB\nMemAvailable: {available // 1024} kB\n")
    write(root, "/proc/swaps", f"Filename Type Size Used Priority\n{swaps}")
    write(root, "/proc/cpuinfo", "processor : 0\nmodel name : Example CPU\nflags : fpu tsc\n")
    write(root, "/proc/self/cgroup", "0::/\n")
    write(root, "/proc/self/limits", f"Limit Soft Hard Units\nMax open files {nofile[0]} {nofile[1]} files\n")
    write(root, "/proc/self/status", f"Name: cat\nCapEff: {capabilities}\nCapBnd: {capabilities}\n")
    write(root, "/proc/sys/kernel/osrelease", f"{kernel}\n")
    write(root, "/proc/sys/kernel/random/boot_id", "0c1a3a6e-0000-4000-8000-000000000001\n")
    for key, value in {**SYSCTLS, **(sysctls or {})}.items():
        if value is not None:
            write(root, sysctl_path(key), f"{value}\n")
    namespace = root / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to(pid_namespace)
    write(root, "/sys/devices/system/cpu/online", "0-7\n")
    write(root, "/proc/interrupts", "           CPU0       CPU1\n")
    write(root, "/proc/net/softnet_stat", "000003e8 00000000 00000000 00000000\n")
    write(root, "/proc/net/netstat", "TcpExt: ListenOverflows ListenDrops\nTcpExt: 0 0\n")
    write(root, "/sys/class/net/lo/mtu", "65536\n")
    write(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(
        root,
        "/sys/kernel/mm/transparent_hugepage/defrag",
        "always defer defer+madvise [madvise] never\n",
    )
    write(root, "/sys/kernel/mm/ksm/run", "0\n")
    write(root, "/etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    for directory in ("etc/sysctl.d", "etc/systemd/system", "etc/security/limits.d"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    mounts = ["1 0 0:1 / / rw,relatime - ext4 /dev/root rw", "2 1 0:2 / /proc rw - proc proc rw"]
    if read_only_proc_sys:
        mounts.append("3 2 0:2 /sys /proc/sys ro,relatime - proc proc rw")
    for number, disk in enumerate(disks):
        _add_disk(root, disk, number)
        words = disk.mount_options.split(",")
        flags = [word for word in words if word in ("rw", "ro", *MOUNT_FLAGS)]
        others = ["rw", *(word for word in words if word not in flags)]
        place = f"8:{16 * number + 1} / {disk.mount_point}"
        mounts.append(f"{number + 10} 1 {place} {','.join(flags)} - ext4 /dev/{disk.partition} {','.join(others)}")
    write(root, "/proc/self/mountinfo", "\n".join(mounts) + "\n")
    return root


def make_big_host(root: Path, *, disks: int = 200, queues: int = 64, cpus: int = 128) -> Path:
    """A two-socket host: one disk per data directory /data/0, /data/1, …, and one interface with many queues."""
    make_host(
        root, disks=[Disk(f"sd{_letters(number)}", f"/data/{number}", rotational=True) for number in range(disks)]
    )
    for name, first, last in (("node0", 0, cpus // 2 - 1), ("node1", cpus // 2, cpus - 1)):
        write(root, f"/sys/devices/system/node/{name}/cpulist", f"{first}-{last}\n")
        write(root, f"/sys/devices/system/node/{name}/meminfo", f"Node {name[4:]} MemTotal: {32 * GIB // 1024} kB\n")
    write(root, "/sys/devices/system/cpu/online", f"0-{cpus - 1}\n")
    for number in range(cpus):
        policy = f"/sys/devices/system/cpu/cpufreq/policy{number}"
        write(root, f"{policy}/scaling_governor", "schedutil\n")
        write(root, f"{policy}/scaling_available_governors", "performance schedutil powersave\n")
    for disk in range(disks):
        base = f"/sys/block/sd{_letters(disk)}"
        for name, text in QUEUE_FILES.items():
            write(root, f"{base}/queue/{name}", f"{text}\n")
        write(root, f"{base}/bdi/max_ratio", "100\n")
        write(root, f"{base}/bdi/strict_limit", "0\n")
    add_interface(root, "eth0", queues=queues, cpus=cpus)
    write(root, "/proc/net/softnet_stat", "000003e8 00000000 00000000\n" * cpus)
    return root


def add_interface(root: Path, name: str, *, queues: int = 1, cpus: int = 8, speed: str = "25000") -> None:
    """A physical network interface that is up, with an interrupt per queue, from number 100 on."""
    base = f"/sys/class/net/{name}"
    # As the kernel writes masks: groups of 32 CPUs, or as many digits as fewer CPUs need.
    mask = ",".join(["0" * 8] * (cpus // 32)) if cpus > 32 else "0" * max(1, cpus // 4)
    for file, text in {"mtu": "1500", "speed": speed, "operstate": "up", "device/numa_node": "0"}.items():
        write(root, f"{base}/{file}", f"{text}\n")
    (root / f"sys/class/net/{name}/device/driver").symlink_to("../../../../bus/pci/drivers/ice")
    heading = " ".join(f"CPU{number}" for number in range(cpus))
    lines = []
    for queue in range(queues):
        write(root, f"{base}/queues/rx-{queue}/rps_cpus", f"{mask}\n")
        write(root, f"{base}/queues/rx-{queue}/rps_flow_cnt", "0\n")
        write(root, f"{base}/queues/tx-{queue}/xps_cpus", f"{mask}\n")
        number = 100 + queue
        write(root, f"{base}/device/msi_irqs/{number}", "msix\n")
        write(root, f"/proc/irq/{number}/smp_affinity_list", f"0-{cpus - 1}\n")
        write(root, f"/proc/irq/{number}/effective_affinity_list", f"{queue % cpus}\n")
        lines.append(f"{number}: {' 0' * cpus} IR-PCI-MSIX-0000:5e:00.0 {queue}-edge {name}-TxRx-{queue}")
    write(root, "/proc/interrupts", "\n".join([heading, *lines]) + "\n")


def write(root: Path, path: str, text: str) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def sysctl_path(key: str) -> str:
    return "/proc/sys/" + key.replace(".", "/")


def read_sysctl(root: Path, key: str) -> str:
    return (root / sysctl_path(key).lstrip("/")).read_text("utf-8").strip()


def snapshot(root: Path) -> dict[str, str]:
    """Every regular file below `root` with its text."""
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in root.rglob("*") if path.is_file()}


def _add_disk(root: Path, disk: Disk, number: int) -> None:
    base = f"/sys/block/{disk.name}"
    write(root, f"{base}/dev", f"8:{16 * number}\n")
    write(root, f"{base}/size", "1953525168\n")
    write(root, f"{base}/queue/rotational", f"{int(disk.rotational)}\n")
    write(root, f"{base}/queue/scheduler", f"{disk.schedulers}\n")
    write(root, f"{base}/device/model", "Example Disk\n")
    write(root, f"{base}/{disk.partition}/partition", "1\n")
    write(root, f"{base}/{disk.partition}/dev", f"8:{16 * number + 1}\n")


def _letters(number: int) -> str:
    """The kernel's names of many disks: a, b, …, z, aa, ab, …"""
    name = ""
    while number >= 0:
        name = chr(ord("a") + number % 26) + name
        number = number // 26 - 1
    return name
