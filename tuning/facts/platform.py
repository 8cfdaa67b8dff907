"""Reads kernel, system, container, virtual machine, namespaces, capabilities and systemd of a host."""

from __future__ import annotations

import re
from typing import Final

from .model import Namespaces, Systemd
from .reading import Reader
from .units import Limit, parse_limits

# Inode numbers of the namespaces that the kernel itself makes: PROC_*_INIT_INO of include/linux/proc_ns.h.
_INITIAL_PID: Final = "pid:[4026531836]"
_INITIAL_USER: Final = "user:[4026531837]"
# Debian has a folder of libraries per architecture.
_SYSTEMD_LIBRARIES: Final = (
    "/usr/lib/systemd",
    "/lib/systemd",
    "/usr/lib64/systemd",
    *(f"/usr/lib/{cpu}-linux-gnu/systemd" for cpu in ("x86_64", "aarch64", "powerpc64le", "riscv64", "s390x")),
)
# Files that container engines create, the most specific first.
_CONTAINER_MARKERS: Final = (
    ("/.dockerenv", "docker"),
    ("/run/.containerenv", "podman"),
    ("/run/secrets/kubernetes.io", "kubernetes"),
    ("/dev/lxd/sock", "lxd"),
)
_CONTAINER_GROUPS: Final = (
    ("kubepods", "kubernetes"),
    ("/docker", "docker"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
    ("/machine.slice/", "systemd-nspawn"),
)
# Clock sources that identify a hypervisor, if the firmware's tables do not.
_HYPERVISOR_CLOCKS: Final = (
    ("kvm-clock", "KVM"),
    ("hyperv_clocksource_tsc_page", "Hyper-V"),
    ("xen", "Xen"),
)


def parse_kernel_version(release: str) -> tuple[int, int] | None:
    """Major and minor of `6.18.5-x`, `5.14.0-503.el9` or `6.12-rc3`; None for a release that begins otherwise."""
    match = re.match(r"([0-9]{1,3})\.([0-9]{1,3})(?!\w)", release)
    return (int(match[1]), int(match[2])) if match else None


def read_kernel(reader: Reader) -> tuple[str | None, tuple[int, int] | None]:
    release = reader.required("kernel_release", "/proc/sys/kernel/osrelease")
    version = parse_kernel_version(release) if release is not None else None
    if version is None:
        reader.unknown["kernel_version"] = (
            reader.unknown["kernel_release"]
            if release is None
            else f"kernel release {release!r} begins with no version"
        )
    return release, version


def read_operating_system(reader: Reader) -> str | None:
    name = reader.match("operating_system", "/etc/os-release", r"^PRETTY_NAME=(.+)$")
    return name.strip("\"'") if name else None


def read_limits(reader: Reader) -> dict[str, Limit]:
    limits = parse_limits(reader.required("nofile", "/proc/self/limits") or "")
    if "nofile" not in limits:
        reader.unknown.setdefault("nofile", "/proc/self/limits does not tell")
    return limits


def read_capabilities(reader: Reader) -> tuple[int | None, int | None]:
    """The effective and the bounding set of this process, a bit for each of capabilities(7)."""
    effective = reader.match("effective_capabilities", "/proc/self/status", r"^CapEff:\s*([0-9a-f]{1,16})$")
    bounding = reader.match("bounding_capabilities", "/proc/self/status", r"^CapBnd:\s*([0-9a-f]{1,16})$")
    return int(effective, 16) if effective else None, int(bounding, 16) if bounding else None


def read_namespaces(reader: Reader) -> Namespaces:
    pid, user = reader.files.link("/proc/self/ns/pid"), reader.files.link("/proc/self/ns/user")
    return Namespaces(
        network=_initial_network(reader),
        pid=None if pid is None else pid == _INITIAL_PID,
        user=None if user is None else user == _INITIAL_USER,
        root_is_mapped=_root_is_mapped(reader.optional("/proc/self/uid_map")),
    )


def _root_is_mapped(uid_map: str | None) -> bool | None:
    """user_namespaces(7): first user inside, first user outside, how many."""
    if uid_map is None:
        return None
    rows = [line.split() for line in uid_map.splitlines()]
    return not any(row[:2] == ["0", "0"] for row in rows)


def _initial_network(reader: Reader) -> bool | None:
    """Whether this is the initial network namespace. Its inode is not constant before Linux 6.17, but its /proc/sys is.

    net/core/sysctl_net_core.c registers netdev_max_backlog and its like for init_net alone.
    """
    if not reader.files.exists("/proc/sys/net/core/somaxconn"):
        return None
    return reader.files.exists("/proc/sys/net/core/netdev_max_backlog")


def read_container(reader: Reader, namespaces: Namespaces) -> str | None:
    """The kind of container, None outside of one. The pid namespace decides; the rest only finds the name."""
    if namespaces.pid:
        return None
    for path in ("/run/systemd/container", "/run/host/container-manager"):
        if named := reader.optional(path):
            return named
    for marker, name in _CONTAINER_MARKERS:
        if reader.files.exists(marker):
            return name
    groups = reader.optional("/proc/self/cgroup") or ""
    for part, name in _CONTAINER_GROUPS:
        if part in groups:
            return name
    if namespaces.pid is None:
        reader.unknown["container"] = "/proc/self/ns/pid cannot be read"
        return None
    return "unidentified"


def read_virtual_machine(reader: Reader) -> str | None:
    flags = reader.optional("/proc/cpuinfo") or ""
    signs = ("/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible")
    if not re.search(r"^flags\s*:.*\bhypervisor\b", flags, re.MULTILINE) and not any(map(reader.files.exists, signs)):
        return None
    vendor = reader.optional("/sys/class/dmi/id/sys_vendor")
    product = reader.optional("/sys/class/dmi/id/product_name")
    clocks = (reader.optional("/sys/devices/system/clocksource/clocksource0/available_clocksource") or "").split()
    of_clock = next((name for clock, name in _HYPERVISOR_CLOCKS if clock in clocks), "")
    return " ".join(word for word in (vendor, product) if word) or of_clock or "unidentified"


def read_systemd(reader: Reader) -> Systemd:
    """Running as sd_booted(3) sees it; the version is in the name of the library that systemd's programs share."""
    libraries = (name for directory in _SYSTEMD_LIBRARIES for name in reader.files.names(directory))
    versions = (re.match(r"libsystemd-(?:shared|core)-([0-9]{1,4})\b", name) for name in libraries)
    version = next((int(match[1]) for match in versions if match), None)
    return Systemd(reader.files.exists("/run/systemd/system"), version)
