"""Whatever the interfaces, queues and CPUs: work is spread evenly near the interface, and then stays as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from highwater.tuning.facts.model import Facts, Interrupt, NetworkInterface, NumaNode
from highwater.tuning.formulas import interfaces
from highwater.tuning.formulas.cpus import cpus_near, format_cpu_mask, format_ranges, parse_cpu_mask
from highwater.tuning.formulas.targets import targets_of
from highwater.tuning.hostfiles import HostFiles
from highwater.tuning.model import Formula, Scope, Target
from highwater.tuning.workload import Workload

WORKLOAD = Workload()


@st.composite
def hosts(draw: st.DrawFn) -> Facts:
    """Hosts of one or two memory nodes and up to three interfaces, with interrupts wherever they may be."""
    cpus = draw(st.integers(1, 40))
    split = draw(st.integers(0, cpus - 1))
    nodes = (NumaNode(0, tuple(range(split)), None), NumaNode(1, tuple(range(split, cpus)), None))
    found: dict[str, NetworkInterface] = {}
    interrupts: dict[int, Interrupt] = {}
    for number in range(draw(st.integers(1, 3))):
        name, queues = f"eth{number}", draw(st.integers(1, 24))
        first = 100 * (number + 1)
        found[name] = NetworkInterface(
            name,
            "physical",
            "ice",
            True,
            None,
            1500,
            tuple(f"rx-{queue}" for queue in range(queues)),
            tuple(f"tx-{queue}" for queue in range(queues)),
            {f"rx-{queue}": "00,00000000" for queue in range(queues)},
            {f"rx-{queue}": 0 for queue in range(queues)},
            {f"tx-{queue}": "00,00000000" for queue in range(queues)},
            tuple(range(first, first + queues)),
            numa_node=draw(st.sampled_from([None, -1, 0, 1])),
        )
        for queue in range(queues):
            taken_by = draw(st.integers(0, cpus - 1))
            interrupts[first + queue] = Interrupt(
                first + queue, f"{name}-TxRx-{queue}", tuple(range(cpus)), draw(st.sampled_from([None, (taken_by,)]))
            )
    return Facts(
        files=HostFiles(Path("/nowhere")),
        cpus_online=tuple(range(cpus)),
        numa_nodes=draw(st.sampled_from([(), nodes])),
        network_interfaces=found,
        interrupts=interrupts,
    )


@given(facts=hosts())
def test_interrupts_are_spread_evenly_and_then_stay(facts: Facts) -> None:
    wanted = _values(interfaces.interrupt_affinity, facts, "interrupt")
    if len(facts.cpus_online) == 1:
        assert not wanted
        return
    after = replace(facts, interrupts={number: _placed(each, wanted) for number, each in facts.interrupts.items()})
    for interface in facts.network_interfaces.values():
        near = cpus_near(facts, interface.numa_node)
        load = Counter(_serving(after.interrupts[number]) for number in interface.irqs)
        if len(near) > 1:
            assert set(load) <= set(near)
            assert max(load.values()) <= -(-len(interface.irqs) // len(near))
    assert _values(interfaces.interrupt_affinity, after, "interrupt") == wanted


@given(facts=hosts())
def test_every_cpu_sends_through_one_queue_and_then_stays(facts: Facts) -> None:
    wanted = _values(interfaces.transmit_steering, facts, "transmit queue")
    changed = {}
    for name, interface in facts.network_interfaces.items():
        masks = {queue: str(wanted.get(f"{name}/queues/{queue}", text)) for queue, text in interface.xps_cpus.items()}
        changed[name] = replace(interface, xps_cpus=masks)
        if len(interface.tx_queues) > 1 and len(facts.cpus_online) > 1:
            senders = Counter(cpu for mask in masks.values() for cpu in parse_cpu_mask(mask))
            assert senders == dict.fromkeys(facts.cpus_online, 1)
    after = replace(facts, network_interfaces=changed)
    assert wanted.items() <= _values(interfaces.transmit_steering, after, "transmit queue").items()


@given(facts=hosts())
def test_packets_are_steered_to_near_cpus_or_not_at_all_and_then_stay(facts: Facts) -> None:
    wanted = _values(interfaces.receive_steering, facts, "receive queue")
    changed = {}
    for name, interface in facts.network_interfaces.items():
        masks = {queue: str(wanted.get(f"{name}/queues/{queue}", text)) for queue, text in interface.rps_cpus.items()}
        changed[name] = replace(interface, rps_cpus=masks)
        near = set(cpus_near(facts, interface.numa_node))
        for mask in masks.values():
            assert parse_cpu_mask(mask) == (near if len(near) > 1 and len(interface.rx_queues) < len(near) else set())
    after = replace(facts, network_interfaces=changed)
    assert _values(interfaces.receive_steering, after, "receive queue") == wanted


@given(st.sets(st.integers(0, 200)), st.integers(1, 60))
def test_a_mask_says_what_it_was_made_of(cpus: set[int], width: int) -> None:
    mask = format_cpu_mask(cpus, like="0" * width)
    assert parse_cpu_mask(mask) == cpus
    assert format_cpu_mask(cpus, like=mask) == mask
    assert all(len(group) == 8 for group in mask.split(",")[1:])


@given(st.sets(st.integers(0, 300)))
def test_ranges_say_what_they_were_made_of(numbers: set[int]) -> None:
    found: set[int] = set()
    for part in filter(None, format_ranges(numbers).split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == numbers


def _values(formula: Formula, facts: Facts, scope: Scope) -> dict[str, object]:
    answers = {target: formula(facts, WORKLOAD, target) for target in targets_of(scope, facts, WORKLOAD)}
    return {target: answer.value for target, answer in answers.items() if isinstance(answer, Target)}


def _placed(interrupt: Interrupt, wanted: dict[str, object]) -> Interrupt:
    """As the kernel has it after the recommended list was written; a list of several CPUs changes nothing."""
    value = str(wanted.get(str(interrupt.number), ""))
    if not value.isdecimal():
        return interrupt
    return replace(interrupt, affinity=(int(value),), effective_affinity=(int(value),))


def _serving(interrupt: Interrupt) -> int | None:
    return interrupt.effective_affinity[0] if interrupt.effective_affinity else None
