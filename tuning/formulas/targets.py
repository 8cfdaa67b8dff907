"""The targets of a scope on a given host: disks, directories, queues, interrupts or units."""

from __future__ import annotations

from ..facts.model import Facts, NetworkInterface
from ..model import Scope
from ..workload import Workload
from .common import data_disks


def targets_of(scope: Scope, facts: Facts, workload: Workload) -> tuple[str, ...]:
    """The targets in a fixed order, each once; `("",)` for the host itself, empty when the host has none."""
    match scope:
        case "mount":
            return tuple(dict.fromkeys(workload.data_dirs))
        case "disk":
            return _data_devices(facts, workload)
        case "unit":
            return tuple(dict.fromkeys(workload.units))
        case "interface":
            return tuple(interface.name for interface in tuned_interfaces(facts))
        case "receive queue":
            return tuple(queue_target(each, queue) for each in tuned_interfaces(facts) for queue in each.rx_queues)
        case "transmit queue":
            return tuple(queue_target(each, queue) for each in tuned_interfaces(facts) for queue in each.tx_queues)
        case "interrupt":
            numbers = (number for interface in tuned_interfaces(facts) for number in interface.irqs)
            return tuple(dict.fromkeys(str(number) for number in numbers if number in facts.interrupts))
        case "frequency policy":
            return tuple(facts.cpu_governors)
        case "host" | "network namespace" | "login":
            return ("",)


def tuned_interfaces(facts: Facts) -> tuple[NetworkInterface, ...]:
    """Interfaces with hardware of their own that are not down, including members of bonds and bridges."""
    return tuple(interface for interface in facts.physical_interfaces() if interface.up is not False)


def queue_target(interface: NetworkInterface, queue: str) -> str:
    return f"{interface.name}/queues/{queue}"


def queue_of(facts: Facts, target: str) -> tuple[NetworkInterface, str] | None:
    """The interface and the queue that a target names; None when the host has no such queue."""
    name, _, queue = target.partition("/queues/")
    interface = facts.network_interfaces.get(name)
    if interface is None or queue not in (*interface.rx_queues, *interface.tx_queues):
        return None
    return interface, queue


def _data_devices(facts: Facts, workload: Workload) -> tuple[str, ...]:
    """The disks under the data directories, then the RAID and LVM devices of the file systems."""
    carriers = (facts.device_of(directory) for directory in workload.data_dirs)
    names = [disk.name for disk in data_disks(facts, workload)]
    return tuple(dict.fromkeys([*names, *(device.name for device in carriers if device is not None)]))
