"""Who can change a setting: in a container, a network namespace, a virtual machine."""

from __future__ import annotations

from typing import Final

HOST_ONLY: Final = "root of the host; a container sees it read-only or shares it with every neighbour; free in a VM"
HOST_SYSFS: Final = "root of the host through /sys, which containers mount read-only; free in a VM"
NETWORK_NAMESPACE: Final = "root of the network namespace: of a container it is set when the container is made"
NETWORK_READ_ONLY: Final = "root of the host; a network namespace of its own shows it read-only or not at all"
NETWORK_HOST: Final = "root of the host; absent from any network namespace but the first"
SWAP: Final = "root of the host or of a VM; a container can only be kept from swap by its memory limit"
UNIT: Final = "root of the system whose systemd runs the unit; a container's limits come from its engine"
LOGIN: Final = "root of the system that people log in to; within the hard limit that the container or VM was given"
MOUNT: Final = "root where the mount was made: host or VM; a container's volumes are mounted for it"
BLOCK_QUEUE: Final = "root of the host or VM that owns the device; containers mount /sys read-only"
INTERFACE: Final = "root of the host or VM that owns the interface; what a virtual NIC offers is up to the hypervisor"
PROCESSOR: Final = "root of the bare-metal host; a hypervisor mostly hides or ignores it"
BOOT: Final = "whoever owns the boot loader, and a restart of the machine"
MAKE: Final = "root of the host or VM, before there is data: it destroys what is there"
