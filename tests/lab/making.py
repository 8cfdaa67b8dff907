"""Making a lab and taking it away. Each step is in the record, or follows from it, before it is taken."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.units import size_text
from tests.lab import disks, groups, guest_image, guests, hosts, image, inventory, keys, network, processes
from tests.lab.record import MOST_HOSTS, Node, Record, Store, free_network, held

Tell = Callable[[str], None]

# What one takes with everything installed, and with something written to its disks.
_SPACE_OF_A_HOST_BYTES: Final = 4 << 30


def up(store: Store, count: int, tell: Tell, *, own_kernel: bool = False, suite: str = image.SUITES[0]) -> Record:
    """Make the lab; or boot again those of its hosts that are down. Raises UsageError.

    own_kernel: hosts are virtual machines (tests/lab/guests.py) and not containers. suite: of Debian.
    """
    if not 1 <= count <= MOST_HOSTS:
        raise UsageError(f"a lab has 1 to {MOST_HOSTS} hosts, not {count}")
    processes.require_root_and_tools(guests.TOOLS if own_kernel else {})
    with store.locked():
        record = store.read()
        if record is not None and not (record.is_whole and record.boot_id == _boot_id()):
            tell(f"the lab {store.name} is half made, or of before a reboot: taking it away first")
            _remove(store, record)
            record = None
        if record is not None and _told_of(record) != (told := _told(count, own_kernel, suite)):
            raise UsageError(
                f"the lab {store.name} is up with {_told_of(record)}, not {told}; first: "
                f"python -m tests.lab down --name {store.name}"
            )
        if record is not None and all(hosts.is_up(node) for node in record.nodes):
            tell(f"the lab {store.name} is up")
            return record
        return _make(store, count, tell, own_kernel, suite) if record is None else _boot(store, record, tell)


def down(store: Store) -> bool:
    """Take the lab away, however far it came; whether there was one. Raises UsageError."""
    processes.require_root_and_tools({})
    with store.locked():
        record = store.read()
        if record is not None:
            _remove(store, record)
        store.forget_empty()
    with held(image.lock_of(store.root), wait=False) as nobody_makes_one:
        if nobody_makes_one:
            image.remove_unfinished(store.root)
            image.remove_old(store.root, {other.image for other in store.others()})
    return record is not None


def _told(count: int, own_kernel: bool, suite: str) -> str:
    return f"{count} host(s) of {suite}{' with kernels of their own' if own_kernel else ''}"


def _told_of(record: Record) -> str:
    return _told(record.hosts, bool(record.guest_image), image.suite_of(Path(record.image)))


def _make(store: Store, count: int, tell: Tell, own_kernel: bool, suite: str) -> Record:
    store.root.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(store.root).free
    if free_bytes < count * _SPACE_OF_A_HOST_BYTES:
        raise UsageError(
            f"{store.root} has {size_text(free_bytes)} free, and {count} host(s) take up to "
            f"{size_text(count * _SPACE_OF_A_HOST_BYTES)}; free some, or make a smaller lab"
        )
    base = image.ensure(store.root, suite, tell)
    kernel = str(guest_image.ensure(store.root, base, tell)) if own_kernel else ""
    is_emulated = own_kernel and guests.must_be_emulated(Path(kernel), tell)
    with held(store.root / "_networks.lock", wait=True):
        number = free_network(store.name, store.others(), network.routed())
        record = Record(
            name=store.name,
            network=number,
            hosts=count,
            boot_id=_boot_id(),
            image=str(base),
            guest_image=kernel,
            is_emulated=is_emulated,
        )
        if network.exists(record):
            raise UsageError(f"this machine has an interface {record.bridge} that is no lab's; name the lab otherwise")
        store.write(record)
    network.make(record)
    keys.make(store.key, f"highwater lab {store.name}")
    for node in record.nodes:
        groups.make(node.lab, node.name)
        if own_kernel:
            guests.prepare(store, record, node)
        else:
            hosts.prepare(store, record, node)
            record = disks.make(store, record, node)
    keys.write_client_files(store, record)
    inventory.write(store, record)
    return _boot(store, record, tell)


def _boot(store: Store, record: Record, tell: Tell) -> Record:
    """Start what does not run, and wait for it."""
    _serve(store, record, "proxy", [f"--cache={store.root / '_archive'}", *_archives(record)])
    if record.guest_image:
        _serve(store, record, "clock", [])
    started_s = time.monotonic()
    down_nodes = [node for node in record.nodes if not hosts.is_up(node)]
    kind = guests if record.guest_image else hosts
    for node in down_nodes:
        kind.remove(node)
        kind.start(store, record, node)
    tell(f"booting {', '.join(node.name for node in down_nodes)}")
    patience = guests.patience(record)

    def wait(node: Node) -> None:
        state = hosts.wait_until_ready(store, node, patience)
        tell(f"{node.name} ({node.address}) is {state} after {time.monotonic() - started_s:.1f} s")

    with ThreadPoolExecutor(len(record.nodes)) as pool:
        list(pool.map(wait, record.nodes))
    record = record.model_copy(update={"is_whole": True})
    store.write(record)
    return record


def _serve(store: Store, record: Record, name: str, options: list[str]) -> None:
    """Have tests/lab/<name>.py run on this machine's address on the bridge, if it does not yet."""
    if groups.processes(record.name, name):
        return
    command = [sys.executable, "-m", f"tests.lab.{name}", f"--address={record.gateway}", *options]
    variables = {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    processes.start(groups.make(record.name, name), command, store.directory / f"{name}.log", variables)


def _archives(record: Record) -> list[str]:
    return [f"--archive={host}" for host in image.archives(Path(record.image))]


def _remove(store: Store, record: Record) -> None:
    for node in record.nodes:
        (guests if record.guest_image else hosts).remove(node)
    groups.remove(record.name)
    disks.remove(store, record)
    network.remove(record)
    store.forget()


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
