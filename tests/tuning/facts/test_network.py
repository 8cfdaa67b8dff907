"""Interfaces, queues, interrupts and counters, with the cases that other tuners fell over."""

from __future__ import annotations

from pathlib import Path

from highwater.tuning.facts import collect
from tests.tuning.host_tree import add_interface, make_big_host, make_host, write


def test_64_queues_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    facts = collect(make_big_host(tmp_path, disks=1, queues=64))
    interface = facts.network_interfaces["eth0"]
    assert (interface.kind, interface.driver, interface.numa_node) == ("physical", "ice", 0)
    assert interface.rx_queues[:11] == tuple(f"rx-{number}" for number in range(11))
    assert len(interface.tx_queues) == len(interface.irqs) == len(interface.rps_cpus) == 64
    assert interface.speed_bits_per_s == 25 * 10**9
    assert facts.interrupts[103].name == "eth0-TxRx-3"
    assert facts.interrupts[103].effective_affinity == (3,)


def test_every_member_of_a_bond_is_there(tmp_path: Path) -> None:
    make_host(tmp_path)
    add_interface(tmp_path, "eth0")
    add_interface(tmp_path, "eth1")
    write(tmp_path, "/sys/class/net/bond0/mtu", "9000\n")
    write(tmp_path, "/sys/class/net/bond0/uevent", "DEVTYPE=bond\nINTERFACE=bond0\n")
    write(tmp_path, "/sys/class/net/bonding_masters", "bond0\n")
    for member in ("eth0", "eth1"):
        (tmp_path / f"sys/class/net/bond0/lower_{member}").symlink_to(f"../{member}")
        (tmp_path / f"sys/class/net/{member}/master").symlink_to("../bond0")
    facts = collect(tmp_path)
    assert facts.network_interfaces["bond0"].members == ("eth0", "eth1")
    assert facts.network_interfaces["bond0"].virtual
    assert facts.network_interfaces["eth1"].master == "bond0"
    assert [interface.name for interface in facts.physical_interfaces()] == ["eth0", "eth1"]


def test_interfaces_without_a_device_have_no_interrupts(tmp_path: Path) -> None:
    make_host(tmp_path)
    for name, uevent in (("br0", "DEVTYPE=bridge\n"), ("eth0.7", "DEVTYPE=vlan\n"), ("dummy0", "")):
        write(tmp_path, f"/sys/class/net/{name}/mtu", "1500\n")
        write(tmp_path, f"/sys/class/net/{name}/uevent", uevent)
    write(tmp_path, "/sys/class/net/veth1/mtu", "1500\n")
    write(tmp_path, "/sys/class/net/veth1/ifindex", "7\n")
    write(tmp_path, "/sys/class/net/veth1/iflink", "8\n")
    interfaces = collect(tmp_path).network_interfaces
    kinds = {name: interface.kind for name, interface in interfaces.items()}
    assert kinds == {
        "br0": "bridge",
        "dummy0": "virtual",
        "eth0.7": "vlan",
        "lo": "loopback",
        "veth1": "veth",
    }
    assert not any(interface.irqs for interface in interfaces.values())


def test_the_interrupts_of_a_virtio_interface_are_those_of_its_pci_function(tmp_path: Path) -> None:
    make_host(tmp_path)
    function = "/sys/devices/pci0000:00/0000:00:03.0"
    write(tmp_path, f"{function}/virtio2/net/eth0/mtu", "1500\n")
    (tmp_path / "sys/class/net/eth0").symlink_to("../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0")
    (tmp_path / f"{function[1:]}/virtio2/net/eth0/device").symlink_to("../../../virtio2")
    (tmp_path / f"{function[1:]}/virtio2/driver").symlink_to("../../../../bus/virtio/drivers/virtio_net")
    names = ("virtio2-config", "virtio2-input.0", "virtio2-output.0")
    lines = [f"{37 + number}: 0 0 PCI-MSIX-0000:00:03.0 {number}-edge {name}" for number, name in enumerate(names)]
    write(tmp_path, "/proc/interrupts", "\n".join(["CPU0 CPU1", *lines, "LOC: 9 9 Local timer interrupts"]))
    for number in (37, 38, 39):
        write(tmp_path, f"{function}/msi_irqs/{number}", "msix\n")
    interface = collect(tmp_path).network_interfaces["eth0"]
    assert interface.kind == "virtio"
    assert interface.irqs == (38, 39), "the one for configuration carries no packets"


def test_an_interface_without_msi_interrupts_is_found_by_name_and_never_crashes(tmp_path: Path) -> None:
    make_host(tmp_path)
    (tmp_path / "sys/class/net/eth1/device").mkdir(parents=True)
    write(tmp_path, "/sys/class/net/eth1/mtu", "1500\n")
    write(tmp_path, "/proc/interrupts", "CPU0\n 5: 3 IO-APIC 5-edge eth1\n 6: 3 IO-APIC 6-edge eth10\n")
    assert collect(tmp_path).network_interfaces["eth1"].irqs == (5,)


def test_counters_are_summed_over_processors(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/proc/net/softnet_stat", "00000010 00000001 0000000f 0\n00000020 00000002 00000001 0\n")
    write(tmp_path, "/proc/net/netstat", "TcpExt: X ListenDrops ListenOverflows\nTcpExt: 1 2 3\nIpExt: A\nIpExt: 4\n")
    facts = collect(tmp_path)
    assert facts.softnet is not None
    assert (facts.softnet.processed, facts.softnet.dropped, facts.softnet.time_squeeze) == (48, 3, 16)
    assert facts.tcp_ext == {"ListenDrops": 2, "ListenOverflows": 3}


def test_garbage_counters_leave_reasons(tmp_path: Path) -> None:
    make_host(tmp_path)
    write(tmp_path, "/proc/net/softnet_stat", "what is this\n")
    write(tmp_path, "/proc/net/netstat", "TcpExt: A B\n")
    facts = collect(tmp_path)
    assert facts.softnet is None
    assert facts.tcp_ext == {}
    assert {"softnet", "tcp_ext"} <= set(facts.unknown)
