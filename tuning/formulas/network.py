"""Formulas for the network stack."""

from __future__ import annotations

import re
from typing import Final

from ...common.units import percent_text, size_text
from ..facts.model import Facts
from ..facts.reading import parse_whole
from ..model import NotApplicable, Observation, Target
from ..quantities import format_bit_rate
from ..workload import Workload
from .common import MIB
from .cpus import format_ranges
from .targets import tuned_interfaces

# RFC 7323, section 2.3: a window cannot be scaled beyond it.
_LARGEST_TCP_WINDOW_BYTES: Final = 2**30
_SYN_BACKLOG: Final = (4096, 8192)
_BACKLOG_PACKETS: Final = 10_000
_FAST_LINK_BITS_PER_S: Final = 10 * 10**9
# The kernel's default: 300 packets per round.
_BUDGET_PACKETS: Final = 300
_RAISED_BUDGET_PACKETS: Final = 600
_RAISED_BUDGET_US: Final = 8000
_CUT_SHARE_OF_PACKETS: Final = 0.01
_LONG_ROUND_TRIP_MS: Final = 10.0
_WIDE_PORT_RANGE: Final = (9000, 65_499)
_KAFKA_PORT: Final = 9092
_LAST_PORT: Final = 65_535
_CONNTRACK_PER_CONNECTION: Final = 4
_CONNTRACK_LEAST: Final = 65_536
_PORT_RANGE_PATH: Final = "/proc/sys/net/ipv4/ip_local_port_range"
_RESERVED_PORTS_PATH: Final = "/proc/sys/net/ipv4/ip_local_reserved_ports"
_CONNTRACK_PATH: Final = "/proc/sys/net/netfilter/nf_conntrack_max"


def syn_backlog(_facts: Facts, workload: Workload, _name: str) -> Target:
    """The number of connections, between 4096 and 8192."""
    least, most = _SYN_BACKLOG
    return Target(
        min(max(least, workload.connections), most), f"{workload.connections} connections between {least} and {most}"
    )


