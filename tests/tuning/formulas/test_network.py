"""Values of the network stack, by link, counters and workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.tuning.catalogue import KNOBS, find_knob
from highwater.tuning.check import report_on
from highwater.tuning.facts.model import Facts, NetworkInterface, Softnet
from highwater.tuning.formulas import network
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Formula, NotApplicable, Target
from highwater.tuning.workload import Workload
from tests.tuning.host_tree import write

MIB = 2**20
PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return Facts(files=HostFiles(tmp_path))


def _value(formula: Formula, facts: Facts, workload: Workload | None = None) -> object:
    answer = formula(facts, workload or Workload(), "")
    return answer.value if isinstance(answer, Target) else None


def _text(formula: Formula, facts: Facts, workload: Workload | None = None) -> str:
    answer = formula(facts, workload or Workload(), "")
    return answer.formula if isinstance(answer, Target) else answer.reason


def _link(name: str, speed_bits_per_s: int | None, *, up: bool | None = True) -> NetworkInterface:
    return NetworkInterface(name, "physical", "ice", up, speed_bits_per_s, 1500, ("rx-0",), ("tx-0",), {}, {}, {}, ())


@pytest.mark.parametrize(
    ("connections", "wanted"), [(1, 4096), (4096, 4096), (5000, 5000), (8192, 8192), (10**6, 8192)]
)
def test_half_open_connections_follow_the_clients_within_bounds(facts: Facts, connections: int, wanted: int) -> None:
    assert _value(network.syn_backlog, facts, Workload(connections=connections)) == wanted


@pytest.mark.parametrize(
    ("link_bits_per_s", "rtt_ms", "socket_bytes", "tcp_bytes"),
    [
        (10 * 10**9, 1.0, 2_500_000, 2_500_000),  # 2 × 1.25 MB
        (10**9, 1.0, 2 * MIB, 250_000),
        (25 * 10**9, 10.0, 62_500_000, 62_500_000),
        (400 * 10**9, 100.0, 2**30, 2**30),  # no window is larger (RFC 7323)
    ],
)
def test_buffers_hold_twice_what_is_under_way(
    facts: Facts, link_bits_per_s: int, rtt_ms: float, socket_bytes: int, tcp_bytes: int
) -> None:
    workload = Workload(link_bits_per_s=link_bits_per_s, rtt_ms=rtt_ms)
    assert _value(network.socket_buffer_max, facts, workload) == socket_bytes
    assert _value(network.tcp_buffer_max, facts, workload) == tcp_bytes
    if tcp_bytes == 2**30:
        assert "cut to TCP's largest window of 1 GiB" in _text(network.tcp_buffer_max, facts, workload)


def test_only_the_ceiling_of_tcp_buffers_is_changed() -> None:
    for knob_id in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"):
        assert find_knob(knob_id).field == 2
        assert find_knob(knob_id).comparison == "at_least"


def test_the_backlog_is_raised_for_a_fast_link_or_after_drops(facts: Facts) -> None:
    assert _text(network.netdev_backlog, facts).startswith("drops are not known")
    slow = replace(facts, network_interfaces={"eth0": _link("eth0", 10**9), "eth1": _link("eth1", None)})
    assert _value(network.netdev_backlog, slow) is None
    fast = replace(facts, network_interfaces={"eth0": _link("eth0", 25 * 10**9)})
    assert (_value(network.netdev_backlog, fast), _text(network.netdev_backlog, fast)) == (
        10_000,
        "10000: eth0 has 25 Gbit/s",
    )
    assert (
        _value(network.netdev_backlog, replace(facts, network_interfaces={"e": _link("e", 10**11, up=False)})) is None
    )
    quiet = replace(slow, softnet=Softnet(10**6, 0, 0))
    assert _text(network.netdev_backlog, quiet).startswith("nothing was dropped since boot")
    assert _value(network.netdev_backlog, replace(slow, softnet=Softnet(10**6, 3, 0))) == 10_000


@pytest.mark.parametrize(
    ("processed", "cut", "raised"),
    [(0, 0, False), (10**6, 0, False), (30_000, 1, False), (10**6, 33, False), (10**6, 34, True), (300, 1, True)],
)
def test_the_budget_is_raised_when_more_than_one_per_cent_of_packets_waited(
    facts: Facts, processed: int, cut: int, raised: bool
) -> None:
    host = replace(facts, softnet=Softnet(processed, 0, cut))
    assert _value(network.netdev_budget, host) == (600 if raised else None)
    assert _value(network.netdev_budget_time, host) == (8000 if raised else None)


def test_without_counters_nothing_is_said_of_the_budget(facts: Facts) -> None:
    assert _text(network.netdev_budget, facts) == "no packet has been counted"


def test_tcp_memory_is_the_kernels_until_it_is_short(tmp_path: Path, facts: Facts) -> None:
    assert "or its pressure mark are not known" in _text(network.tcp_memory, facts)
    write(tmp_path, "/proc/sys/net/ipv4/tcp_mem", "100\t200\t300\n")
    write(tmp_path, "/proc/net/sockstat", "sockets: used 30\nTCP: inuse 9 orphan 0 tw 0 alloc 12 mem 199\n")
    assert "TCP uses 199 pages; it is throttled from 200 on" in _text(network.tcp_memory, facts)
    write(tmp_path, "/proc/net/sockstat", "TCP: inuse 9 orphan 0 tw 0 alloc 12 mem 200\n")
    assert _value(network.tcp_memory, facts) == 400
    assert find_knob("net.ipv4.tcp_mem").mechanism == "advice"


def test_congestion_control_is_kept_within_a_data_centre(tmp_path: Path, facts: Facts) -> None:
    far = Workload(rtt_ms=10)
    assert "one data centre" in _text(network.congestion_control, facts, Workload(rtt_ms=9.9))
    assert "one data centre" in _text(network.queueing_discipline, facts, Workload(rtt_ms=9.9))
    assert "this kernel offers nothing else" in _text(network.congestion_control, facts, far)
    write(tmp_path, "/proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr\n")
    assert _value(network.congestion_control, facts, far) == "bbr"
    assert _value(network.queueing_discipline, facts, far) == "fq"
    assert find_knob("net.ipv4.tcp_congestion_control").only_if_named
    assert find_knob("net.core.default_qdisc").only_if_named


@pytest.mark.parametrize(
    ("present", "connections", "wanted"),
    [
        ("32768\t60999", 1000, None),
        ("32768\t60999", 14_116, None),  # exactly half of 28232 ports
        ("32768\t60999", 14_117, "9000 65499"),
        ("1024\t65535", 50_000, "1024 65535"),  # never narrowed
        ("nonsense", 50_000, None),
        ("1", 50_000, None),
    ],
)
def test_client_ports_are_widened_for_many_connections_only(
    tmp_path: Path, facts: Facts, present: str, connections: int, wanted: str | None
) -> None:
    write(tmp_path, PORTS, present)
    assert _value(network.local_port_range, facts, Workload(connections=connections)) == wanted


def test_the_brokers_ports_are_reserved_where_clients_could_take_them(tmp_path: Path, facts: Facts) -> None:
    assert "does not show" in _text(network.reserved_ports, facts)
    write(tmp_path, PORTS, "32768\t60999\n")
    write(tmp_path, RESERVED, "\n")
    assert "port 9092 lies outside 32768–60999" in _text(network.reserved_ports, facts)
    assert network.observe_ports(facts, "").value == "none"
    many = Workload(connections=50_000, broker_config={"listeners": "PLAINTEXT://:9092, SSL://0.0.0.0:9093"})
    assert _value(network.reserved_ports, facts, many) == "9092-9093", "with the range that is recommended beside it"
    write(tmp_path, RESERVED, "9093,10000-10002\n")
    assert _value(network.reserved_ports, facts, many) == "9092-9093,10000-10002", "what is reserved stays"
    assert network.observe_ports(facts, "").value == "9093,10000-10002"
    assert network.observe_ports(Facts(files=HostFiles(tmp_path / "nowhere")), "").value is None


@pytest.mark.parametrize(
    ("listeners", "ports"),
    [
        ("", (9092,)),
        ("PLAINTEXT://broker-1:19092", (19092,)),
        ("A://[::1]:1,B://:2", (1, 2)),
        ("A://:0,B://:99999", (9092,)),
        ("nonsense", (9092,)),
    ],
)
def test_ports_are_found_in_the_listeners(listeners: str, ports: tuple[int, ...]) -> None:
    assert network.listener_ports(Workload(broker_config={"listeners": listeners})) == ports


def test_connection_tracking_is_sized_only_where_it_is_loaded(tmp_path: Path, facts: Facts) -> None:
    assert "nf_conntrack is not loaded" in _text(network.connection_tracking, facts)
    write(tmp_path, "/proc/sys/net/netfilter/nf_conntrack_max", "262144\n")
    assert _value(network.connection_tracking, facts) == 65_536
    assert _value(network.connection_tracking, facts, Workload(connections=100_000)) == 400_000
    assert find_knob("net.netfilter.nf_conntrack_max").comparison == "at_least"


def test_a_table_of_connections_without_a_bound_gets_none(tmp_path: Path, facts: Facts) -> None:
    write(tmp_path, "/proc/sys/net/netfilter/nf_conntrack_max", "0\n")
    report = report_on(find_knob("net.netfilter.nf_conntrack_max"), facts, Workload())
    assert (report.state, report.recommended) == ("ok", 0)


@pytest.mark.parametrize(
    "knob_id",
    [
        "net.ipv4.tcp_window_scaling",
        "net.ipv4.tcp_sack",
        "net.ipv4.tcp_timestamps",
        "net.ipv4.tcp_moderate_rcvbuf",
        "net.ipv4.tcp_syncookies",
    ],
)
def test_what_everybody_has_on_is_only_looked_at(facts: Facts, knob_id: str) -> None:
    knob = find_knob(knob_id)
    assert knob.mechanism == "advice"
    assert _value(knob.recommend, facts) == 1


def test_defaults_of_other_protocols_sockets_are_left_alone(facts: Facts) -> None:
    assert isinstance(network.socket_buffer_default(facts, Workload(), ""), NotApplicable)


def test_a_host_that_gives_up_or_bounds_earlier_is_not_changed() -> None:
    for knob_id in ("net.ipv4.tcp_retries2", "net.ipv4.tcp_notsent_lowat"):
        assert find_knob(knob_id).comparison == "at_most"


def test_ports_are_reserved_before_the_range_grows_over_them() -> None:
    order = [knob.id for knob in KNOBS]
    assert order.index("net.ipv4.ip_local_reserved_ports") < order.index("net.ipv4.ip_local_port_range")
    assert order.index("net.core.rps_sock_flow_entries") < order.index("nic.rps_flow_cnt")
