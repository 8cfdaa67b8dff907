"""Formulas for network interfaces: how their queues and interrupts are spread over CPUs.

They are evaluated for every interface with hardware of its own, each member of a bond too. Queues that a driver or
irqbalance has spread already stay as they are: another distribution would be no better.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from ..facts.model import Facts, Interrupt, NetworkInterface
from ..model import NotApplicable, Observation, Target
from ..workload import Workload
from .cpus import cpus_near, format_cpu_mask, format_ranges, parse_cpu_mask
from .targets import queue_of, tuned_interfaces

_FLOW_ENTRIES: Final = 32_768
_JUMBO_MTU: Final = 9000
# How drivers name the interrupt of a queue, with its number: eth0-TxRx-3, ens5-Tx-Rx-0, mlx5_comp3@pci:…, mlx4-6@…,
# virtio2-input.0, eth0-q0-tx, gve-ntfy-blk2, eth0-3.
_QUEUE_INTERRUPT: Final = re.compile(
    r"(?<![a-z0-9])(?:tx-?rx|rx-?tx|rx|tx|input|output|comp|queue|fp|q|ntfy-bl(?:oc)?k|mlx4)[-._ ]?(\d+)"
    r"|^[a-z0-9]+-(\d+)$",
    re.IGNORECASE,
)
# Interrupts that carry no packets of a queue, though some are named like one: Intel's Flow Director is fdir-TxRx-0.
_OTHER_INTERRUPT: Final = re.compile(r"fdir|config|async|event|control", re.IGNORECASE)


def receive_steering(facts: Facts, _workload: Workload, target: str) -> Target | NotApplicable:
    """All CPUs near the interface if it has fewer receive queues than CPUs; none if each CPU has a queue."""
    found = queue_of(facts, target)
    if found is None:
        return _no_such_queue(target)
    interface, queue = found
    cpus = cpus_near(facts, interface.numa_node)
    present = interface.rps_cpus.get(queue)
    obstacle = _one_cpu(cpus) or (None if present is not None else NotApplicable("this kernel steers no packets (RPS)"))
    if obstacle is not None:
        return obstacle
    queues = len(interface.rx_queues)
    wanted = cpus if _fewer_queues_than_cpus(facts, interface) else ()
    count = f"{queues} receive queue{'s' if queues > 1 else ''} of {interface.name}"
    text = f"{count} for {len(cpus)} CPUs: " + (f"CPUs {format_ranges(cpus)}" if wanted else "a queue for each, no RPS")
    # Where CPUs are needed, a selection that somebody made is as good as all CPUs.
    good = present is not None and bool(parse_cpu_mask(present)) == bool(wanted)
    return Target(format_cpu_mask(wanted, like=present or ""), text, also=(present,) if present and good else ())


def flow_table(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """32768 where an interface has fewer receive queues than CPUs."""
    steered = [each.name for each in tuned_interfaces(facts) if _fewer_queues_than_cpus(facts, each)]
    if not steered:
        return NotApplicable("every interface has a receive queue for each CPU, so packets need no steering")
    return Target(_FLOW_ENTRIES, f"{_FLOW_ENTRIES} flows, for {', '.join(steered)}")


def flows_of_queue(facts: Facts, _workload: Workload, target: str) -> Target | NotApplicable:
    """32768 divided by the number of receive queues, as a power of two."""
    found = queue_of(facts, target)
    if found is None:
        return _no_such_queue(target)
    interface, queue = found
    if queue not in interface.rps_flow_cnt:
        return NotApplicable("this kernel steers no flows (RFS)")
    if not _fewer_queues_than_cpus(facts, interface):
        return NotApplicable("a receive queue for each CPU: flows need no steering")
    queues = len(interface.rx_queues)
    # The kernel rounds up to a power of two; a value that reads back differently would look like drift.
    value = 1 << (-(-_FLOW_ENTRIES // queues) - 1).bit_length()
    return Target(value, f"{_FLOW_ENTRIES} flows / {queues} queues, as a power of two")


def transmit_steering(facts: Facts, _workload: Workload, target: str) -> Target | NotApplicable:
    """Each CPU sends through one queue, shared with as few other CPUs as possible."""
    found = queue_of(facts, target)
    if found is None:
        return _no_such_queue(target)
    interface, queue = found
    if len(interface.tx_queues) < 2:
        return NotApplicable(f"{interface.name} has one transmit queue")
    present = interface.xps_cpus.get(queue)
    cpus = facts.cpus_online
    obstacle = _one_cpu(cpus) or (None if present is not None else NotApplicable("this kernel or driver has no XPS"))
    if obstacle is not None:
        return obstacle
    masks = [parse_cpu_mask(interface.xps_cpus.get(each, "")) for each in interface.tx_queues]
    users = Counter(cpu for mask in masks for cpu in mask)
    if all(masks[: len(cpus)]) and all(users[cpu] == 1 for cpu in cpus):
        return Target(present or "", "as set by the driver: each CPU has one queue")
    number = interface.tx_queues.index(queue)
    mine = [cpu for position, cpu in enumerate(cpus) if position % len(interface.tx_queues) == number]
    if not mine:
        return NotApplicable(f"{len(cpus)} CPUs do not need all of {len(interface.tx_queues)} queues")
    return Target(
        format_cpu_mask(mine, like=present or ""),
        f"CPUs {format_ranges(mine)}: {len(cpus)} CPUs over {len(interface.tx_queues)} transmit queues",
    )


def interrupt_affinity(facts: Facts, _workload: Workload, target: str) -> Target | NotApplicable:
    """Queue n of an interface on the nth CPU near it; unchanged if the queues are spread evenly already."""
    interface = next((each for each in tuned_interfaces(facts) if target in map(str, each.irqs)), None)
    interrupt = facts.interrupts.get(int(target)) if target.isdecimal() else None
    if interface is None or interrupt is None:
        return NotApplicable(f"no network interface has an interrupt {target}".rstrip())
    queue = _queue_number(interrupt)
    if queue is None:
        return NotApplicable(f"{interrupt.name or 'it'} carries no packets of a queue")
    cpus = cpus_near(facts, interface.numa_node)
    if (obstacle := _one_cpu(cpus)) is not None:
        return obstacle
    if any(competitor.name == "irqbalance" for competitor in facts.competitors):
        return NotApplicable(f"irqbalance runs and would move it back; ban it first: --banirq={target}")
    present = interrupt.affinity
    if present is not None and _well_spread(facts, interface, cpus):
        return Target(format_ranges(present), f"unchanged: the queues of {interface.name} are spread over CPUs already")
    cpu = cpus[(_first_place(facts, interface) + queue) % len(cpus)]
    return Target(
        str(cpu), f"queue {queue} of {interface.name} on CPU {cpu}, of {format_ranges(cpus)} near the interface"
    )


def channels(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """One receive queue for each CPU near the interface."""
    interface = facts.network_interfaces.get(name)
    if interface is None or not interface.rx_queues:
        return NotApplicable(f"no queues are known of {name}" if name else "no network interface of its own hardware")
    cpus = cpus_near(facts, interface.numa_node)
    if (obstacle := _one_cpu(cpus)) is not None:
        return obstacle
    if interface.kind == "virtio" and len(interface.rx_queues) < len(cpus):
        return NotApplicable(
            f"the hypervisor gave {name} {len(interface.rx_queues)} queues for {len(cpus)} CPUs: ask for more there"
        )
    return Target(
        len(cpus),
        f"{len(cpus)} CPUs near {name}",
        note=f"ethtool -l {name} shows the maximum; changing the number takes the link down for a moment",
    )


def observe_channels(facts: Facts, name: str) -> Observation:
    interface = facts.network_interfaces.get(name)
    if interface is None or not interface.rx_queues:
        return Observation(None, f"no queues are known of {name}" if name else "no network interface is known")
    return Observation(len(interface.rx_queues), f"{len(interface.rx_queues)} receive queues")


def jumbo_frames(facts: Facts, _workload: Workload, name: str) -> Target | NotApplicable:
    """9000, only if every hop is proved to forward it."""
    interface = facts.network_interfaces.get(name)
    if interface is None or interface.mtu is None:
        return NotApplicable(f"the MTU of {name} is not known" if name else "no network interface of its own hardware")
    if interface.mtu >= _JUMBO_MTU:
        return Target(interface.mtu, f"{interface.mtu}, unchanged")
    return NotApplicable(
        f"{interface.mtu} stays; {_JUMBO_MTU} only if every hop is proved to forward it: "
        f"ping -M do -s {_JUMBO_MTU - 28} PEER"
    )


def _fewer_queues_than_cpus(facts: Facts, interface: NetworkInterface) -> bool:
    return 0 < len(interface.rx_queues) < len(cpus_near(facts, interface.numa_node))


def _no_such_queue(target: str) -> NotApplicable:
    return NotApplicable(f"there is no queue {target}" if target else "no network interface of its own hardware")


def _one_cpu(cpus: tuple[int, ...]) -> NotApplicable | None:
    if not cpus:
        return NotApplicable("the CPUs of this host are not known")
    return NotApplicable(f"CPU {cpus[0]} is the only one") if len(cpus) == 1 else None


def _queue_number(interrupt: Interrupt) -> int | None:
    found = None if _OTHER_INTERRUPT.search(interrupt.name) else _QUEUE_INTERRUPT.search(interrupt.name)
    return int(found[1] or found[2]) if found else None


def _queue_interrupts(facts: Facts, interface: NetworkInterface) -> list[tuple[int, Interrupt]]:
    """Queue numbers and their interrupts; sending and receiving of one queue may have one each."""
    known = (facts.interrupts[number] for number in interface.irqs if number in facts.interrupts)
    return [(queue, each) for each in known if (queue := _queue_number(each)) is not None]


def _well_spread(facts: Facts, interface: NetworkInterface, cpus: tuple[int, ...]) -> bool:
    """Whether only CPUs near the interface serve its queues, none of them more than its share."""
    queues_of_cpu: dict[int, set[int]] = {}
    interrupts = _queue_interrupts(facts, interface)
    for queue, interrupt in interrupts:
        serving = interrupt.effective_affinity or interrupt.affinity or ()
        if len(serving) != 1 or serving[0] not in cpus:
            return False
        queues_of_cpu.setdefault(serving[0], set()).add(queue)
    fair_share = -(-len({queue for queue, _ in interrupts}) // len(cpus))
    return all(len(queues) <= fair_share for queues in queues_of_cpu.values())


def _first_place(facts: Facts, interface: NetworkInterface) -> int:
    """The CPU index of its first queue, so that several interfaces (members of a bond) start on different CPUs."""
    place = 0
    for other in tuned_interfaces(facts):
        if other.name == interface.name:
            break
        place += len({queue for queue, _ in _queue_interrupts(facts, other)})
    return place
