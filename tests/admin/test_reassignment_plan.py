from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.admin.reassignment_plan import Assignment, MalformedPlan, make_plan, parse_plan, render_plan


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    count = draw(st.integers(1, 3))
    brokers = st.lists(st.integers(1, 6), min_size=count, max_size=count, unique=True)
    partitions = draw(st.dictionaries(st.sampled_from("stu"), st.integers(1, 12), min_size=1))
    return {(topic, index): draw(brokers) for topic, number in partitions.items() for index in range(number)}


def evenness(held: Iterable[int], brokers: Iterable[int]) -> int:
    """How much more the broker with the most has than the one with the least."""
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(held)
    return max(load.values()) - min(load.values())


@given(assignments(), st.sets(st.integers(1, 9), min_size=3))
def test_a_plan_spreads_every_topic_and_the_whole(current: Assignment, brokers: set[int]) -> None:
    plan = make_plan(current, dict.fromkeys(brokers))
    assert plan.keys() == current.keys()
    for place, replicas in plan.items():
        assert len(replicas) == len(current[place]) == len(set(replicas))
        assert brokers.issuperset(replicas)
    assert evenness((broker for replicas in plan.values() for broker in replicas), brokers) <= 1
    for topic in {topic for topic, _ in plan}:
        held = [broker for (name, _), replicas in plan.items() if name == topic for broker in replicas]
        assert evenness(held, brokers) <= 1


@given(assignments())
def test_what_is_spread_stays_and_so_do_its_leaders(current: Assignment) -> None:
    brokers = dict.fromkeys({broker for replicas in current.values() for broker in replicas})
    plan = make_plan(current, brokers)
    assert make_plan(plan, brokers) == plan


def test_a_new_broker_gets_its_share_of_every_topic_and_leads_some() -> None:
    current = {("small", index): [1 + index % 3, 1 + (index + 1) % 3, 1 + (index + 2) % 3] for index in range(6)}
    current |= {("large", index): [1 + index % 3, 1 + (index + 1) % 3] for index in range(50)}
    plan = make_plan(current, dict.fromkeys((1, 2, 3, 4)))
    for topic, copies, leaders in (("small", 4, 1), ("large", 25, 12)):
        held = [replicas for (name, _), replicas in plan.items() if name == topic]
        assert sum(4 in replicas for replicas in held) in (copies, copies + 1)
        assert sum(replicas[0] == 4 for replicas in held) in (leaders, leaders + 1)
    moved = sum(len(set(plan[place]) - set(current[place])) for place in plan)
    assert moved == sum(replicas.count(4) for replicas in plan.values()), "only to the new broker"


def test_emptying_a_broker_moves_only_what_is_on_it() -> None:
    current = {("t", index): [1 + index % 3, 1 + (index + 1) % 3] for index in range(6)}
    plan = make_plan(current, {1: None, 2: None, 4: None})
    for place, replicas in plan.items():
        assert set(replicas) - {4} == set(current[place]) - {3}


def test_replicas_are_in_different_racks_where_there_are_enough() -> None:
    current = {("t", index): [1, 2] for index in range(6)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = make_plan(current, racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in plan.values())
    assert all(set(replicas) & {1, 2} for replicas in plan.values()), "one of the two stays"
    assert make_plan(plan, racks) == plan
    one_rack = dict.fromkeys((1, 2), "a")
    assert make_plan(current, one_rack).keys() == current.keys(), "not apart where there is one rack"
    emptied = make_plan(current, {1: "a", 3: "b", 4: "b"})
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in emptied.values())


@given(assignments(), st.integers(1, 3), st.integers(3, 5))
def test_hosts_of_several_brokers_keep_replicas_apart_and_a_second_plan_moves_nothing(
    current: Assignment, processes: int, hosts: int
) -> None:
    """As broker_processes of the playbooks numbers them; the rack of a broker is its host."""
    racks: dict[int, str | None] = {
        host + 100 * process: f"h{host}" for host in range(1, hosts + 1) for process in range(processes)
    }
    plan = make_plan(current, racks)
    for place, replicas in plan.items():
        assert len({racks[broker] for broker in replicas}) == len(replicas) == len(current[place])
    assert make_plan(plan, racks) == plan


def test_too_few_brokers_are_told() -> None:
    with pytest.raises(ValueError, match="t-0 has 2 replicas"):
        make_plan({("t", 0): [1, 2]}, {1: None})


def test_a_plan_survives_its_own_text() -> None:
    plan = {("t", 0): [1, 2], ("s", 3): [2]}
    assert parse_plan(render_plan(plan)) == plan


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "expected"),
        ('{"version":2,"partitions":[]}', "expected"),
        ('{"version":1,"partitions":[]}', "it names no partitions"),
        ('{"version":1,"partitions":[{"topic":"t"}]}', "lacks topic, partition or replicas"),
        ('{"version":1,"partitions":[7]}', "lacks topic, partition or replicas"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}', "are none, or name a broker twice"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,1]}]}', "name a broker twice"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":"1"}]}', "broker ids are expected"),
        ('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[true]}]}', "broker ids are expected"),
        (
            '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/d"]}]}',
            "log_dirs are moved by AlterReplicaLogDirs, not here",
        ),
    ],
)
def test_what_is_no_plan_is_told(text: str, reason: str) -> None:
    with pytest.raises(MalformedPlan, match=reason):
        parse_plan(text)
