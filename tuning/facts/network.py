"""Reads network interfaces with their queues and interrupts, and the counters of lost packets."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Final

from .model import InterfaceKind, Interrupt, NetworkInterface, Softnet
from .reading import Reader, number_in, parse_cpu_list, parse_whole

_NET: Final = "/sys/class/net"
_TCP_COUNTERS: Final = (
    "ListenOverflows",
    "ListenDrops",
    "TCPBacklogDrop",
    "TCPRcvQDrop",
    "PruneCalled",
    "TCPMemoryPressures",
    "TCPReqQFullDrop",
    "TCPReqQFullDoCookies",
)
_KIND_OF_DEVTYPE: Final[Mapping[str, InterfaceKind]] = {"bond": "bond", "bridge": "bridge", "vlan": "vlan"}
# How drivers name the interrupts of their queues, beside those for errors, commands and configuration.
_QUEUE_INTERRUPT: Final = re.compile(r"txrx|tx-|rx-|-tx|-rx|input|output|comp|-fp-|queue|q\d|tr\d|-\d+$", re.IGNORECASE)


def read_network_interfaces(reader: Reader, names_of_interrupts: Mapping[int, str]) -> dict[str, NetworkInterface]:
    names = [name for name in reader.files.names(_NET) if reader.files.exists(f"{_NET}/{name}/mtu")]
    if not names:
        reader.unknown["network_interfaces"] = f"{_NET} is empty or does not exist"
    return {name: _interface(reader, name, names_of_interrupts) for name in names}


def read_interrupt_names(reader: Reader) -> dict[int, str]:
    """Number to name, from the last column of /proc/interrupts; its lines for the processor itself have no number."""
    names = {}
    for line in (reader.required("interrupts", "/proc/interrupts") or "").splitlines()[1:]:
        head, _, rest = line.partition(":")
        number = parse_whole(head.strip())
        if number is not None and rest.split():
            names[number] = rest.rsplit(maxsplit=1)[-1]
    return names


def read_interrupts(
    reader: Reader, interfaces: Mapping[str, NetworkInterface], names: Mapping[int, str]
) -> dict[int, Interrupt]:
    numbers = sorted({number for interface in interfaces.values() for number in interface.irqs})
    return {number: _interrupt(reader, number, names.get(number, "")) for number in numbers}


def read_softnet(reader: Reader) -> Softnet | None:
    """One line per CPU of hexadecimal columns: processed, dropped, time_squeeze, …"""
    text = reader.required("softnet", "/proc/net/softnet_stat")
    rows = [line.split() for line in (text or "").splitlines()]
    try:
        columns = [[int(row[index], 16) for row in rows] for index in range(3)]
    except (ValueError, IndexError):
        columns = []
    if text is None or not rows or not columns:
        reader.unknown.setdefault("softnet", "/proc/net/softnet_stat does not tell")
        return None
    return Softnet(sum(columns[0]), sum(columns[1]), sum(columns[2]))


def read_tcp_ext(reader: Reader) -> dict[str, int]:
    """Counters of lost connections in /proc/net/netstat: a line of names, then a line of numbers."""
    lines = [line.split() for line in (reader.required("tcp_ext", "/proc/net/netstat") or "").splitlines()]
    tables = [line[1:] for line in lines if line and line[0] == "TcpExt:"]
    if len(tables) < 2:
        reader.unknown.setdefault("tcp_ext", "/proc/net/netstat does not tell")
        return {}
    counters = dict(zip(tables[0], tables[1], strict=False))
    numbers = {name: parse_whole(counters.get(name, "")) for name in _TCP_COUNTERS}
    return {name: number for name, number in numbers.items() if number is not None}


def _interface(reader: Reader, name: str, names_of_interrupts: Mapping[int, str]) -> NetworkInterface:
    base = f"{_NET}/{name}"
    driver_link = reader.files.link(f"{base}/device/driver")
    driver = driver_link.rpartition("/")[2] if driver_link else None
    kind = _kind(reader, base, name, driver)
    queues = sorted(reader.files.names(f"{base}/queues"), key=number_in)
    receive = tuple(queue for queue in queues if queue.startswith("rx-"))
    transmit = tuple(queue for queue in queues if queue.startswith("tx-"))
    speed = reader.number(f"{base}/speed")
    flows = {queue: reader.number(f"{base}/queues/{queue}/rps_flow_cnt") for queue in receive}
    state = reader.optional(f"{base}/operstate")
    node = reader.number(f"{base}/device/numa_node")
    master = reader.files.link(f"{base}/master")
    return NetworkInterface(
        name=name,
        kind=kind,
        driver=driver,
        up=None if state in (None, "unknown") else state == "up",
        speed_bits_per_s=speed * 10**6 if speed is not None and speed > 0 else None,
        mtu=reader.number(f"{base}/mtu"),
        rx_queues=receive,
        tx_queues=transmit,
        rps_cpus=_queue_files(reader, base, receive, "rps_cpus"),
        rps_flow_cnt={queue: count for queue, count in flows.items() if count is not None},
        xps_cpus=_queue_files(reader, base, transmit, "xps_cpus"),
        irqs=_interrupt_numbers(reader, base, name, names_of_interrupts) if kind in ("physical", "virtio") else (),
        master=master.rpartition("/")[2] if master else None,
        members=tuple(child.removeprefix("lower_") for child in reader.files.names(base) if child.startswith("lower_")),
        numa_node=node if node is not None and node >= 0 else None,
    )


def _kind(reader: Reader, base: str, name: str, driver: str | None) -> InterfaceKind:
    if name == "lo":
        return "loopback"
    if driver is not None or reader.files.exists(f"{base}/device"):
        return "virtio" if driver == "virtio_net" else "physical"
    devtype = re.search(r"^DEVTYPE=(\w+)$", reader.optional(f"{base}/uevent") or "", re.MULTILINE)
    if devtype:
        return _KIND_OF_DEVTYPE.get(devtype[1], "virtual")
    # Its peer has another index, in this namespace or in another one.
    return "veth" if reader.optional(f"{base}/iflink") != reader.optional(f"{base}/ifindex") else "virtual"


def _queue_files(reader: Reader, base: str, queues: tuple[str, ...], file: str) -> dict[str, str]:
    texts = ((queue, reader.optional(f"{base}/queues/{queue}/{file}")) for queue in queues)
    return {queue: text for queue, text in texts if text is not None}


def _interrupt_numbers(reader: Reader, base: str, name: str, names: Mapping[int, str]) -> tuple[int, ...]:
    """The interrupts of an interface's queues; all interrupts of its device if the names show no queues."""
    listed = reader.files.names(f"{base}/device/msi_irqs")
    device = ""
    if not listed and (link := reader.files.link(base)):
        # …/0000:00:03.0/virtio2/net/eth0: the interrupts of a virtio device are those of the PCI function that it is.
        parts = posixpath.normpath(posixpath.join(_NET, link)).split("/")
        if len(parts) > 3 and parts[-2] == "net":
            device = parts[-3]
            listed = reader.files.names("/".join([*parts[:-3], "msi_irqs"]))
    numbers = {number for text in listed if (number := parse_whole(text)) is not None}
    named = re.compile(rf"^(?:{re.escape(name)}|{re.escape(device or name)})(?:$|[-@:.])")
    numbers |= {number for number, text in names.items() if named.match(text)}
    of_queues = {number for number in numbers if _QUEUE_INTERRUPT.search(names.get(number, ""))}
    return tuple(sorted(of_queues or numbers))


def _interrupt(reader: Reader, number: int, name: str) -> Interrupt:
    affinity = reader.optional(f"/proc/irq/{number}/smp_affinity_list")
    effective = reader.optional(f"/proc/irq/{number}/effective_affinity_list")
    return Interrupt(
        number=number,
        name=name,
        affinity=None if affinity is None else parse_cpu_list(affinity),
        effective_affinity=None if effective is None else parse_cpu_list(effective),
    )
