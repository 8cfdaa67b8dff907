"""What keeps a knob from having an effect: every rule binds where it should and is silent where it does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from highwater.broker.settings.config_table import BROKER_PROPERTIES
from highwater.tuning.binding import BROKER_DEFAULTS, RULES, binding_text
from highwater.tuning.catalogue import find_knob
from highwater.tuning.facts import collect
from highwater.tuning.facts.model import Facts, Memory, NetworkInterface, NumaNode, Softnet
from highwater.tuning.workload import Workload, parse_properties
from tests.tuning.host_tree import GIB, Disk, make_host, write

KAFKA = Workload(broker="apache-kafka")
OURS = Workload()


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    return collect(make_host(tmp_path))


def _configured(**properties: Any) -> Workload:
    return Workload(broker_config={name.replace("_", "."): str(value) for name, value in properties.items()})


def test_every_rule_is_of_a_knob_that_there_is() -> None:
    for knob_id in RULES:
        assert find_knob(knob_id).id == knob_id


def test_our_defaults_are_those_of_our_broker() -> None:
    for name, value in BROKER_DEFAULTS["highwater"].items():
        assert BROKER_PROPERTIES[name].default == value


@pytest.mark.parametrize("knob_id", ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"])
def test_a_fixed_buffer_turns_the_kernels_sizing_off(facts: Facts, knob_id: str) -> None:
    direction = "receive" if knob_id.endswith("rmem") else "send"
    assert binding_text(knob_id, facts, OURS) == ""
    assert binding_text(knob_id, facts, KAFKA) == (
        f"no effect on the broker's sockets until its socket.{direction}.buffer.bytes is -1: it is 102400 "
        "(the default of Apache Kafka), and a fixed size turns the kernel's own sizing off"
    )
    configured = parse_properties(f"socket.{direction}.buffer.bytes = -1\n")
    assert binding_text(knob_id, facts, dataclasses.replace(KAFKA, broker_config=configured)) == ""


def test_a_limit_binds_only_who_asks_for_more(facts: Facts) -> None:
    def binds(workload: Workload) -> str:
        return binding_text("net.core.rmem_max", facts, workload, current=212_992)

    assert "is -1 (the default of Highwater), which leaves their size to the kernel" in binds(OURS)
    assert "is raised: it asks for 102400 bytes (the default of Apache Kafka), and up to 212992 are" in binds(KAFKA)
    assert binds(_configured(socket_receive_buffer_bytes=1_000_000)) == ""


@pytest.mark.parametrize("knob_id", ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"])
def test_a_short_backlog_comes_first(facts: Facts, knob_id: str) -> None:
    unknown = dataclasses.replace(facts, tcp_ext={})
    assert binding_text(knob_id, facts, OURS, current=4096).startswith(
        "no effect until the broker's socket.listen.backlog.size is raised: it listens with 50 (the default of Highwa"
    )
    enough = _configured(socket_listen_backlog_size=8192)
    assert binding_text(knob_id, unknown, enough, current=4096) == ""
    quiet = dataclasses.replace(facts, tcp_ext={"ListenOverflows": 0})
    assert binding_text(knob_id, quiet, enough, current=4096) == (
        "no queue of new connections has overflowed since boot (ListenOverflows is 0)"
    )
    busy = dataclasses.replace(facts, tcp_ext={"ListenOverflows": 3})
    assert binding_text(knob_id, busy, enough, current=4096) == ""


def test_counters_tell_whether_a_queue_was_ever_full(facts: Facts) -> None:
    def with_counters(dropped: int, squeezed: int) -> Facts:
        return dataclasses.replace(facts, softnet=Softnet(processed=10, dropped=dropped, time_squeeze=squeezed))

    assert "0 dropped" in binding_text("net.core.netdev_max_backlog", with_counters(0, 5), OURS)
    assert binding_text("net.core.netdev_max_backlog", with_counters(5, 0), OURS) == ""
    assert "0 squeezed" in binding_text("net.core.netdev_budget", with_counters(5, 0), OURS)
    assert binding_text("net.core.netdev_budget", with_counters(0, 5), OURS) == ""
    unknown = dataclasses.replace(facts, softnet=None)
    assert binding_text("net.core.netdev_budget", unknown, OURS) == ""


def test_swappiness_needs_swap(facts: Facts) -> None:
    assert binding_text("vm.swappiness", facts, OURS) == "no effect now: no swap is active"
    assert binding_text("vm.swappiness", dataclasses.replace(facts, swaps=None), OURS) == ""


def test_files_of_the_host(tmp_path: Path) -> None:
    root = make_host(tmp_path)
    write(root, "/proc/sys/fs/file-nr", "1312\t0\t1000000\n")
    write(root, "/proc/sys/fs/aio-nr", "0\n")
    facts = collect(root)
    assert binding_text("fs.file-max", facts, OURS, current=1_000_000).startswith("no effect now: 1312 files are open")
    assert binding_text("fs.file-max", facts, OURS, current=2000) == ""
    assert "fs.aio-nr is 0" in binding_text("fs.aio-max-nr", facts, OURS)
    write(root, "/proc/sys/fs/aio-nr", "128\n")
    assert binding_text("fs.aio-max-nr", facts, OURS) == ""


def test_the_ceiling_of_file_limits_comes_first(facts: Facts) -> None:
    assert binding_text("unit.limit_nofile", facts, OURS, recommended=100_000) == ""
    assert binding_text("unit.limit_nofile", facts, OURS, recommended=2_000_000) == (
        "refused until fs.nr_open, which is 1048576, is raised first"
    )


def test_one_of_everything(facts: Facts) -> None:
    assert (
        binding_text("nic.rps_cpus", dataclasses.replace(facts, cpus_online=(0,)), OURS)
        == "no effect: there is one CPU only"
    )
    assert binding_text("nic.rps_cpus", facts, OURS) == ""
    node = NumaNode(0, (0, 1), GIB)
    assert "one NUMA node" in binding_text("vm.zone_reclaim_mode", dataclasses.replace(facts, numa_nodes=(node,)), OURS)
    two = dataclasses.replace(facts, numa_nodes=(node, node))
    assert binding_text("vm.zone_reclaim_mode", two, OURS) == ""


def test_a_scheduler_without_a_choice(tmp_path: Path) -> None:
    facts = collect(make_host(tmp_path, disks=(Disk("nvme0n1", "/data", schedulers="[none]"),)))
    assert binding_text("disk.scheduler", facts, OURS, "nvme0n1") == (
        "nothing to choose: this kernel offers none alone for it"
    )


def test_dirty_limits_inside_a_control_group(facts: Facts) -> None:
    memory = Memory(total_bytes=64 * GIB, available_bytes=60 * GIB, cgroup_limit_bytes=6 * GIB)
    group = dataclasses.replace(facts.control_group, version="v2")
    inside = dataclasses.replace(facts, memory=memory, control_group=group)
    assert binding_text("vm.dirty_bytes", inside, OURS, current=3 * GIB) == (
        "inside this control group (memory limit 6 GiB) writers wait earlier: the kernel scales the limit "
        "to the group's share, about 307 MiB"
    )
    assert binding_text("vm.dirty_bytes", facts, OURS, current=3 * GIB) == ""


def test_mappings_matter_to_those_who_map(facts: Facts) -> None:
    assert binding_text("vm.max_map_count", facts, OURS).startswith(
        "no effect on Highwater's broker, which maps no fil"
    )
    assert binding_text("vm.max_map_count", facts, KAFKA) == ""


def _interface() -> NetworkInterface:
    """One whose receive queue keeps no table of flows."""
    return NetworkInterface(
        name="eth0",
        kind="physical",
        driver=None,
        up=True,
        speed_bits_per_s=None,
        mtu=1500,
        rx_queues=("rx-0",),
        tx_queues=(),
        rps_cpus={},
        rps_flow_cnt={"rx-0": 0},
        xps_cpus={},
        irqs=(),
    )


def test_both_tables_of_flows_are_needed(tmp_path: Path, facts: Facts) -> None:
    write(tmp_path, "/proc/sys/net/core/rps_sock_flow_entries", "0\n")
    assert "until net.core.rps_sock_flow_entries is more than 0" in binding_text("nic.rps_flow_cnt", facts, OURS)
    interface = _interface()
    without = dataclasses.replace(facts, network_interfaces={"eth0": interface})
    assert binding_text("net.core.rps_sock_flow_entries", without, OURS).startswith(
        "no effect until nic.rps_flow_cnt of"
    )
    steered = dataclasses.replace(interface, rps_flow_cnt={"rx-0": 4096})
    assert (
        binding_text(
            "net.core.rps_sock_flow_entries", dataclasses.replace(facts, network_interfaces={"eth0": steered}), OURS
        )
        == ""
    )


def test_no_huge_pages_no_defragmentation(tmp_path: Path, facts: Facts) -> None:
    assert binding_text("thp.defrag", facts, OURS) == ""
    write(tmp_path, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    assert binding_text("thp.defrag", facts, OURS) == "no effect while thp.enabled is never"


@pytest.mark.parametrize(("schedulers", "binds"), [("[none] bfq", True), ("none [bfq]", False)])
def test_io_weights_say_when_no_scheduler_heeds_them(tmp_path: Path, schedulers: str, binds: bool) -> None:
    facts = collect(make_host(tmp_path, disks=(Disk("sda", "/data", schedulers=schedulers),)))
    text = binding_text("unit.io_weight", facts, Workload(data_dirs=("/data",)), "highwater-broker@.service")
    assert text == ("no effect now on sda: weights need the scheduler bfq or io.cost" if binds else "")


@pytest.mark.parametrize(
    ("knob_id", "other"),
    [
        ("nic.rps_flow_cnt", "net.core.rps_sock_flow_entries"),
        ("net.core.rps_sock_flow_entries", "nic.rps_flow_cnt"),
        ("thp.defrag", "thp.enabled"),
    ],
)
def test_a_knob_that_waits_for_another_does_not_wait_when_both_are_set(
    tmp_path: Path, knob_id: str, other: str
) -> None:
    root = make_host(tmp_path)
    write(root, "/proc/sys/net/core/rps_sock_flow_entries", "0\n")
    write(root, "/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    facts = dataclasses.replace(collect(root), network_interfaces={"eth0": _interface()})
    assert binding_text(knob_id, facts, OURS).startswith("no effect")
    assert binding_text(knob_id, facts, OURS, changing=frozenset({other})) == ""
