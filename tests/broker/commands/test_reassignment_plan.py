from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.commands.reassignment_plan import Assignment, MalformedPlan, make_plan, parse_plan, render_plan


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    count = draw(st.integers(1, 3))
    partitions = draw(st.integers(1, 20))
    brokers = st.lists(st.integers(1, 6), min_size=count, max_size=count, unique=True)
    return {("t", index): draw(brokers) for index in range(partitions)}


@given(assignments(), st.sets(st.integers(1, 9), min_size=3))
def test_a_plan_spreads_replicas_and_leaders(current: Assignment, brokers: set[int]) -> None:
    plan = make_plan(current, dict.fromkeys(brokers))
    assert plan.keys() == current.keys()
    load = Counter(dict.fromkeys(brokers, 0))
    for place, replicas in plan.items():
        assert len(replicas) == len(current[place]) == len(set(replicas))
        assert brokers.issuperset(replicas)
        load.update(replicas)
    assert max(load.values()) - min(load.values()) <= 1


@given(assignments())
def test_what_is_spread_stays(current: Assignment) -> None:
    brokers = dict.fromkeys({broker for replicas in current.values() for broker in replicas})
    plan = make_plan(current, brokers)
    again = make_plan(plan, brokers)
    assert {place: set(replicas) for place, replicas in again.items()} == {
        place: set(replicas) for place, replicas in plan.items()
    }


def test_emptying_a_broker_moves_only_what_is_on_it() -> None:
    current = {("t", index): [1 + index % 3, 1 + (index + 1) % 3] for index in range(6)}
    plan = make_plan(current, {1: None, 2: None, 4: None})
    for place, replicas in plan.items():
        assert set(replicas) - {4} == set(current[place]) - {3}


def test_replicas_are_in_different_racks_where_there_are_enough() -> None:
    current = {("t", index): [1, 2] for index in range(6)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    plan = make_plan(current, racks)
    for replicas in plan.values():
        # A replica that may stay stays; nothing that was apart comes together.
        assert set(replicas) == {1, 2} or {racks[broker] for broker in replicas} == {"a", "b"}
    emptied = make_plan(current, {1: "a", 3: "b", 4: "b"})
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in emptied.values())


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
