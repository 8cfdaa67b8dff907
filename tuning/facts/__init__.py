"""Collects facts about a host from /proc, /sys, /etc and /run, below any root.

Collecting never fails: if a file is missing or not readable, its fact is None and `Facts.unknown` has the reason.
`model` defines the facts, the modules named after parts of the host read them, `capture` saves the files that were
read, and `capabilities` decides which settings can be changed from here.
"""

from __future__ import annotations

from pathlib import Path

from ..hostfiles import HostFiles
from .captured import files_of
from .competitors import read_competitors
from .control_groups import read_control_group
from .disks import read_block_devices
from .filesystems import read_filesystem_uuids, read_mounts
from .memory import read_memory
from .model import Facts
from .network import read_interrupt_names, read_interrupts, read_network_interfaces, read_softnet, read_tcp_ext
from .platform import (
    read_capabilities,
    read_container,
    read_kernel,
    read_limits,
    read_namespaces,
    read_operating_system,
    read_systemd,
    read_virtual_machine,
)
from .processors import read_processors
from .reading import Reader
from .swap import read_swap_sources, read_swaps


def collect(root: Path = Path("/")) -> Facts:
    """Read the facts of the host whose files are below `root` (a captured tree works as well as `/`).

    Raises TuningError for a captured tree whose marker is damaged, and for nothing else.
    """
    return collect_from(files_of(root))


def collect_from(files: HostFiles) -> Facts:
    reader = Reader(files)
    mounts = read_mounts(reader)
    processors = read_processors(reader)
    group = read_control_group(reader, mounts)
    release, version = read_kernel(reader)
    effective_capabilities, bounding_capabilities = read_capabilities(reader)
    namespaces = read_namespaces(reader)
    interrupt_names = read_interrupt_names(reader)
    interfaces = read_network_interfaces(reader, interrupt_names)
    return Facts(
        files=files,
        kernel_release=release,
        kernel_version=version,
        operating_system=read_operating_system(reader),
        cpu_model=processors.model,
        cpus_online=processors.online,
        cpus_isolated=processors.isolated,
        numa_nodes=processors.numa_nodes,
        cpu_governors=processors.governors,
        boost=processors.boost,
        smt=processors.smt,
        clocksource=processors.clocksource,
        memory=read_memory(reader, group),
        swaps=read_swaps(reader),
        swap_sources=read_swap_sources(reader),
        mounts=mounts,
        filesystem_uuids=read_filesystem_uuids(reader),
        block_devices=read_block_devices(reader),
        network_interfaces=interfaces,
        interrupts=read_interrupts(reader, interfaces, interrupt_names),
        softnet=read_softnet(reader),
        tcp_ext=read_tcp_ext(reader),
        limits=read_limits(reader),
        effective_capabilities=effective_capabilities,
        bounding_capabilities=bounding_capabilities,
        control_group=group,
        namespaces=namespaces,
        container=read_container(reader, namespaces),
        virtual_machine=read_virtual_machine(reader),
        systemd=read_systemd(reader),
        competitors=read_competitors(reader),
        unknown=reader.unknown,
    )
