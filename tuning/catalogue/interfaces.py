"""Knobs of network interfaces: which CPUs take their interrupts and process their packets."""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import who_can_change
from ..formulas import interfaces as formulas
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="network", mechanism="sysfs")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="nic.channels",
        title="Queues of a network interface",
        mechanism="advice",
        path="ethtool -l {target}",
        unit="count",
        scope="interface",
        comparison="at_least",
        recommend=formulas.channels,
        reason="One CPU receives all packets of a queue; with one queue, that CPU limits the host.",
        detail="ethtool -L sets the number, up to the hardware's maximum. Also consider larger rings (ethtool -G) if "
        "ethtool -S counts drops, adaptive coalescing (-C), and GRO and TSO (-k), which should stay on. Each change "
        "takes the link down for a moment, so Highwater leaves it to you; systemd.link(5) persists it.",
        authorities=(
            Authority("Linux kernel, scaling", "one for each CPU, or for each core near it", sources.KERNEL_SCALING),
            Authority("TuneD realtime", "as configured (netdev_queue_count)", sources.TUNED),
        ),
        sources=(sources.KERNEL_SCALING, sources.ETHTOOL),
        risk="medium",
        risk_text="The link goes down for a moment; every queue takes memory and interrupts.",
        persistence="link file",
        observe=formulas.observe_channels,
    ),
    _knob(
        id="nic.mtu",
        title="Largest packet of a network interface, in bytes",
        mechanism="advice",
        path="/sys/class/net/{target}/mtu",
        unit="count",
        scope="interface",
        comparison="at_least",
        recommend=formulas.jumbo_frames,
        reason="Six times fewer packets for the same data; if one hop cannot forward them, connections hang.",
        detail="Offloads of current interfaces (GRO, TSO) bring most of the gain without the risk. To prove a path, "
        "run ping -M do -s 8972 to every peer, in both directions.",
        authorities=(Authority("kernel default", "1500", sources.KERNEL_NET),),
        sources=(sources.KERNEL_NET, sources.ETHTOOL),
        risk="high",
        risk_text="A hop with a smaller MTU that sends no ICMP error drops every full packet.",
        persistence="link file",
    ),
    _knob(
        id="irq.affinity",
        title="CPU that takes an interrupt of a network queue",
        path="/proc/irq/{target}/smp_affinity_list",
        unit="",
        scope="interrupt",
        recommend=formulas.interrupt_affinity,
        reason="Queues that share a CPU are no better than one queue; often CPU 0 takes all of them.",
        detail="Each queue gets a CPU of its own near the interface, also in a bond or bridge. Queues that are spread "
        "already stay. While irqbalance runs nothing is changed, because irqbalance would undo it within seconds. "
        "Interrupt numbers change at every boot, so no file persists this: apply it again.",
        authorities=(
            Authority("Linux kernel, scaling", "spread over CPUs near the device", sources.KERNEL_SCALING),
            Authority("Redpanda rpk", "spread over cores, irqbalance banned", sources.REDPANDA),
            Authority("ScyllaDB perftune", "spread over cores, irqbalance banned", sources.PERFTUNE),
            Authority("irqbalance", "spread anew every 10 s", sources.IRQBALANCE),
        ),
        sources=(sources.KERNEL_IRQ, sources.KERNEL_SCALING, sources.IRQBALANCE),
        risk="medium",
        risk_text="Interrupts that the kernel manages itself refuse the change.",
        persistence="nothing",
    ),
    _knob(
        id="nic.rps_cpus",
        title="CPUs that process packets of a receive queue",
        path="/sys/class/net/{target}/rps_cpus",
        unit="",
        scope="receive queue",
        recommend=formulas.receive_steering,
        reason="With fewer queues than CPUs, a few CPUs process all packets.",
        detail="The kernel hashes each connection to one of these CPUs (RPS). If each CPU has a queue, the hardware "
        "has done that already, and a second hash costs an interrupt between CPUs for every batch.",
        authorities=(
            Authority("Linux kernel, scaling", "only with fewer queues than CPUs", sources.KERNEL_SCALING),
            Authority("Redpanda rpk", "always, all CPUs", sources.REDPANDA),
            Authority("ScyllaDB perftune", "always, all CPUs that compute", sources.PERFTUNE),
        ),
        sources=(sources.KERNEL_SCALING,),
        risk="low",
        risk_text="An interrupt between CPUs for every batch of packets.",
    ),
    _knob(
        id="net.core.rps_sock_flow_entries",
        title="Connections whose CPU the kernel remembers",
        mechanism="sysctl",
        unit="count",
        comparison="at_least",
        recommend=formulas.flow_table,
        reason="Without it, packets are processed on another CPU than the one that has the connection in its cache.",
        detail="Receive flow steering (RFS) sends packets to the CPU of the program that reads them. It needs this "
        "table and nic.rps_flow_cnt of every receive queue.",
        authorities=(
            Authority("kernel default", "0 (off)", sources.KERNEL_SCALING),
            Authority("Linux kernel, scaling", "32768 for a server of moderate load", sources.KERNEL_SCALING),
            Authority("Redpanda rpk", "32768", sources.REDPANDA),
        ),
        sources=(sources.KERNEL_SCALING,),
        risk="low",
        risk_text="Four bytes for each entry.",
        capability=who_can_change.NETWORK_HOST,
    ),
    _knob(
        id="nic.rps_flow_cnt",
        title="Connections that a receive queue steers",
        path="/sys/class/net/{target}/rps_flow_cnt",
        unit="count",
        scope="receive queue",
        comparison="at_least",
        recommend=formulas.flows_of_queue,
        reason="Flow steering stays off for a queue whose own table is empty.",
        detail="The table of the whole host, divided by the number of queues.",
        authorities=(
            Authority("kernel default", "0 (off)", sources.KERNEL_SCALING),
            Authority("Linux kernel, scaling", "32768 / queues", sources.KERNEL_SCALING),
            Authority("Redpanda rpk", "32768 / queues", sources.REDPANDA),
        ),
        sources=(sources.KERNEL_SCALING,),
        risk="low",
        risk_text="Eight bytes and more for each entry.",
    ),
    _knob(
        id="nic.xps_cpus",
        title="CPUs that send through a transmit queue",
        path="/sys/class/net/{target}/xps_cpus",
        unit="",
        scope="transmit queue",
        recommend=formulas.transmit_steering,
        reason="CPUs that send through one queue wait for its lock.",
        detail="Most drivers set a queue for each CPU when the interface comes up; that setting stays.",
        authorities=(
            Authority(
                "Linux kernel, scaling", "a queue for each CPU, or for as few as possible", sources.KERNEL_SCALING
            ),
            Authority("Redpanda rpk", "CPUs spread over the queues", sources.REDPANDA),
            Authority("ScyllaDB perftune", "CPUs spread over the queues", sources.PERFTUNE),
        ),
        sources=(sources.KERNEL_SCALING,),
        risk="low",
        risk_text="An uneven load of the CPUs may overload one queue.",
    ),
)
