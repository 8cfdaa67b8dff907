"""Events between two snapshots: what is told, once, and what is not known and therefore not told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater.monitor.events import HIDDEN, Event, EventKind, events_between
from highwater.monitor.model import NO_LEADER, ConfigValue, GroupState, Host, Snapshot
from tests.monitor import clusters
from tests.monitor.agents import DRIFT, TUNING, with_hosts
from tests.monitor.clusters import broker, group, member, partition, snapshot, topic

ORDERS = topic("orders", partition("orders", 0), partition("orders", 1))
BEFORE = snapshot(topics=[ORDERS], groups=[group("billing", {("orders", 0): 1}, member("a"), member("b"))])


def after(**changes: object) -> Snapshot:
    return replace(BEFORE, number=1, taken_at_ms=BEFORE.taken_at_ms + 15_000, **changes)  # type: ignore[arg-type]


def only(events: list[Event]) -> Event:
    (event,) = events
    return event


def with_partition(changed: object) -> Snapshot:
    partitions = (changed, ORDERS.partitions[1])
    return after(topics={"orders": replace(ORDERS, partitions=partitions)})  # type: ignore[arg-type]


def test_nothing_happened() -> None:
    assert events_between(BEFORE, after()) == []
    window = clusters.window(clusters.SMALL, ticks=2)
    assert events_between(window[0], window[1]) == []


@pytest.mark.parametrize(
    ("now", "kind", "text", "before_after"),
    [
        (
            partition("orders", 0, leader=1),
            EventKind.LEADER_CHANGE,
            "orders-0: the leader is broker 1; it was broker 0",
            ("0", "1"),
        ),
        (
            partition("orders", 0, leader=NO_LEADER),
            EventKind.PARTITION_OFFLINE,
            "orders-0 has no leader; it was broker 0",
            ("0", ""),
        ),
        (
            partition("orders", 0, isr=(0, 2)),
            EventKind.ISR_SHRINK,
            "orders-0: broker 1 left the in-sync replicas, which are 0,2",
            ("1", ""),
        ),
    ],
)
def test_a_partition_that_changes(now: object, kind: EventKind, text: str, before_after: tuple[str, str]) -> None:
    event = only(events_between(BEFORE, with_partition(now)))
    assert (event.kind, event.entity, event.name, event.text) == (kind, "partition", "orders-0", text)
    assert (event.before, event.after) == before_after
    assert event.at_ms == BEFORE.taken_at_ms + 15_000


def test_a_replica_that_comes_back() -> None:
    event = only(events_between(with_partition(partition("orders", 0, isr=(0, 2))), after()))
    assert (event.kind, event.after) == (EventKind.ISR_EXPAND, "1")


def test_many_changes_of_one_kind_are_one_event() -> None:
    """A broker that leaves takes thousands of leaders along."""
    many = topic("many", *(partition("many", number) for number in range(500)))
    moved = topic("many", *(partition("many", number, leader=1, isr=(1, 2)) for number in range(500)))
    events = events_between(snapshot(topics=[many]), snapshot(number=1, topics=[moved]))
    assert [(event.kind, event.text) for event in events] == [
        (EventKind.LEADER_CHANGE, "500 partitions: the leader changed from broker 0 to broker 1"),
        (EventKind.ISR_SHRINK, "500 partitions: broker 0 left the in-sync replicas"),
    ]
    assert events[0].after.startswith("1 (many-0, many-1, ")
    assert events[0].after.endswith(" and 400 more)")


def test_brokers_come_and_go() -> None:
    gone = after(brokers={**BEFORE.brokers, 2: broker(2, alive=False)})
    assert only(events_between(BEFORE, gone)).kind is EventKind.BROKER_GONE
    assert events_between(gone, gone) == []
    assert only(events_between(gone, after())).kind is EventKind.BROKER_BACK
    forgotten = after(brokers={node: BEFORE.brokers[node] for node in (0, 1)})
    assert only(events_between(BEFORE, forgotten)).text == "broker 2 is gone"
    assert only(events_between(forgotten, after())).kind is EventKind.BROKER_NEW


def test_the_controller() -> None:
    event = only(events_between(BEFORE, after(controller=2, controller_epoch=7)))
    assert event.text == "broker 2 is the controller (epoch 7); it was broker 0"
    assert only(events_between(BEFORE, after(controller_epoch=2))).text.startswith("broker 0 was elected controller")
    assert events_between(BEFORE, after(controller=None, controller_epoch=None)) == []


def test_topics_are_made_deleted_made_again_and_grown() -> None:
    other = topic("other", partition("other", 0))
    made = after(topics={"orders": ORDERS, "other": other})
    assert only(events_between(BEFORE, made)).text == "topic other was created with 1 partition"
    assert only(events_between(made, after())).kind is EventKind.TOPIC_DELETED
    again = only(events_between(BEFORE, after(topics={"orders": replace(ORDERS, topic_id="new")})))
    assert (again.kind, again.before, again.after) == (EventKind.TOPIC_RECREATED, "id-of-orders", "new")
    # Brokers without topic ids cannot say so.
    assert events_between(BEFORE, after(topics={"orders": replace(ORDERS, topic_id="")})) == []
    grown = replace(ORDERS, partitions=(*ORDERS.partitions, partition("orders", 2)))
    assert (
        only(events_between(BEFORE, after(topics={"orders": grown}))).text == "topic orders has 3 partitions; it had 2"
    )


def test_configuration_changes_with_before_and_after_and_without_secrets() -> None:
    def configured(**values: ConfigValue) -> Snapshot:
        return after(topics={"orders": replace(ORDERS, config=values)})

    old = configured(a=ConfigValue("1", "DEFAULT_CONFIG"), password=ConfigValue("x", "D", is_sensitive=True))
    new = configured(a=ConfigValue("2", "DYNAMIC_TOPIC_CONFIG"), password=ConfigValue("y", "D", is_sensitive=True))
    first, second = events_between(old, new)
    assert (first.text, first.before, first.after) == ("topic orders: a is 2; it was 1", "1", "2")
    assert (second.before, second.after) == (HIDDEN, HIDDEN)
    gone = only(events_between(configured(a=ConfigValue("1", "D")), configured()))
    assert gone.after == "(not set)"
    unknown = after(topics={"orders": replace(ORDERS, config=None)})
    assert events_between(old, unknown) == events_between(unknown, old) == []


def test_groups_come_go_and_rebalance() -> None:
    billing = BEFORE.groups["billing"]
    joined = replace(billing, members=(*billing.members, member("c")))
    event = only(events_between(BEFORE, after(groups={"billing": joined})))
    assert event.text == "group billing rebalanced: 1 member joined (3 members now, Stable)"
    begins = replace(billing, state=GroupState.PREPARING_REBALANCE)
    event = only(events_between(BEFORE, after(groups={"billing": begins})))
    assert (event.before, event.after) == ("Stable", "PreparingRebalance")
    assert events_between(after(groups={"billing": begins}), after()) == []
    assert only(events_between(BEFORE, after(groups={}))).kind is EventKind.GROUP_GONE
    assert only(events_between(after(groups={}), BEFORE)).kind is EventKind.GROUP_NEW


def hosted(**changes: Any) -> Snapshot:
    """BEFORE with a host, whose answer has these changes."""
    (made,) = with_hosts([BEFORE], "h1")
    host = made.hosts["h1"]
    assert host.answer is not None
    return replace(made, hosts={"h1": replace(host, answer=replace(host.answer, **changes))})


def test_a_host_that_drifts_and_comes_back() -> None:
    drifted = hosted(tuning=replace(TUNING, drift=(DRIFT,), fingerprint="b" * 64))
    event = only(events_between(hosted(), drifted))
    assert event.kind is EventKind.TUNING_CHANGE
    assert (event.entity, event.name, event.before, event.after) == ("host", "h1", "10", "20")
    assert event.text == "host h1: vm.dirty_ratio is 20, applied was 10"
    assert only(events_between(drifted, hosted())).text == "host h1: vm.dirty_ratio is 10 again, as applied"
    other = hosted(tuning=replace(TUNING, fingerprint="c" * 64))
    assert "a setting changed that was never applied" in only(events_between(hosted(), other)).text
    applied = hosted(tuning=replace(TUNING, applied_utc="2026-11-02T00:00:00Z", drift=(DRIFT,)))
    assert only(events_between(hosted(), applied)).text == "host h1: playbooks applied settings at 2026-11-02T00:00:00Z"


def test_another_kernel_and_a_reboot() -> None:
    restart, kernel = events_between(hosted(), hosted(kernel="6.2.0", boot_id="boot-2"))
    assert restart.text == "host h1 was booted again"
    assert (kernel.kind, kernel.before, kernel.after) == (EventKind.KERNEL_CHANGE, "6.1.0", "6.2.0")


def test_a_host_that_is_not_known_has_no_events() -> None:
    unknown = replace(BEFORE, hosts={"h1": Host("h1", "h1", error="no answer")})
    assert events_between(unknown, hosted()) == events_between(hosted(), unknown) == []
    assert events_between(hosted(), hosted(tuning=None)) == events_between(BEFORE, hosted()) == []
    nobody = replace(hosted(kernel="6.2.0"), brokers={})
    assert only(events_between(hosted(), nobody)).kind is EventKind.KERNEL_CHANGE


def test_what_is_not_known_is_no_event() -> None:
    billing = BEFORE.groups["billing"]
    failed = after(groups={"billing": replace(billing, members=(), error="the coordinator did not answer")})
    assert events_between(BEFORE, failed) == events_between(failed, BEFORE) == []
    silent = {**BEFORE.brokers, 0: replace(BEFORE.brokers[0], error="no answer in 5 s")}
    assert events_between(BEFORE, after(groups={}, brokers=silent)) == []
    nobody = after(brokers={}, topics={}, groups={}, controller=None)
    assert events_between(BEFORE, nobody) == []
    assert events_between(nobody, BEFORE) == []


def test_topics_of_the_bench_are_a_trial_and_not_topics_that_somebody_made() -> None:
    made = {name: topic(name, partition(name, 0)) for name in ("highwater-01ab23cd-0-1-0", "highwater-01ab23cd-0-1-1")}
    during = after(topics={**BEFORE.topics, **made})
    began = only(events_between(BEFORE, during))
    assert (began.kind, began.entity, began.after) == (EventKind.BENCH_TRIAL_BEGAN, "cluster", "highwater-01ab23cd-0-1")
    ended = only(events_between(during, after()))
    assert (ended.kind, ended.before) == (EventKind.BENCH_TRIAL_ENDED, "highwater-01ab23cd-0-1")
    one_left = after(topics={**BEFORE.topics, "highwater-01ab23cd-0-1-1": made["highwater-01ab23cd-0-1-1"]})
    assert events_between(during, one_left) == []


@pytest.mark.parametrize(
    "name", ["highwater-orders", "highwater-01AB23CD-0-1", "highwater-01ab23cd-0-1-x", "highwater-"]
)
def test_other_topics_with_a_similar_name_are_topics(name: str) -> None:
    assert only(events_between(BEFORE, after(topics={**BEFORE.topics, name: topic(name)}))).kind is (
        EventKind.TOPIC_CREATED
    )
