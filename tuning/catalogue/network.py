"""Knobs of sockets, ports and packet reception, for all protocols.

Reserved ports come before the port range that contains them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import who_can_change
from ..formulas import network as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import sources

_knob = partial(Knob, group="network")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="net.core.somaxconn",
        title="Longest queue of connections waiting to be accepted",
        unit="count",
        scope="network namespace",
        comparison="at_least",
        recommend=constant(4096, "4096"),
        reason="When all clients of a restarted broker reconnect at once, clients beyond the queue wait for a retry.",
        detail="The smaller of this value and the program's backlog applies: Kafka's socket.listen.backlog.size is 50 "
        "by default and has to be raised too.",
        authorities=(
            Authority("kernel default since 5.4", "4096", sources.KERNEL_IP),
            Authority("Redpanda rpk", "4096", sources.REDPANDA),
            Authority("SAP Note 2382421", "4096, where the kernel begins with less", sources.SAPTUNE),
            Authority("ScyllaDB perftune", "4096", sources.PERFTUNE),
            Authority("TiUP", "32768", sources.TIUP),
            Authority("TuneD throughput-performance", "2048, never less than there is", sources.TUNED),
        ),
        sources=(sources.KERNEL_IP, sources.KAFKA_BROKER),
        risk="low",
        risk_text="None known by itself.",
    ),
    _knob(
        id="net.core.netdev_max_backlog",
        title="Packets that may wait for one CPU to process them",
        unit="count",
        comparison="at_least",
        recommend=formulas.netdev_backlog,
        reason="The kernel drops packets beyond it before TCP sees them.",
        detail="The queue is used by packet steering (RPS), by virtual interfaces such as veth, and by drivers without "
        "NAPI; a queue for each CPU in the NIC bypasses it. The second column of /proc/net/softnet_stat counts drops.",
        authorities=(
            Authority("kernel default", "1000", sources.KERNEL_NET),
            Authority("Linux kernel, scaling", "1000 or 10000 with flow limits", sources.KERNEL_SCALING),
        ),
        risk="low",
        risk_text="With a longer queue, an overload shows later.",
        capability=who_can_change.NETWORK_HOST,
    ),
    _knob(
        id="net.core.netdev_budget",
        title="Packets that one round of receiving may handle",
        unit="count",
        comparison="at_least",
        recommend=formulas.netdev_budget,
        reason="Packets that are left when a round ends wait for the next round.",
        detail="The third column of /proc/net/softnet_stat counts rounds that this limit or "
        "net.core.netdev_budget_usecs cut short. A few are normal; raising the budget takes CPU time from the broker.",
        authorities=(Authority("kernel default", "300", sources.KERNEL_NET),),
        risk="low",
        risk_text="Packet reception occupies a CPU longer before other work runs on it.",
        capability=who_can_change.NETWORK_HOST,
    ),
    _knob(
        id="net.core.netdev_budget_usecs",
        title="Time that one round of receiving may take",
        unit="microseconds",
        comparison="at_least",
        recommend=formulas.netdev_budget_time,
        reason="The budget that is spent first ends the round, so raising only one may have no effect.",
        detail="As net.core.netdev_budget, in time instead of packets.",
        authorities=(Authority("kernel default", "two ticks: 2000 to 20000 by the kernel's HZ", sources.KERNEL_NET),),
        risk="low",
        risk_text="Packet reception occupies a CPU longer before other work runs on it.",
        capability=who_can_change.NETWORK_HOST,
    ),
    _knob(
        id="net.core.rmem_max",
        title="Largest receive buffer that a program may ask for",
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.socket_buffer_max,
        reason="A broker or client that asks for a bigger SO_RCVBUF silently gets this much.",
        detail="It limits only sockets whose program sets the buffer size, as Kafka does by default "
        "(socket.receive.buffer.bytes=102400, below any limit). To get an effect, raise that setting, or set it to -1 "
        "to leave the size to the kernel. Setting SO_RCVBUF also turns the kernel's own tuning off.",
        authorities=(
            Authority("SAP Note 2382421", "bandwidth × delay (1.25 MB at 10 Gbit/s, 1 ms)", sources.SAPTUNE),
            Authority("TuneD oracle and mssql", "4 MiB", sources.TUNED),
            Authority("lecture notes", "524288000", sources.KAFKA_NOTES),
        ),
        sources=(sources.KERNEL_NET, sources.KERNEL_IP, sources.KAFKA_BROKER, sources.SAPTUNE),
        risk="low",
        risk_text="A program may use that much kernel memory per socket.",
        capability=who_can_change.NETWORK_READ_ONLY,
    ),
    _knob(
        id="net.core.wmem_max",
        title="Largest send buffer that a program may ask for",
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.socket_buffer_max,
        reason="A broker or client that asks for a bigger SO_SNDBUF silently gets this much.",
        detail="As net.core.rmem_max, for the other direction (socket.send.buffer.bytes of Kafka brokers).",
        authorities=(
            Authority("SAP Note 2382421", "bandwidth × delay (1.25 MB at 10 Gbit/s, 1 ms)", sources.SAPTUNE),
            Authority("TuneD oracle and mssql", "1 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_NET, sources.KERNEL_IP, sources.KAFKA_BROKER, sources.SAPTUNE),
        risk="low",
        risk_text="A program may use that much kernel memory per socket.",
        capability=who_can_change.NETWORK_READ_ONLY,
    ),
    _knob(
        id="net.core.rmem_default",
        title="Initial receive buffer of a socket",
        mechanism="advice",
        unit="bytes",
        scope="network namespace",
        recommend=formulas.socket_buffer_default,
        reason="TCP does not use it, so raising it affects only UDP.",
        detail="The middle number of net.ipv4.tcp_rmem overrides it for TCP.",
        authorities=(
            Authority("TuneD oracle and mssql", "256 KiB", sources.TUNED),
            Authority("Linux kernel, IP sysctl", "overridden by tcp_rmem for TCP", sources.KERNEL_IP),
        ),
        sources=(sources.KERNEL_IP, sources.KERNEL_NET),
        risk="low",
        risk_text="Every other socket of the host starts with the same size.",
        capability=who_can_change.NETWORK_READ_ONLY,
    ),
    _knob(
        id="net.core.wmem_default",
        title="Initial send buffer of a socket",
        mechanism="advice",
        unit="bytes",
        scope="network namespace",
        recommend=formulas.socket_buffer_default,
        reason="TCP does not use it, so raising it affects only UDP.",
        detail="The middle number of net.ipv4.tcp_wmem overrides it for TCP.",
        authorities=(
            Authority("TuneD oracle and mssql", "256 KiB", sources.TUNED),
            Authority("Linux kernel, IP sysctl", "overridden by tcp_wmem for TCP", sources.KERNEL_IP),
        ),
        sources=(sources.KERNEL_IP, sources.KERNEL_NET),
        risk="low",
        risk_text="Every other socket of the host starts with the same size.",
        capability=who_can_change.NETWORK_READ_ONLY,
    ),
    _knob(
        id="net.core.default_qdisc",
        title="Queue of outgoing packets that new interfaces get",
        unit="",
        recommend=formulas.queueing_discipline,
        reason="Packets sent in a burst overflow a small buffer on a long path.",
        detail="fq paces packets as bbr requests. An interface with several hardware queues gets one for each of them.",
        authorities=(
            Authority("kernel default", "pfifo_fast", sources.KERNEL_NET),
            Authority("systemd default", "fq_codel", sources.SYSTEMD_SYSCTL_DEFAULTS),
        ),
        sources=(sources.KERNEL_NET,),
        risk="medium",
        risk_text="More CPU time per packet than the simplest queue.",
        capability=who_can_change.NETWORK_HOST,
        only_if_named="it belongs to net.ipv4.tcp_congestion_control: prove both on this path first",
    ),
    _knob(
        id="net.ipv4.ip_local_reserved_ports",
        title="Ports that outgoing connections must not use",
        unit="",
        scope="network namespace",
        recommend=formulas.reserved_ports,
        reason="If a client happens to use the broker's port, the broker cannot start.",
        detail="It matters only if the broker's port is within net.ipv4.ip_local_port_range, for example after "
        "widening that range. Ports that are reserved already stay reserved.",
        authorities=(Authority("kernel default", "none", sources.KERNEL_IP),),
        risk="low",
        risk_text="Fewer ports for outgoing connections.",
        observe=formulas.observe_ports,
    ),
    _knob(
        id="net.ipv4.ip_local_port_range",
        title="Ports that outgoing connections may use",
        unit="",
        scope="network namespace",
        recommend=formulas.local_port_range,
        reason="A load generator cannot open more connections to one broker than it has ports.",
        detail="A broker accepts connections and uses few ports; a host with many clients uses one port for each "
        "connection to the same address and port. The range is only widened, never narrowed.",
        authorities=(
            Authority("kernel default", "32768 to 60999", sources.KERNEL_IP),
            Authority("TuneD oracle", "9000 to 65499", sources.TUNED),
            Authority("SAP Note 2382421", "left to the administrator", sources.SAPTUNE),
        ),
        sources=(sources.KERNEL_IP, sources.TUNED),
        risk="low",
        risk_text="Services on ports within the range may find them taken: reserve them.",
    ),
    _knob(
        id="net.netfilter.nf_conntrack_max",
        title="Connections that the packet filter can remember",
        unit="count",
        comparison="at_least",
        recommend=formulas.connection_tracking,
        reason="When the table is full, packets of new connections are dropped, and only the kernel log reports it.",
        detail="It exists only if the module nf_conntrack is loaded, for a stateful firewall or NAT. Closed "
        "connections stay in the table for minutes, so each connection needs several entries. A notrack rule for the "
        "broker's port avoids the table.",
        authorities=(Authority("kernel default", "by memory, mostly 65536 or 262144", sources.KERNEL_CONNTRACK),),
        risk="medium",
        risk_text="About 300 bytes for each entry; the hash table (nf_conntrack_buckets) should grow too.",
        capability=who_can_change.NETWORK_HOST,
    ),
)
