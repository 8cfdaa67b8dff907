"""Knobs of the network stack and of its interfaces."""

from __future__ import annotations

from typing import Final

from ..formulas import network as formulas
from ..formulas.common import constant
from ..model import Authority, Knob
from . import capability, sources

KNOBS: Final[tuple[Knob, ...]] = (
    Knob(
        id="net.core.rmem_max",
        title="Largest receive buffer that a program may ask for",
        group="network",
        mechanism="sysctl",
        path="/proc/sys/net/core/rmem_max",
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.socket_buffer_max,
        reason="A broker or client that asks for a bigger SO_RCVBUF silently gets this much.",
        detail="It binds only sockets whose program sets the buffer size, as Kafka does by default "
        "(socket.receive.buffer.bytes=102400, below any limit): raise that setting, or set it to -1 to leave the size "
        "to the kernel, before expecting an effect. Setting SO_RCVBUF also turns the kernel's own tuning off.",
        authorities=(
            Authority("SAP Note 2382421", "bandwidth × delay (1.25 MB at 10 Gbit/s, 1 ms)", sources.SAPTUNE),
            Authority("lecture notes", "524288000", sources.KAFKA_NOTES),
        ),
        sources=(sources.KERNEL_NET, sources.KERNEL_IP, sources.KAFKA_BROKER, sources.SAPTUNE),
        risk="low",
        risk_text="A program may pin that much kernel memory per socket.",
        persistence="sysctl.d",
        capability=capability.NETWORK_READ_ONLY,
    ),
    Knob(
        id="net.core.wmem_max",
        title="Largest send buffer that a program may ask for",
        group="network",
        mechanism="sysctl",
        path="/proc/sys/net/core/wmem_max",
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.socket_buffer_max,
        reason="A broker or client that asks for a bigger SO_SNDBUF silently gets this much.",
        detail="As net.core.rmem_max, for the other direction (socket.send.buffer.bytes of Kafka brokers).",
        authorities=(Authority("SAP Note 2382421", "bandwidth × delay (1.25 MB at 10 Gbit/s, 1 ms)", sources.SAPTUNE),),
        sources=(sources.KERNEL_NET, sources.KERNEL_IP, sources.KAFKA_BROKER, sources.SAPTUNE),
        risk="low",
        risk_text="A program may pin that much kernel memory per socket.",
        persistence="sysctl.d",
        capability=capability.NETWORK_READ_ONLY,
    ),
    Knob(
        id="net.ipv4.tcp_rmem",
        title="Ceiling of the kernel's own tuning of TCP receive buffers",
        group="network",
        mechanism="sysctl",
        path="/proc/sys/net/ipv4/tcp_rmem",
        field=2,
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.tcp_buffer_max,
        reason="One connection cannot carry more than this per round trip.",
        detail="Minimum and default (the first two numbers) stay as they are. Kernels since 2025 come with 32 MiB: the "
        "2 to 16 MiB of older advice would shrink it. A socket with a fixed SO_RCVBUF does not use it.",
        authorities=(
            Authority("kernel default since 2025 (commit 572be9bf9d0d)", "32 MiB", sources.KERNEL_IP),
            Authority("TuneD network-throughput", "16 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="Many slow connections may together reach net.ipv4.tcp_mem.",
        persistence="sysctl.d",
        capability=capability.NETWORK_NAMESPACE,
    ),
    Knob(
        id="net.ipv4.tcp_wmem",
        title="Ceiling of the kernel's own tuning of TCP send buffers",
        group="network",
        mechanism="sysctl",
        path="/proc/sys/net/ipv4/tcp_wmem",
        field=2,
        unit="bytes",
        scope="network namespace",
        comparison="at_least",
        recommend=formulas.tcp_buffer_max,
        reason="One connection cannot have more than this under way.",
        detail="As net.ipv4.tcp_rmem, for the other direction: followers and consumers that fetch over a long path.",
        authorities=(
            Authority("kernel default", "4 MiB", sources.KERNEL_IP),
            Authority("TuneD network-throughput", "16 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="Many slow connections may together reach net.ipv4.tcp_mem.",
        persistence="sysctl.d",
        capability=capability.NETWORK_NAMESPACE,
    ),
    Knob(
        id="net.core.somaxconn",
        title="Longest queue of connections waiting to be accepted",
        group="network",
        mechanism="sysctl",
        path="/proc/sys/net/core/somaxconn",
        unit="count",
        scope="network namespace",
        comparison="at_least",
        recommend=constant(4096, "4096"),
        reason="When all clients of a restarted broker return at once, those beyond the queue wait for a retry.",
        detail="The shorter of this and the program's own backlog counts: Kafka's socket.listen.backlog.size is 50 by "
        "default and has to be raised too.",
        authorities=(
            Authority("kernel default since 5.4", "4096", sources.KERNEL_IP),
            Authority("Redpanda rpk", "4096", sources.REDPANDA),
            Authority("TuneD throughput-performance", "2048", sources.TUNED),
        ),
        sources=(sources.KERNEL_IP, sources.KAFKA_BROKER),
        risk="low",
        risk_text="None known by itself.",
        persistence="sysctl.d",
        capability=capability.NETWORK_NAMESPACE,
    ),
)