def netdev_backlog(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """10000 at 10 Gbit/s or more, or where the backlog has dropped packets."""
    dropped = facts.softnet.dropped if facts.softnet else None
    if dropped:
        return Target(_BACKLOG_PACKETS, f"{_BACKLOG_PACKETS}: {dropped} packets found the backlog full since boot")
    fast = [
        f"{interface.name} has {format_bit_rate(interface.speed_bits_per_s)}"
        for interface in tuned_interfaces(facts)
        if interface.speed_bits_per_s is not None and interface.speed_bits_per_s >= _FAST_LINK_BITS_PER_S
    ]
    if fast:
        return Target(_BACKLOG_PACKETS, f"{_BACKLOG_PACKETS}: {', '.join(fast)}")
    drops = "drops are not known" if dropped is None else "nothing was dropped since boot"
    return NotApplicable(f"{drops}, and no interface is known to have 10 Gbit/s")


def netdev_budget(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """600 if more than 1 % of packets came in receive rounds that were cut short."""
    cut = _cut_rounds(facts)
    return cut if isinstance(cut, NotApplicable) else Target(_RAISED_BUDGET_PACKETS, f"{_RAISED_BUDGET_PACKETS}: {cut}")


def netdev_budget_time(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """8000 µs if more than 1 % of packets came in receive rounds that were cut short."""
    cut = _cut_rounds(facts)
    return cut if isinstance(cut, NotApplicable) else Target(_RAISED_BUDGET_US, f"{_RAISED_BUDGET_US} µs: {cut}")


def socket_buffer_max(_facts: Facts, workload: Workload, _name: str) -> Target:
    """Twice the bandwidth-delay product, at least 2 MiB."""
    value, text = _twice_bandwidth_delay(workload)
    return Target(max(value, 2 * MIB), f"{text}, 2 MiB")


def tcp_buffer_max(_facts: Facts, workload: Workload, _name: str) -> Target:
    """Twice the bandwidth-delay product; minimum and default stay."""
    value, text = _twice_bandwidth_delay(workload)
    return Target(value, text)


def socket_buffer_default(_facts: Facts, _workload: Workload, _name: str) -> NotApplicable:
    """Nothing: TCP begins with the middle number of tcp_rmem and tcp_wmem."""
    return NotApplicable("left alone: TCP begins with the middle number of tcp_rmem and tcp_wmem instead")


def tcp_memory(facts: Facts, _workload: Workload, _name: str) -> Target | NotApplicable:
    """Twice the pages that TCP uses, only if they have reached the pressure mark."""
    used = _tcp_pages_in_use(facts)
    marks = (facts.files.read("/proc/sys/net/ipv4/tcp_mem").text or "").split()
    pressure = parse_whole(marks[1]) if len(marks) == 3 else None
    if used is None or pressure is None:
        return NotApplicable("left to the kernel: the pages that TCP uses or its pressure mark are not known")
    if used < pressure:
        return NotApplicable(f"left to the kernel: TCP uses {used} pages; it is throttled from {pressure} on")
    return Target(2 * used, f"2 × {used} pages that TCP uses, above the pressure mark of {pressure}")


def congestion_control(facts: Facts, workload: Workload, _name: str) -> Target | NotApplicable:
    """bbr for round trips of 10 ms or more; the kernel's choice elsewhere."""
    # Read it for every workload: a capture saves only files that were read, and may be checked for another workload.
    offered = (facts.files.read("/proc/sys/net/ipv4/tcp_available_congestion_control").text or "").split()
    if workload.rtt_ms < _LONG_ROUND_TRIP_MS:
        return NotApplicable(f"kept: a round trip of {workload.rtt_ms:g} ms stays within one data centre")
    if "bbr" not in offered:
        return NotApplicable(f"kept: this kernel offers {', '.join(offered) or 'nothing else'}; bbr is module tcp_bbr")
    return Target("bbr", f"bbr for a round trip of {workload.rtt_ms:g} ms")


def queueing_discipline(_facts: Facts, workload: Workload, _name: str) -> Target | NotApplicable:
    """fq, which paces for bbr, for round trips of 10 ms or more."""
    if workload.rtt_ms < _LONG_ROUND_TRIP_MS:
        return NotApplicable(f"kept: a round trip of {workload.rtt_ms:g} ms stays within one data centre")
    return Target(
        "fq",
        f"fq for a round trip of {workload.rtt_ms:g} ms",
        note="existing interfaces keep their queue; to change one: tc qdisc replace dev INTERFACE root fq",
    )


def local_port_range(facts: Facts, workload: Workload, _name: str) -> Target | NotApplicable:
    """9000 to 65499, or wider, if the connections fill half of the current range."""
    present = _port_range(facts)
    if present is None:
        return NotApplicable(f"{_PORT_RANGE_PATH} does not show the current range")
    low, high = present
    ports = high - low + 1
    if 2 * workload.connections <= ports:
        return NotApplicable(f"{workload.connections} connections fit in {ports} ports")
    wide_low, wide_high = min(low, _WIDE_PORT_RANGE[0]), max(high, _WIDE_PORT_RANGE[1])
    return Target(
        f"{wide_low} {wide_high}",
        f"{wide_low}–{wide_high}: {workload.connections} connections are more than half of {ports} ports",
        note="ports that a broker listens on have to be reserved (net.ipv4.ip_local_reserved_ports)",
    )


def reserved_ports(facts: Facts, workload: Workload, name: str) -> Target | NotApplicable:
    """The current ones and the broker's listeners, if these are in the range of client ports."""
    present = _port_range(facts)
    ports_now = _ports(facts.files.read(_RESERVED_PORTS_PATH).text or "")
    if present is None:
        return NotApplicable(f"{_PORT_RANGE_PATH} does not show the range of client ports")
    wanted = local_port_range(facts, workload, name)
    low, high = map(int, str(wanted.value).split()) if isinstance(wanted, Target) else present
    exposed = [port for port in listener_ports(workload) if low <= port <= high]
    if not exposed:
        ports = ", ".join(str(port) for port in listener_ports(workload))
        return NotApplicable(f"the broker's port {ports} lies outside {low}–{high}, the range of client ports")
    return Target(
        format_ranges(ports_now | set(exposed)),
        f"{', '.join(str(port) for port in exposed)} of the broker, within {low}–{high}, besides those reserved now",
    )


def observe_ports(facts: Facts, _name: str) -> Observation:
    """The reserved ports in order; `none` when the file is empty."""
    reading = facts.files.read(_RESERVED_PORTS_PATH)
    if reading.text is None:
        return Observation(None, reading.reason)
    text = format_ranges(_ports(reading.text)) or "none"
    return Observation(text, text)


def connection_tracking(facts: Facts, workload: Workload, _name: str) -> Target | NotApplicable:
    """4 entries for each connection, at least 65536, if the module is loaded."""
    reading = facts.files.read(_CONNTRACK_PATH)
    if reading.text is None:
        return NotApplicable("connections are not tracked here: the module nf_conntrack is not loaded")
    entries = _CONNTRACK_PER_CONNECTION * workload.connections
    return Target(
        max(_CONNTRACK_LEAST, entries),
        f"{_CONNTRACK_LEAST}, {_CONNTRACK_PER_CONNECTION} × {workload.connections} connections = {entries}",
        also=(0,),  # no limit (__nf_conntrack_alloc)
    )


def listener_ports(workload: Workload) -> tuple[int, ...]:
    """The listener ports of the broker's configuration; Kafka's 9092 when it has none."""
    found = re.findall(r":(\d{1,5})(?=\s*(?:,|$))", workload.broker_config.get("listeners", ""))
    ports = sorted({int(port) for port in found if 0 < int(port) < 2**16})
    return tuple(ports) or (_KAFKA_PORT,)


def _twice_bandwidth_delay(workload: Workload) -> tuple[int, str]:
    wanted = 2 * workload.bandwidth_delay_bytes
    value = min(wanted, _LARGEST_TCP_WINDOW_BYTES)
    text = f"2 × {format_bit_rate(workload.link_bits_per_s)} × {workload.rtt_ms:g} ms / 8 = {size_text(wanted)}"
    return value, text if value == wanted else f"{text}, cut to TCP's largest window of {size_text(value)}"


def _cut_rounds(facts: Facts) -> str | NotApplicable:
    """Why to raise the budget: a round that ends with work left has handled about one budget of packets."""
    softnet = facts.softnet
    if softnet is None or not softnet.processed:
        return NotApplicable(facts.unknown.get("softnet", "no packet has been counted"))
    share = softnet.time_squeeze * _BUDGET_PACKETS / softnet.processed
    text = (
        f"{softnet.time_squeeze} rounds cut short × {_BUDGET_PACKETS} packets / {softnet.processed} packets "
        f"= {percent_text(share)}"
    )
    return text if share > _CUT_SHARE_OF_PACKETS else NotApplicable(f"{text}, not more than 1 %")


def _tcp_pages_in_use(facts: Facts) -> int | None:
    match = re.search(r"^TCP:.*\bmem ([0-9]{1,20})\b", facts.files.read("/proc/net/sockstat").text or "", re.MULTILINE)
    return int(match[1]) if match else None


def _port_range(facts: Facts) -> tuple[int, int] | None:
    words = (facts.files.read(_PORT_RANGE_PATH).text or "").split()
    ports = [port for word in words if (port := parse_whole(word)) is not None]
    return (ports[0], ports[1]) if len(words) == len(ports) == 2 else None


def _ports(text: str) -> set[int]:
    ports: set[int] = set()
    for first, last in re.findall(r"\b(\d{1,5})(?:-(\d{1,20}))?\b", text):
        ports.update(range(int(first), min(int(last or first), _LAST_PORT) + 1))
    return ports
