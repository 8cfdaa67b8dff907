"""Who can change a setting, on hosts, in containers, network namespaces and virtual machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HOST_ONLY: Final = "root of the host or of a VM; a container sees it read-only or shares it with all others"
HOST_SYSFS: Final = "root of the host or of a VM through /sys, which containers mount read-only"
NETWORK_NAMESPACE: Final = "root of the network namespace; for a container, it is set when the container is created"
NETWORK_READ_ONLY: Final = "root of the host; a network namespace of its own shows it read-only or not at all"
NETWORK_HOST: Final = "root of the host; absent from any network namespace but the first"
SWAP: Final = "root of the host or of a VM; for a container, only its memory limit can exclude it from swap"
UNIT: Final = "root of the system whose systemd runs the unit; a container's limits come from its engine"
LOGIN: Final = "root of the system that people log in to, within the hard limit of the container or VM"
MOUNT: Final = "root of the host or VM that made the mount; a container's volumes are mounted from outside"
BLOCK_QUEUE: Final = "root of the host or VM that owns the device; containers mount /sys read-only"
INTERFACE: Final = "root of the host or VM that owns the interface; what a virtual NIC offers is up to the hypervisor"
PROCESSOR: Final = "root of the bare-metal host; a hypervisor mostly hides or ignores it"
BOOT: Final = "whoever owns the boot loader, and a restart of the machine"
MAKE: Final = "root of the host or VM, before there is data: it destroys existing data"

BY_SCOPE: Final[Mapping[str, str]] = {
    "host": HOST_ONLY,
    "network namespace": NETWORK_NAMESPACE,
    "unit": UNIT,
    "login": LOGIN,
    "mount": MOUNT,
    "disk": BLOCK_QUEUE,
    "interface": INTERFACE,
    "receive queue": INTERFACE,
    "transmit queue": INTERFACE,
    "frequency policy": PROCESSOR,
    "interrupt": INTERFACE,
}
"""For most knobs of each scope."""
