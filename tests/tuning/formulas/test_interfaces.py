"""Queues and interrupts over CPUs: every interface, every member of a bond, near CPUs, and nothing that is good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.tuning.facts.model import Competitor, Facts, Interrupt, NetworkInterface, NumaNode
from highwater.tuning.formulas import interfaces
from highwater.tuning.formulas.cpus import cpus_near, format_cpu_mask, format_ranges, parse_cpu_mask
from highwater.tuning.formulas.targets import targets_of
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Formula, NotApplicable, Scope, Target
from highwater.tuning.workload import Workload

WORKLOAD = Workload()


def _interface(
    name: str, queues: int = 4, *, first_irq: int = 100, mask: str = "00", **changes: Any
) -> NetworkInterface:
    fields: dict[str, Any] = {
        "kind": "physical",
        "driver": "ice",
        "up": True,
        "speed_bits_per_s": 25 * 10**9,
        "mtu": 1500,
        "rx_queues": tuple(f"rx-{number}" for number in range(queues)),
        "tx_queues": tuple(f"tx-{number}" for number in range(queues)),
        "rps_cpus": {f"rx-{number}": mask for number in range(queues)},
        "rps_flow_cnt": {f"rx-{number}": 0 for number in range(queues)},
        "xps_cpus": {f"tx-{number}": mask for number in range(queues)},
        "irqs": tuple(range(first_irq, first_irq + queues)),
    }
    return NetworkInterface(name, **{**fields, **changes})


def _interrupts(interface: NetworkInterface, cpus: Sequence[int | None]) -> dict[int, Interrupt]:
    """One for each queue, all of them allowed everywhere and taken by the CPUs given."""
    return {
        number: Interrupt(number, f"{interface.name}-TxRx-{queue}", tuple(range(8)), None if cpu is None else (cpu,))
        for queue, (number, cpu) in enumerate(zip(interface.irqs, cpus, strict=True))
    }


def _facts(root: Path, *found: NetworkInterface, cpus: int = 8, **changes: Any) -> Facts:
    fields: dict[str, Any] = {
        "cpus_online": tuple(range(cpus)),
        "network_interfaces": {each.name: each for each in found},
    }
    return Facts(files=HostFiles(root), **{**fields, **changes})


def _values(formula: Formula, facts: Facts, scope: Scope) -> Mapping[str, object]:
    answers = {target: formula(facts, WORKLOAD, target) for target in targets_of(scope, facts, WORKLOAD)}
    return {target: answer.value if isinstance(answer, Target) else None for target, answer in answers.items()}


def _reason(formula: Formula, facts: Facts, target: str) -> str:
    answer = formula(facts, WORKLOAD, target)
    assert isinstance(answer, NotApplicable)
    return answer.reason


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([0], "0"), ([3, 1, 2, 8], "1-3,8"), ([0, 2, 4], "0,2,4"), ([5, 6], "5-6")]
)
def test_numbers_are_written_as_the_kernel_does(numbers: list[int], text: str) -> None:
    assert format_ranges(numbers) == text


@pytest.mark.parametrize(
    ("cpus", "like", "text"),
    [
        ([], "0", "0"),
        ([0, 1], "0", "3"),
        ([0, 1], "00", "03"),
        ([32], "00000000,00000000", "00000001,00000000"),
        ([0], "0000,00000000", "0000,00000001"),
        ([63], "ff", "80000000,00000000"),
    ],
)
def test_a_mask_is_as_wide_as_the_one_before(cpus: list[int], like: str, text: str) -> None:
    assert format_cpu_mask(cpus, like) == text
    assert parse_cpu_mask(text) == frozenset(cpus)


def test_what_is_no_mask_has_no_cpus() -> None:
    assert parse_cpu_mask("") == parse_cpu_mask("nonsense") == frozenset()


def test_near_cpus_are_those_of_the_node_that_are_neither_isolated_nor_off(tmp_path: Path) -> None:
    nodes = (NumaNode(0, (0, 1, 2, 3), None), NumaNode(1, (4, 5, 6, 7, 99), None))
    facts = _facts(tmp_path, numa_nodes=nodes, cpus_isolated=(7,))
    assert cpus_near(facts, 1) == (4, 5, 6)
    assert cpus_near(facts, None) == cpus_near(facts, -1) == cpus_near(facts, 9) == (0, 1, 2, 3, 4, 5, 6)


def test_only_interfaces_with_hardware_that_are_not_down_are_asked(tmp_path: Path) -> None:
    found = [
        _interface("eth0", master="bond0"),
        _interface("eth1", first_irq=200, master="bond0"),
        _interface("eth2", up=False),
        _interface("eth3", up=None),
        *(_interface(name, 1, kind=name) for name in ("veth", "bridge", "bond", "loopback", "vlan")),
    ]
    facts = _facts(tmp_path, *found)
    assert targets_of("interface", facts, WORKLOAD) == ("eth0", "eth1", "eth3")
    assert len(targets_of("receive queue", facts, WORKLOAD)) == 12
    assert targets_of("transmit queue", facts, WORKLOAD)[4] == "eth1/queues/tx-0"
    assert targets_of("interrupt", facts, WORKLOAD) == (), "none of them is known to the kernel's list"


def test_a_host_without_interfaces_has_no_targets_and_nothing_fails(tmp_path: Path) -> None:
    facts = _facts(tmp_path)
    scopes: tuple[Scope, ...] = (
        "interface",
        "receive queue",
        "transmit queue",
        "interrupt",
        "frequency policy",
        "disk",
    )
    for scope in scopes:
        assert targets_of(scope, facts, WORKLOAD) == ()
    for formula in (
        interfaces.receive_steering,
        interfaces.flows_of_queue,
        interfaces.transmit_steering,
        interfaces.interrupt_affinity,
        interfaces.channels,
        interfaces.jumbo_frames,
    ):
        assert _reason(formula, facts, "")
        assert _reason(formula, facts, "eth9/queues/rx-0")


def test_every_queue_of_every_member_of_a_bond_gets_a_cpu_of_its_own(tmp_path: Path) -> None:
    first, second = _interface("eth0", master="bond0"), _interface("eth1", first_irq=200, master="bond0")
    interrupts = {**_interrupts(first, [0] * 4), **_interrupts(second, [0] * 4)}
    facts = _facts(tmp_path, first, second, interrupts=interrupts)
    values = _values(interfaces.interrupt_affinity, facts, "interrupt")
    assert values == {
        **{str(100 + queue): str(queue) for queue in range(4)},
        **{str(200 + queue): str(4 + queue) for queue in range(4)},
    }


def test_more_queues_than_cpus_share_them_evenly(tmp_path: Path) -> None:
    nic = _interface("eth0", 16)
    facts = _facts(tmp_path, nic, interrupts=_interrupts(nic, [0] * 16), cpus=4)
    values = _values(interfaces.interrupt_affinity, facts, "interrupt")
    assert Counter(values.values()) == {str(cpu): 4 for cpu in range(4)}


def test_interrupts_stay_near_their_interface(tmp_path: Path) -> None:
    nic = _interface("eth0", numa_node=1)
    nodes = (NumaNode(0, (0, 1, 2, 3), None), NumaNode(1, (4, 5, 6, 7), None))
    facts = _facts(tmp_path, nic, interrupts=_interrupts(nic, [0, 1, 2, 3]), numa_nodes=nodes)
    assert list(_values(interfaces.interrupt_affinity, facts, "interrupt").values()) == ["4", "5", "6", "7"]


def test_a_spread_that_is_good_stays_however_it_is_arranged(tmp_path: Path) -> None:
    nic = _interface("eth0")
    facts = _facts(tmp_path, nic, interrupts=_interrupts(nic, [6, 1, 0, 3]))
    assert set(_values(interfaces.interrupt_affinity, facts, "interrupt").values()) == {"0-7"}
    crowded = replace(facts, interrupts=_interrupts(nic, [6, 6, 0, 3]))
    assert list(_values(interfaces.interrupt_affinity, crowded, "interrupt").values()) == ["0", "1", "2", "3"]
    unknown = replace(facts, interrupts=_interrupts(nic, [None] * 4))
    assert list(_values(interfaces.interrupt_affinity, unknown, "interrupt").values()) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("eth0-TxRx-3", 3),
        ("i40e-eth0-TxRx-12", 12),
        ("ens5-Tx-Rx-0", 0),
        ("mlx5_comp3@pci:0000:01:00.0", 3),
        ("virtio2-input.0", 0),
        ("virtio2-output.1", 1),
        ("eth0-fp-2", 2),
        ("eth0-rx-5", 5),
        ("mlx4-6@0000:03:00.0", 6),
        ("eth0-q3-tx", 3),
        ("gve-ntfy-blk2@pci:0000:00:04.0", 2),
        ("mana_q1@pci:7870:00:00.0", 1),
        ("enp4s0-4", 4),
        ("i40e-0000:01:00.0:fdir-TxRx-0", None),
        ("virtio2-config", None),
        ("mlx5_async0@pci:0000:01:00.0", None),
        ("eth0", None),
        ("eth0-event", None),
        ("", None),
    ],
)
def test_interrupts_of_queues_are_known_by_their_names(tmp_path: Path, name: str, queue: int | None) -> None:
    nic = _interface("eth0", 16, irqs=(100,))
    facts = _facts(tmp_path, nic, interrupts={100: Interrupt(100, name, tuple(range(8)), tuple(range(8)))}, cpus=16)
    answer = interfaces.interrupt_affinity(facts, WORKLOAD, "100")
    assert (answer.value if isinstance(answer, Target) else None) == (None if queue is None else str(queue))


def test_sending_and_receiving_of_one_queue_share_a_cpu(tmp_path: Path) -> None:
    nic = _interface("eth0", 2, irqs=(100, 101, 102, 103))
    names = ("virtio2-input.0", "virtio2-output.0", "virtio2-input.1", "virtio2-output.1")
    interrupts = {100 + place: Interrupt(100 + place, name, (0,), (0,)) for place, name in enumerate(names)}
    facts = _facts(tmp_path, nic, interrupts=interrupts)
    assert list(_values(interfaces.interrupt_affinity, facts, "interrupt").values()) == ["0", "0", "1", "1"]


def test_nothing_is_moved_that_irqbalance_would_move_back(tmp_path: Path) -> None:
    nic = _interface("eth0")
    competitor = Competitor("irqbalance", "spreads interrupts anew", "/run/irqbalance.pid")
    facts = _facts(tmp_path, nic, interrupts=_interrupts(nic, [0] * 4), competitors=(competitor,))
    assert "--banirq=100" in _reason(interfaces.interrupt_affinity, facts, "100")


def test_an_interface_without_interrupts_of_its_own_is_no_obstacle(tmp_path: Path) -> None:
    bare, other = _interface("eth0", irqs=()), _interface("eth1", first_irq=200)
    facts = _facts(tmp_path, bare, other, interrupts=_interrupts(other, [0] * 4))
    assert list(_values(interfaces.interrupt_affinity, facts, "interrupt").values()) == ["0", "1", "2", "3"]


def test_a_single_cpu_leaves_nothing_to_choose(tmp_path: Path) -> None:
    nic = _interface("eth0")
    facts = _facts(tmp_path, nic, interrupts=_interrupts(nic, [0] * 4), cpus=1)
    for formula, target in (
        (interfaces.interrupt_affinity, "100"),
        (interfaces.receive_steering, "eth0/queues/rx-0"),
        (interfaces.transmit_steering, "eth0/queues/tx-0"),
        (interfaces.channels, "eth0"),
    ):
        assert _reason(formula, facts, target) == "CPU 0 is the only one"
        assert _reason(formula, replace(facts, cpus_online=()), target) == "the CPUs of this host are not known"


@pytest.mark.parametrize(
    ("queues", "cpus", "wanted"), [(1, 8, "ff"), (4, 8, "ff"), (7, 8, "ff"), (8, 8, "00"), (16, 8, "00")]
)
def test_packets_are_steered_only_with_fewer_queues_than_cpus(
    tmp_path: Path, queues: int, cpus: int, wanted: str
) -> None:
    facts = _facts(tmp_path, _interface("eth0", queues), cpus=cpus)
    assert set(_values(interfaces.receive_steering, facts, "receive queue").values()) == {wanted}
    flows = interfaces.flow_table(facts, WORKLOAD, "")
    assert isinstance(flows, Target) == (queues < cpus)


def test_somebodys_own_choice_of_cpus_is_as_good(tmp_path: Path) -> None:
    answer = interfaces.receive_steering(
        _facts(tmp_path, _interface("eth0", 1, mask="0c")), WORKLOAD, "eth0/queues/rx-0"
    )
    assert isinstance(answer, Target)
    assert answer.also == ("0c",)
    needless = interfaces.receive_steering(
        _facts(tmp_path, _interface("eth0", 8, mask="0c")), WORKLOAD, "eth0/queues/rx-0"
    )
    assert isinstance(needless, Target)
    assert (needless.value, needless.also) == ("00", ())


@pytest.mark.parametrize(("queues", "wanted"), [(1, 32_768), (2, 16_384), (3, 16_384), (6, 8192), (7, 8192)])
def test_flows_are_a_power_of_two_as_the_kernel_makes_them(tmp_path: Path, queues: int, wanted: int) -> None:
    values = _values(interfaces.flows_of_queue, _facts(tmp_path, _interface("eth0", queues)), "receive queue")
    assert set(values.values()) == {wanted}


def test_kernels_without_steering_are_said_to_be_so(tmp_path: Path) -> None:
    facts = _facts(tmp_path, _interface("eth0", 2, rps_cpus={}, rps_flow_cnt={}, xps_cpus={}))
    assert "RPS" in _reason(interfaces.receive_steering, facts, "eth0/queues/rx-0")
    assert "RFS" in _reason(interfaces.flows_of_queue, facts, "eth0/queues/rx-0")
    assert "XPS" in _reason(interfaces.transmit_steering, facts, "eth0/queues/tx-0")


@pytest.mark.parametrize(("queues", "cpus"), [(2, 8), (4, 8), (8, 8), (3, 8)])
def test_every_cpu_sends_through_exactly_one_queue(tmp_path: Path, queues: int, cpus: int) -> None:
    values = _values(
        interfaces.transmit_steering, _facts(tmp_path, _interface("eth0", queues), cpus=cpus), "transmit queue"
    )
    masks = [parse_cpu_mask(str(value)) for value in values.values()]
    assert sorted(cpu for mask in masks for cpu in mask) == list(range(cpus))
    assert max(map(len, masks)) - min(map(len, masks)) <= 1


def test_what_the_driver_spread_stays(tmp_path: Path) -> None:
    masks = {"tx-0": "aa", "tx-1": "55"}
    facts = _facts(tmp_path, _interface("eth0", 2, xps_cpus=masks))
    assert list(_values(interfaces.transmit_steering, facts, "transmit queue").values()) == ["aa", "55"]
    assert "one transmit queue" in _reason(
        interfaces.transmit_steering, _facts(tmp_path, _interface("eth0", 1)), "eth0/queues/tx-0"
    )


def test_the_number_of_queues_is_advice_and_of_a_guest_the_hypervisors(tmp_path: Path) -> None:
    physical = _facts(tmp_path, _interface("eth0", 2))
    answer = interfaces.channels(physical, WORKLOAD, "eth0")
    assert isinstance(answer, Target)
    assert (answer.value, interfaces.observe_channels(physical, "eth0").value) == (8, 2)
    guest = _facts(tmp_path, _interface("eth0", 1, kind="virtio"))
    assert "ask for more there" in _reason(interfaces.channels, guest, "eth0")


def test_jumbo_frames_are_never_asked_for_unproved(tmp_path: Path) -> None:
    assert "ping -M do -s 8972 PEER" in _reason(interfaces.jumbo_frames, _facts(tmp_path, _interface("eth0")), "eth0")
    has_them = interfaces.jumbo_frames(_facts(tmp_path, _interface("eth0", mtu=9001)), WORKLOAD, "eth0")
    assert isinstance(has_them, Target)
    assert has_them.value == 9001
