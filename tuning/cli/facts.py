"""`highwater tune facts`: describe this host, or capture its files for analysis elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...common.units import size_text
from ..capture import save
from ..facts.model import BlockDevice, Facts, NetworkInterface
from ..quantities import format_bit_rate
from .documents import print_document
from .options import (
    THIS_HOST,
    DataDirOption,
    JsonOption,
    RootOption,
    UnitOption,
    errors_in_one_line,
    facts_of,
    workload_of,
)
from .printing import console, describe_host, print_pairs


@dataclass(frozen=True)
class FactsDocument:
    facts: Facts
    schema: Literal["tuning.facts/1"] = "tuning.facts/1"


def facts(
    save_to: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="DIR", help="Copy the files that were read into this new directory, for --root."
        ),
    ] = None,
    root: RootOption = THIS_HOST,
    data_dir: DataDirOption = None,
    unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Describe this host: processors, memory, disks, file systems, network, limits, and other programs that tune it.

    Exit codes: 0, or 2 for a usage error.
    """
    with errors_in_one_line():
        inputs = workload_of(data_dir, None, None, unit)
        found = facts_of(root)
        if save_to is not None:
            save(root, save_to, inputs)
    if as_json:
        print_document(FactsDocument(found))
        return
    out = console()
    out.print(describe_host(found), end="\n\n")
    print_pairs(out, "Processors", _processors(found))
    print_pairs(out, "Memory", _memory(found))
    print_pairs(out, "Disks", ((device.name, _disk(device)) for device in found.block_devices))
    print_pairs(out, "File systems", _filesystems(found))
    interfaces = found.network_interfaces
    print_pairs(out, "Network", ((name, _interface(interface)) for name, interface in interfaces.items()))
    print_pairs(out, "Where it runs", _place(found))
    print_pairs(out, "What else tunes it", ((one.name, f"{one.what} ({one.path})") for one in found.competitors))
    print_pairs(out, "Not known", found.unknown.items())
    if save_to is not None:
        out.print(f"saved in {save_to}: highwater tune check --root {save_to}")


def _processors(found: Facts) -> Iterator[tuple[str, str]]:
    yield "model", found.cpu_model or ""
    yield "online", f"{found.cpu_count or '?'}" + (", two or more per core" if found.smt else "")
    yield "isolated", _numbers(found.cpus_isolated)
    nodes = found.numa_nodes
    yield (
        "NUMA nodes",
        "; ".join(f"{node.number}: CPUs {_numbers(node.cpus)}" for node in nodes) if len(nodes) > 1 else "",
    )
    governors = {choice.current or "?" for choice in found.cpu_governors.values()}
    yield "governor", f"{', '.join(sorted(governors))} of {len(found.cpu_governors)} policies" if governors else ""
    yield "boost", "" if found.boost is None else "on" if found.boost else "off"
    available = ", ".join(found.clocksource.available)
    yield "clock source", f"{found.clocksource.current} (of {available})" if found.clocksource.current else ""


def _memory(found: Facts) -> Iterator[tuple[str, str]]:
    memory = found.memory
    for name, size in (
        ("total", memory.total_bytes),
        ("available", memory.available_bytes),
        ("limit of the control group", memory.cgroup_limit_bytes),
    ):
        yield name, size_text(size) if size is not None else ""
    swaps = [f"{swap.device} {size_text(swap.size_bytes)}" for swap in found.swaps or ()]
    yield "swap", "" if found.swaps is None else ", ".join(swaps) or "none"
    yield "swap at boot", ", ".join(f"{one.device or 'a device'} by {one.path}" for one in found.swap_sources)


def _disk(device: BlockDevice) -> str:
    parts = [device.kind, size_text(device.size_bytes), device.medium or "", device.model or ""]
    if device.raid_level:
        parts.append(device.raid_level)
    if device.members:
        parts.append(f"on {', '.join(device.members)}")
    if device.backing_file:
        parts.append(f"in {device.backing_file}")
    if device.scheduler:
        parts.append(f"scheduler {device.scheduler}")
    return ", ".join(part for part in parts if part)


def _filesystems(found: Facts) -> Iterator[tuple[str, str]]:
    for mount in found.as_json()["mounts"]:
        if str(mount["source"]).startswith("/dev/"):
            yield mount["mount_point"], f"{mount['filesystem']} on {mount['source']}, {','.join(mount['options'])}"


def _interface(interface: NetworkInterface) -> str:
    speed = interface.speed_bits_per_s
    parts = [
        interface.kind,
        interface.driver or "",
        format_bit_rate(speed) if speed else "",
        "up" if interface.up else "",
        f"MTU {interface.mtu}" if interface.mtu else "",
        f"{len(interface.rx_queues)} receive and {len(interface.tx_queues)} transmit queues",
        f"of {interface.master}" if interface.master else "",
    ]
    return ", ".join(part for part in parts if part)


def _place(found: Facts) -> Iterator[tuple[str, str]]:
    yield "container", found.container or "none"
    yield "virtual machine", found.virtual_machine or "none"
    yield "control groups", found.cgroup_version or ""
    systemd = found.systemd
    yield "systemd", f"{systemd.version or ''} {'runs' if systemd.running else 'does not run'}".strip()
    own = [name for name in ("network", "pid", "user") if getattr(found.namespaces, name) is False]
    yield "namespaces of its own", ", ".join(own)


def _numbers(numbers: Iterable[int]) -> str:
    """`0-3,8`, as the kernel writes lists of CPUs."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][-1] == number - 1:
            spans[-1][-1:] = [number]
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
