"""CPU lists and masks in the kernel's notation, and the CPUs near a device."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts.model import Facts


def format_ranges(numbers: Iterable[int]) -> str:
    """Numbers as `0-3,8`: the kernel's notation for CPUs in smp_affinity_list and for ip_local_reserved_ports."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def format_cpu_mask(cpus: Iterable[int], like: str) -> str:
    """Hexadecimal groups of 32 CPUs, `ff,00000000`, as wide as the mask `like` that the kernel printed."""
    digits = f"{sum(1 << cpu for cpu in set(cpus)):x}".zfill(len(like.strip().replace(",", "")))
    head = len(digits) % 8
    groups = [digits[:head]] if head else []
    groups += [digits[start : start + 8] for start in range(head, len(digits), 8)]
    return ",".join(groups)


def parse_cpu_mask(mask: str) -> frozenset[int]:
    """The CPUs of a mask; empty for an invalid mask."""
    try:
        bits = int(mask.strip().replace(",", ""), 16)
    except ValueError:
        return frozenset()
    return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def cpus_near(facts: Facts, numa_node: int | None) -> tuple[int, ...]:
    """Online CPUs of the node that are not isolated; those of the whole host where the node is unknown or has none."""
    usable = [cpu for cpu in facts.cpus_online if cpu not in facts.cpus_isolated]
    local = {cpu for node in facts.numa_nodes if node.number == numa_node for cpu in node.cpus}
    return tuple(cpu for cpu in usable if cpu in local) or tuple(usable)
