"""A host of a lab with a kernel of its own: a virtual machine (QEMU), with KVM where this machine has it.

It shows what hosts that share a kernel cannot: vm.*, block queues set by udev, fstab read by systemd, swap, and a boot.
Three disks: the root, whose changes go with the lab; a hard disk that turns (rotational, slowed down as in
tests/lab/disks.py); a solid state disk (NVMe).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from highwater.bench.storage.block_tools import run
from highwater.bench.storage.emulated_hdd import DEFAULT_LIMITS
from tests.lab import disks, groups, guest_image, hosts, processes
from tests.lab.record import DISKS, Node, Record, Store

TOOLS: Final = {"mkfs.ext4": "e2fsprogs", "qemu-system-x86_64": "qemu-system-x86"}
_KVM: Final = Path("/dev/kvm")
_MEMORY: Final = "3G"
_CPUS: Final = "2"
# All that there is, but for what KVM within a virtual machine often cannot give on.
_PROCESSOR: Final = "max,arch-capabilities=off"
# Without KVM every instruction is translated.
_SLOWER_WITHOUT_KVM: Final = 10
_FIRST_LINE_WITHIN_S: Final = 20.0
_TRIAL: Final = "_kvm"
_COMMAND_LINE: Final = "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet"
# Disks have the names that they have in the other kind of host; their serial number says which is which.
_DISK_NAMES: Final = "".join(
    f'SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", ENV{{{key}}}=="lab-*", SYMLINK+="disk/by-id/$env{{{key}}}"\n'
    for key in ("ID_SERIAL_SHORT", "ID_SCSI_SERIAL")
)

# $1 is the host's directory, $2 its root disk.
_WRITE_IDENTITY: Final = """
set -eu
mount -o loop "$2" "$1/root"
cp -r --preserve=mode "$1/identity/." "$1/root/"
umount "$1/root"
"""


def must_be_emulated(image: Path, tell: Callable[[str], None]) -> bool:
    """Whether KVM cannot be used, which a short boot tells: some machines have a /dev/kvm that boots no Debian."""
    why = f"{_KVM} cannot be opened"
    if os.access(_KVM, os.R_OK | os.W_OK):
        console = image / "trial.log"
        console.unlink(missing_ok=True)
        trial = [*_machine(image, "kvm", console), "-append", "console=ttyS0 panic=-1", "-no-reboot"]
        process = subprocess.Popen(
            processes.in_groups(groups.make(_TRIAL, "kvm"), trial),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=processes.environment(),
        )
        deadline_s = time.monotonic() + _FIRST_LINE_WITHIN_S
        says_something = False
        while not says_something and process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.1)
            says_something = console.exists() and "Linux version" in console.read_text("utf-8", "replace")
        process.kill()
        process.wait()
        groups.remove(_TRIAL)
        if says_something:
            return False
        why = f"{_KVM} is there, but a kernel says nothing for {_FIRST_LINE_WITHIN_S:.0f} s"
    tell(f"WITHOUT KVM ({why}): guests are emulated, and up to {_SLOWER_WITHOUT_KVM} times slower")
    return True


def patience(record: Record) -> int:
    """How many times slower than with KVM whatever a guest does may be."""
    return _SLOWER_WITHOUT_KVM if record.is_emulated else 1


def prepare(store: Store, record: Record, node: Node) -> None:
    """Its disks, and on the first of them the files that make it this host and no other."""
    hosts.prepare(store, record, node)
    directory = store.of_node(node)
    rules = directory / "identity/etc/udev/rules.d/99-lab-disks.rules"
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text(_DISK_NAMES, encoding="utf-8")
    root = directory / guest_image.ROOT_DISK
    run("cp", "--sparse=always", "--reflink=auto", str(Path(record.guest_image) / guest_image.ROOT_DISK), str(root))
    script = ("unshare", "--mount", "--propagation", "private", "sh", "-c", _WRITE_IDENTITY, "sh")
    run(*script, str(directory), str(root))
    for disk in DISKS:
        path = store.disk_image(node, disk)
        path.touch(0o600)
        os.truncate(path, disks.SIZE_BYTES)


def start(store: Store, record: Record, node: Node) -> None:
    """Boot it; its bridge and its groups are there."""
    interface = tap(node)
    if not Path("/sys/class/net", interface).exists():
        run("ip", "tuntap", "add", "dev", interface, "mode", "tap")
    run("ip", "link", "set", interface, "master", record.bridge, "up")
    processes.start(
        groups.make(node.lab, node.name), command(store, record, node), store.directory / f"{node.name}.qemu.log", {}
    )


def remove(node: Node) -> None:
    """End it, and take its interface away."""
    groups.remove(node.lab, node.name)
    if Path("/sys/class/net", tap(node)).exists():
        run("ip", "link", "delete", tap(node))


def tap(node: Node) -> str:
    return f"vt-{node.lab}-{node.name}"


def command(store: Store, record: Record, node: Node) -> list[str]:
    limits = ",".join(
        f"throttling.{name}={value}"
        for names, value in (
            (("bps-read", "bps-write"), DEFAULT_LIMITS.bandwidth_bytes_per_s),
            (("iops-read", "iops-write"), DEFAULT_LIMITS.operations_per_s),
        )
        for name in names
    )
    return [
        *_machine(Path(record.guest_image), "tcg" if record.is_emulated else "kvm", store.console(node)),
        "-name",
        node.machine,
        "-append",
        _COMMAND_LINE,
        "-drive",
        f"file={store.of_node(node) / guest_image.ROOT_DISK},format=raw,if=virtio,discard=unmap",
        "-drive",
        f"file={store.disk_image(node, 'hdd')},format=raw,if=none,id=hdd,{limits}",
        "-device",
        "virtio-scsi-pci",
        "-device",
        "scsi-hd,drive=hdd,serial=lab-hdd,rotation_rate=7200",
        "-drive",
        f"file={store.disk_image(node, 'ssd')},format=raw,if=none,id=ssd",
        "-device",
        "nvme,drive=ssd,serial=lab-ssd",
        "-netdev",
        f"tap,id=network,ifname={tap(node)},script=no,downscript=no",
        "-device",
        f"virtio-net-pci,netdev=network,mac=52:54:00:57:{node.network:02x}:{node.number:02x}",
        "-device",
        "virtio-rng-pci",
    ]


def _machine(image: Path, accelerator: str, console: Path) -> list[str]:
    return [
        "qemu-system-x86_64",
        "-machine",
        f"q35,accel={accelerator}",
        "-cpu",
        _PROCESSOR,
        "-smp",
        _CPUS,
        "-m",
        _MEMORY,
        "-nodefaults",
        "-display",
        "none",
        "-serial",
        f"file:{console}",
        "-kernel",
        str(image / guest_image.KERNEL),
        "-initrd",
        str(image / guest_image.INITRD),
    ]
