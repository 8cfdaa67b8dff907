"""Knobs of TCP: queues, buffers, congestion control and retransmission."""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import who_can_change
from ..formulas import network as formulas
from ..formulas.common import constant
from ..model import Authority, Knob, Lifetime
from . import sources

_knob = partial(Knob, group="network", scope="network namespace")

KNOBS: Final[tuple[Knob, ...]] = (
    _knob(
        id="net.ipv4.tcp_max_syn_backlog",
        title="Half-open connections on one listener",
        unit="count",
        comparison="at_least",
        recommend=formulas.syn_backlog,
        reason="Beyond it, the kernel answers new connections with cookies, which lose TCP options, or not at all.",
        detail="A connection is half open for one round trip. The queue fills when thousands of clients reconnect in "
        "the same second.",
        authorities=(
            Authority("kernel default", "128 and more, by memory", sources.KERNEL_IP),
            Authority("Redpanda rpk", "4096", sources.REDPANDA),
            Authority("ScyllaDB perftune", "4096", sources.PERFTUNE),
            Authority("SAP Note 2382421", "8192", sources.SAPTUNE),
        ),
        sources=(sources.KERNEL_IP, sources.SAPTUNE),
        risk="low",
        risk_text="About 300 bytes of kernel memory for each half-open connection.",
    ),
    _knob(
        id="net.ipv4.tcp_syncookies",
        title="Cookies for connections that find the SYN queue full",
        mechanism="advice",
        unit="count",
        recommend=constant(1, "1", also=(2,)),
        reason="With 0, a flood or a burst of clients blocks all new connections.",
        detail="1 sends cookies only when the queue is full, which never happens with a long enough queue. Some advice "
        "turns them off, which gains nothing and removes the protection.",
        authorities=(
            Authority("kernel default", "1", sources.KERNEL_IP),
            Authority("TiUP", "0", sources.TIUP),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="Connections made with cookies have no window scaling if timestamps are off.",
    ),
    _knob(
        id="net.ipv4.tcp_rmem",
        title="Maximum TCP receive buffer of the kernel's autotuning",
        field=2,
        unit="bytes",
        comparison="at_least",
        recommend=formulas.tcp_buffer_max,
        reason="One connection cannot carry more than this per round trip.",
        detail="Minimum and default (the first two numbers) stay as they are. Kernels since 2025 have 32 MiB; the 2 to "
        "16 MiB of older advice would lower it. A socket with a fixed SO_RCVBUF does not use it.",
        authorities=(
            Authority("kernel default since 2025 (commit 572be9bf9d0d)", "32 MiB", sources.KERNEL_IP),
            Authority("kernel default before", "6 MiB", sources.KERNEL_IP),
            Authority("TuneD network-throughput", "16 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="Many slow connections may together reach net.ipv4.tcp_mem.",
    ),
    _knob(
        id="net.ipv4.tcp_wmem",
        title="Maximum TCP send buffer of the kernel's autotuning",
        field=2,
        unit="bytes",
        comparison="at_least",
        recommend=formulas.tcp_buffer_max,
        reason="One connection cannot have more than this in flight.",
        detail="As net.ipv4.tcp_rmem, for the other direction: followers and consumers that fetch over a long path.",
        authorities=(
            Authority("kernel default", "4 MiB", sources.KERNEL_IP),
            Authority("TuneD network-throughput", "16 MiB", sources.TUNED),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="Many slow connections may together reach net.ipv4.tcp_mem.",
    ),
    _knob(
        id="net.ipv4.tcp_mem",
        title="Memory of all TCP buffers of the host",
        mechanism="advice",
        field=2,
        unit="pages",
        scope="host",
        comparison="at_least",
        recommend=formulas.tcp_memory,
        reason="Above the last of its three numbers the kernel drops packets of every connection.",
        detail="Above the middle number it shrinks windows. The kernel's default of the last number is about 9 % of "
        "memory, which a broker should not reach: if it does, search for slow consumers first. Lower limits protect "
        "the page cache.",
        authorities=(
            Authority("kernel default", "about 4.7, 6.2 and 9.4 % of memory", sources.KERNEL_IP),
            Authority("ScyllaDB perftune", "3 % of memory at most", sources.PERFTUNE),
            Authority("Oracle bpftune", "raised before it is exhausted", sources.BPFTUNE),
        ),
        risk="high",
        risk_text="If it is too low, all connections stall together; if it is too high, buffers displace page cache.",
        capability=who_can_change.NETWORK_HOST,
    ),
    _knob(
        id="net.ipv4.tcp_window_scaling",
        title="TCP windows beyond 64 KiB",
        mechanism="advice",
        unit="count",
        recommend=constant(1, "1"),
        reason="Without it no connection carries more than 64 KiB per round trip, whatever the buffers.",
        detail="On by default. If it is off, somebody turned it off for a broken middlebox: repair the middlebox.",
        authorities=(
            Authority("kernel default", "1", sources.KERNEL_IP),
            Authority("SAP Note 2382421", "1", sources.SAPTUNE),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="A middlebox that strips the option makes windows disagree.",
    ),
    _knob(
        id="net.ipv4.tcp_sack",
        title="Selective acknowledgement",
        mechanism="advice",
        unit="count",
        recommend=constant(1, "1"),
        reason="Without it, one lost packet makes a sender repeat packets that arrived.",
        detail="On by default. In 2019 many hosts turned it off as a workaround for a flaw that was fixed long ago.",
        authorities=(Authority("kernel default", "1", sources.KERNEL_IP),),
        risk="low",
        risk_text="None on an updated kernel.",
    ),
    _knob(
        id="net.ipv4.tcp_timestamps",
        title="TCP timestamps",
        mechanism="advice",
        unit="count",
        recommend=constant(1, "1", also=(2,)),
        reason="TCP measures round trips with them, and at 10 Gbit/s they distinguish old packets from new ones.",
        detail="1 has a random offset for each connection, 2 none.",
        authorities=(
            Authority("kernel default", "1", sources.KERNEL_IP),
            Authority("SAP Note 2382421", "1, left alone on Azure", sources.SAPTUNE),
        ),
        sources=(sources.KERNEL_IP,),
        risk="low",
        risk_text="12 bytes in every packet.",
    ),
    _knob(
        id="net.ipv4.tcp_moderate_rcvbuf",
        title="The kernel's autotuning of TCP receive buffers",
        mechanism="advice",
        unit="count",
        recommend=constant(1, "1"),
        reason="Without it every connection stays at the middle number of tcp_rmem.",
        detail="On by default; raising net.ipv4.tcp_rmem has no effect while it is off.",
        authorities=(Authority("kernel default", "1", sources.KERNEL_IP),),
        risk="low",
        risk_text="Buffers grow with demand, up to net.ipv4.tcp_mem together.",
    ),
    _knob(
        id="net.ipv4.tcp_slow_start_after_idle",
        title="Slow start after an idle period",
        unit="count",
        recommend=constant(0, "0"),
        reason="A producer that sends in bursts needs several extra round trips for each burst.",
        detail="After a pause of one retransmission timeout, a connection resets its congestion window. Between "
        "brokers and clients that keep their connections, the path has not changed.",
        authorities=(
            Authority("kernel default", "1", sources.KERNEL_IP),
            Authority("TuneD network-throughput", "0", sources.TUNED),
            Authority("SAP Note 2382421", "0", sources.SAPTUNE),
        ),
        sources=(sources.KERNEL_IP, sources.TUNED),
        risk="low",
        risk_text="A burst loses packets if the path has become slower meanwhile.",
    ),
    _knob(
        id="net.ipv4.tcp_notsent_lowat",
        title="Unsent data that the kernel accepts from a program",
        unit="bytes",
        comparison="at_most",
        recommend=constant(131_072, "128 KiB"),
        reason="Fetch responses of slow consumers fill send buffers, megabytes for each consumer.",
        detail="Above it, a socket is not writable until data has been sent. The broker then keeps only a file "
        "position for the rest, which costs nothing, and an urgent response does not wait behind data that was "
        "buffered early.",
        authorities=(
            Authority("kernel default", "no bound", sources.KERNEL_IP),
            Authority("TuneD network-throughput", "131072", sources.TUNED),
        ),
        risk="low",
        risk_text="The kernel wakes the broker more often for each large response.",
    ),
    _knob(
        id="net.ipv4.tcp_congestion_control",
        title="Congestion control of TCP",
        unit="",
        recommend=formulas.congestion_control,
        reason="On long paths, a single lost packet halves the rate of loss-based congestion control.",
        detail="bbr uses the measured rate and delay instead of losses. It helps between data centres. Within one it "
        "has no effect, or takes bandwidth from other connections. Compare on the path itself.",
        authorities=(Authority("kernel default", "cubic", sources.KERNEL_IP),),
        risk="medium",
        risk_text="Connections with another congestion control on the same link may get less bandwidth.",
        only_if_named="it is unfair to other traffic on some paths: prove it on this one first",
    ),
    _knob(
        id="net.ipv4.tcp_retries2",
        title="Retransmissions before a silent connection is closed",
        unit="count",
        comparison="at_most",
        recommend=constant(8, "8"),
        reason="With 15, a connection to a host without power looks alive for a quarter of an hour.",
        detail="Each retransmission waits twice as long as the one before: 15 take 924 s, 8 take 100 s, the minimum of "
        "RFC 1122. The limit applies only while there is unacknowledged data.",
        authorities=(
            Authority("kernel default", "15; RFC 1122 asks for 8 at least", sources.KERNEL_IP),
            Authority("Elasticsearch", "5", sources.ELASTIC_RETRIES),
        ),
        risk="medium",
        risk_text="A network failure of two minutes breaks connections that would survive with a higher value.",
    ),
    _knob(
        id="net.ipv4.tcp_tw_recycle",
        title="Quick reuse of closed connections",
        unit="count",
        recommend=constant(0, "0"),
        reason="It drops connections of clients behind one NAT address, and newer kernels do not have it.",
        detail="It compared timestamps of different hosts behind one NAT address and refused the older ones.",
        authorities=(
            Authority("kernel default up to 4.11", "0", sources.TCP_MANUAL),
            Authority("TiUP", "0", sources.TIUP),
        ),
        sources=(sources.TCP_MANUAL, sources.KERNEL_TW_RECYCLE),
        risk="low",
        risk_text="Closed connections occupy their ports for a minute, as intended.",
        lifetime=Lifetime(removed=(4, 12), text="remove it from sysctl files; net.ipv4.tcp_tw_reuse is for clients"),
    ),
)
