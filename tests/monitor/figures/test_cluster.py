"""All figures of small clusters: what is wrong is found, said first, and never surer than what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.rows import Duration, FindingKind, LagVerdict, Level
from highwater.monitor.model import (
    NO_LEADER,
    Broker,
    ConfigValue,
    GroupState,
    LogDirectory,
    Member,
    Partition,
    Snapshot,
    SourceState,
)
from highwater.monitor.web.words import headline
from tests.monitor.clusters import (
    GIB,
    HOSTILE_NAMES,
    TICK_MS,
    Shape,
    broker,
    group,
    member,
    partition,
    snapshot,
    topic,
    window,
)

KEY = ("orders", 0)


def ticks(
    count: int,
    *,
    produced: int = 1500,
    consumed: int = 1500,
    lag: int = 0,
    start: int = 0,
    deleted: int = 0,
    members: tuple[Member, ...] = (),
    dies_at: int | None = None,
) -> list[Snapshot]:
    """A topic of one partition and a group on it; per tick so much is produced, consumed and deleted."""
    made = []
    for number in range(count):
        at_ms = number * TICK_MS
        moved = number if dies_at is None else min(number, dies_at)
        end = 10_000 + produced * number
        one = partition("orders", start=start + deleted * number, end=end, at_ms=at_ms + 20)
        present = members if dies_at is None or number < dies_at else ()
        reader = group("billing", {KEY: 10_000 - lag + consumed * moved}, *present, at_ms=at_ms)
        made.append(snapshot(number=number, topics=[topic("orders", one)], groups=[reader]))
    return made


READER = member("billing-1", KEY)


def has_short_headlines(figures: Figures) -> bool:
    """Two lines of large type on a phone."""
    return all(len(headline(each.sentence, each.subject)[0]) <= 60 for each in figures.findings)


def kinds(figures: Figures) -> list[FindingKind]:
    return [finding.kind for finding in figures.findings if not finding.is_near]


def of_partition(one: Partition, min_isr: int | None = 2, **more: object) -> Figures:
    return derive([snapshot(topics=[topic("orders", one, min_isr=min_isr)])])


def test_all_is_well() -> None:
    figures = derive(ticks(8, members=(READER,)))
    assert (figures.level, figures.findings) == (Level.OK, ())
    assert figures.sentence == ("Healthy: 3 brokers, 1 topic with 1 partition in sync, 1 group without problems.")
    assert figures.window_ms == 7 * TICK_MS
    row = figures.topics["orders"]
    assert (row.offsets_per_s, row.bytes_in_per_s, row.produced_offsets) == (100, 10_000, 20_500)
    assert row.groups == ("billing",)
    assert figures.totals.groups_by_verdict == {LagVerdict.OK: 1}


def test_a_group_that_cannot_be_judged_is_not_called_unwell() -> None:
    other = ("orders", 1)
    parts = [partition("orders", number, end=100) for number in (0, 1)]
    reader = group("billing", {KEY: 90, other: 80}, member("billing-1", KEY, other))
    row = derive([snapshot(topics=[topic("orders", *parts)], groups=[reader])]).groups["billing"]
    assert row.verdict is LagVerdict.UNKNOWN
    assert row.sentence.endswith(" 1 more partition cannot be judged either.")


def test_a_window_without_a_snapshot_is_refused() -> None:
    with pytest.raises(ValueError, match="one snapshot at least"):
        derive([])


def test_nothing_is_claimed_before_anything_is_known() -> None:
    figures = derive([snapshot(brokers=0, controller=None, error="")])
    assert (figures.level, figures.sentence) == (Level.UNKNOWN, "Nothing is known yet: no broker has answered.")


def test_what_is_not_known_is_named() -> None:
    figures = of_partition(partition("orders", start=None, end=None), min_isr=None)
    assert figures.level is Level.UNKNOWN
    assert figures.sentence.endswith("Not known: the end offsets of 1 partition; min.insync.replicas of 1 partition.")
    assert "Healthy" not in figures.sentence


def test_a_silent_source_comes_first() -> None:
    old = replace(ticks(1)[0], taken_at_ms=1_000_000)
    silent = replace(old, sources={"kafka": SourceState("kafka", 880_000, error="connection refused")}, controller=None)
    away = {0: replace(broker(0), error="connection refused"), 1: broker(1, alive=False)}
    silent_soon = replace(silent, brokers=away, taken_at_ms=881_000)
    assert derive([silent_soon]).sentence.startswith("Source kafka does not answer: connection refused.")
    figures = derive([silent])
    assert figures.level is Level.ERROR
    assert figures.sentence == (
        "Source kafka does not answer: connection refused. The data shown for it is 2 min old. 1 more problem."
    )


@pytest.mark.parametrize("name", ["kafka", "kafka log directories"])
def test_a_source_that_answers_in_part_or_seldom_is_not_silent(name: str) -> None:
    one = ticks(8, members=(READER,))[-1]
    state = SourceState(name, one.taken_at_ms - 60_000, error="broker 2 did not answer")
    figures = derive([*ticks(7, members=(READER,)), replace(one, sources={name: state})])
    assert (figures.level, figures.findings) == (Level.UNKNOWN, ())
    assert figures.sentence.endswith(f"Not known: a part of {name} (broker 2 did not answer).")
    late = replace(one, sources={name: replace(state, as_of_ms=one.taken_at_ms - 91_000)})
    assert kinds(derive([late])) == [FindingKind.SOURCE_SILENT]


def test_a_group_that_commits_nothing_is_no_riddle() -> None:
    made = replace(ticks(1)[0], groups={"billing": group("billing", {}, READER)})
    assert derive([made]).level is Level.OK
    assert derive(ticks(1, members=(READER,), lag=10)).sentence.endswith("Not known: how well 1 group keeps up.")


def test_the_worst_thing_is_said_first() -> None:
    offline = partition("orders", 0, leader=NO_LEADER, isr=(), start=None, end=None)
    behind = partition("orders", 1, isr=(0, 1))
    unwritable = partition("orders", 2, isr=(0,))
    figures = derive([snapshot(topics=[topic("orders", offline, behind, unwritable, min_isr=2)])])
    assert figures.sentence == (
        "1 partition has no leader: clients cannot read or write there (topic orders). 2 more problems."
    )
    assert kinds(figures) == [
        FindingKind.PARTITIONS_OFFLINE,
        FindingKind.UNDER_MIN_ISR,
        FindingKind.UNDER_REPLICATED,
    ]
    assert has_short_headlines(figures)
    health = figures.totals.health
    assert (health.offline, health.under_min_isr, health.at_min_isr, health.under_replicated) == (1, 1, 1, 3)
    assert figures.topics["orders"].level is Level.ERROR


def test_brokers_take_no_more_replicas_for_min_isr_than_there_are() -> None:
    """A topic with one replica under `min.insync.replicas=2` takes writes with acks=all (Partition.effectiveMinIsr)."""
    alone, pair = partition("orders", 0, replicas=(0,), isr=(0,)), partition("orders", 1, replicas=(0, 1), isr=(0,))
    figures = derive([snapshot(topics=[topic("orders", alone, pair, min_isr=3)])])
    health = figures.totals.health
    assert (health.under_min_isr, health.at_min_isr) == (1, 0)
    whole = partition("orders", 1, replicas=(0, 1))
    loss = derive([snapshot(topics=[topic("orders", alone, whole, min_isr=3)])]).brokers[1].if_it_dies
    assert loss is not None
    assert loss.under_min_isr == 1


def test_a_partition_in_reassignment_is_not_under_replicated() -> None:
    moving = partition("orders", replicas=(0, 1, 2, 3), isr=(0, 1, 2))
    made = snapshot(brokers=4, topics=[topic("orders", moving, min_isr=2)])
    assert kinds(derive([made])) == [FindingKind.UNDER_REPLICATED]
    assert kinds(derive([replace(made, reassigning=frozenset({KEY}))])) == []


def test_the_brokers_default_of_min_isr_counts_where_a_topic_does_not_say() -> None:
    said = {"min.insync.replicas": ConfigValue("2", "STATIC_BROKER_CONFIG")}
    nodes = [replace(broker(node_id), config=said) for node_id in range(3)]
    one = topic("orders", partition("orders", isr=(0,)), min_isr=None)
    assert derive([snapshot(brokers=nodes, topics=[one])]).totals.health.under_min_isr == 1


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"controller": None}, FindingKind.NO_CONTROLLER),
        ({"brokers": {0: broker(0), 1: broker(1), 2: broker(2, alive=False)}}, FindingKind.BROKER_GONE),
        (
            {"brokers": {0: replace(broker(0), directories=(LogDirectory("/data", error="KAFKA_STORAGE_ERROR"),))}},
            FindingKind.LOG_DIRECTORY_OFFLINE,
        ),
        ({"brokers": {0: broker(0, usable=10 * GIB)}}, FindingKind.DISK_FULL),
        ({"brokers": {0: replace(broker(0), error="timed out after 5 s")}}, FindingKind.SOURCE_SILENT),
        (
            {
                "brokers": {
                    node: replace(broker(node), metrics={"kafka_controller_kafkacontroller_activecontrollercount": 1.0})
                    for node in range(2)
                }
            },
            FindingKind.NO_CONTROLLER,
        ),
    ],
)
def test_what_is_wrong_with_brokers_is_found(changed: Mapping[str, object], kind: FindingKind) -> None:
    figures = derive([replace(snapshot(), **changed)])  # type: ignore[arg-type]
    assert kinds(figures) == [kind]
    assert figures.sentence == figures.findings[0].sentence
    assert has_short_headlines(figures)


def test_a_disk_that_is_nearly_full_is_near_before_it_is_told() -> None:
    figures = derive([snapshot(brokers=[broker(0, usable=16 * GIB)])])
    assert [(finding.kind, finding.is_near) for finding in figures.findings] == [(FindingKind.DISK_FULL, True)]
    assert figures.level is Level.OK


def test_a_disk_of_several_brokers_on_one_host_is_one_finding() -> None:
    brokers = [replace(broker(number, usable=12 * GIB), host="demo", port=9092 + number) for number in range(3)]
    (found,) = derive([snapshot(brokers=brokers)]).findings
    assert (found.kind, found.subject) == (FindingKind.DISK_FULL, "broker 0")
    assert found.sentence == "Brokers 0, 1, 2 on demo have only 12 % of a disk left."
    # Another fill or another size is another disk, and another host has disks of its own.
    others = [replace(brokers[1], directories=broker(1, usable=5 * GIB).directories), replace(brokers[2], host="b")]
    found_apart = derive([snapshot(brokers=[brokers[0], *others])]).findings
    assert sorted(each.subject for each in found_apart) == ["broker 0", "broker 1", "broker 2"]


def test_a_disk_of_several_brokers_counts_once() -> None:
    def sums(*brokers: Broker) -> tuple[int | None, int | None]:
        totals = derive([snapshot(brokers=list(brokers))]).totals
        return totals.disk_usable_bytes, totals.disk_total_bytes

    demo = [replace(broker(number, usable=60 * GIB), host="demo", port=9092 + number) for number in range(3)]
    assert sums(*demo) == (60 * GIB, 100 * GIB)
    assert sums(demo[0], replace(demo[1], is_alive=False), demo[2]) == (60 * GIB, 100 * GIB)
    assert sums(*demo[:2], replace(demo[2], host="b")) == (120 * GIB, 200 * GIB)
    assert sums(demo[0], replace(demo[1], directories=())) == (60 * GIB, 100 * GIB)
    assert sums(*(replace(each, directories=()) for each in demo)) == (None, None)


def test_a_disk_that_fills_says_when() -> None:
    made = [snapshot(number=number, brokers=[broker(0, usable=60 * GIB - number * GIB)]) for number in range(12)]
    figures = derive(made)
    assert figures.brokers[0].disk_full_ms == pytest.approx(49 * TICK_MS)
    assert figures.sentence == (
        "A disk will be full in 12 min 15 s at the present rate: that of broker 0 (broker-0:9092)."
    )


def test_a_group_that_stops_is_found_if_it_was_seen_to_read() -> None:
    figures = derive(ticks(12, members=(READER,), dies_at=5))
    assert figures.groups["billing"].verdict is LagVerdict.STOP
    assert figures.sentence.startswith("Group billing has stopped. orders-0: No consumer reads: 9,000 records are un")
    assert figures.topics["orders"].worst_lag_level is Level.ERROR
    assert figures.topics["orders"].worst_lag == 9_000


def test_a_group_that_nobody_ever_used_raises_no_alarm_and_is_not_hidden() -> None:
    figures = derive(ticks(12, consumed=0))
    row = figures.groups["billing"]
    assert (row.verdict, row.level) == (LagVerdict.STOP, Level.UNKNOWN)
    assert figures.findings == ()
    assert (figures.level, figures.totals.idle_groups) == (Level.OK, 1)
    assert "1 group of them has unread records and no reader" in figures.sentence


def test_lag_has_its_error_and_its_time() -> None:
    figures = derive(ticks(8, members=(READER,), lag=3_000))
    (row,) = figures.group_partitions["billing"]
    assert (row.lag, row.lag_error, row.lag_time) == (3_000, 2, Duration(30_000))
    assert (row.produced_per_s, row.consumed_per_s, row.never_catches_up) == (100, 100, True)
    assert (row.owner.member_id, row.owner.client_id, row.owner.host) == ("billing-1-5f1c", "billing-1", "/10.0.0.7")
    assert derive(ticks(5, lag=9_000)).groups["billing"].lag_time == Duration(4.0 * TICK_MS, is_least=True)


def test_a_group_that_gains_says_when_it_has_caught_up() -> None:
    (row,) = derive(ticks(8, consumed=3_000, lag=10_000 + 7 * 1_500, members=(READER,))).group_partitions["billing"]
    assert row.lag == 10_000
    assert row.catch_up_ms == pytest.approx(100_000)


def test_partitions_without_a_commit_are_counted_apart() -> None:
    two = topic("orders", partition("orders", 0, end=100), partition("orders", 1, end=1_000_000))
    reader = group("billing", {KEY: 90}, member("m", KEY, ("orders", 1)))
    row = derive([snapshot(topics=[two], groups=[reader])]).groups["billing"]
    assert (row.lag, row.partitions, row.no_commit) == (10, 2, 1)


def test_a_commit_beyond_the_end_is_an_alarm() -> None:
    made = snapshot(
        topics=[topic("orders", partition("orders", end=100))], groups=[group("billing", {KEY: 5_000}, READER)]
    )
    figures = derive([made])
    assert kinds(figures) == [FindingKind.RECORDS_LOST]
    assert figures.groups["billing"].beyond_end == 1
    assert "Committed 5000 is beyond the end 100" in figures.sentence


def test_retention_that_will_take_unread_records_says_when() -> None:
    figures = derive(ticks(21, consumed=0, lag=0, deleted=300, members=(READER,), start=0))
    row = figures.groups["billing"]
    assert row.loss_eta_ms == pytest.approx((10_000 - 300 * 20) / 20 * 1000)
    assert FindingKind.RETENTION_LOSS in kinds(figures)
    assert has_short_headlines(figures)
    lost = derive(ticks(60, consumed=0, deleted=300, members=(READER,)))
    assert lost.groups["billing"].lost == 300 * 59 - 10_000
    assert kinds(lost)[0] is FindingKind.RECORDS_LOST


def test_a_hanging_transaction_is_found_when_no_coordinator_would_wait_any_longer() -> None:
    def tick(number: int, stable: int) -> Snapshot:
        one = partition("orders", end=1_000 + number, stable=stable, at_ms=number * TICK_MS)
        return snapshot(number=number, topics=[topic("orders", one)])

    assert kinds(derive([tick(number, 500) for number in range(80)])) == []
    hangs = derive([tick(number, 500) for number in range(81)])
    assert kinds(hangs) == [FindingKind.HANGING_TRANSACTION]
    assert hangs.partitions["orders"][0].hanging_ms == 20 * 60 * 1000
    assert kinds(derive([tick(number, 500 + number) for number in range(81)])) == []


def test_a_reader_of_committed_data_is_not_blamed_for_a_transaction() -> None:
    def tick(number: int, commit: int) -> Snapshot:
        at_ms = number * TICK_MS
        one = partition("orders", end=1_000 + number, stable=500, at_ms=at_ms)
        return snapshot(
            number=number, topics=[topic("orders", one)], groups=[group("billing", {KEY: commit}, READER, at_ms=at_ms)]
        )

    waits = derive([tick(number, 500) for number in range(60)]).group_partitions["billing"][0]
    assert (waits.lag, waits.verdict) == (559, LagVerdict.OK)
    assert waits.sentence.startswith("It has read all committed records: 559 offsets after it belong to transactions")
    held_up = derive([tick(number, 500) for number in range(81)]).groups["billing"]
    assert held_up.verdict is LagVerdict.WARN
    assert "A hanging transaction holds it up" in held_up.sentence
    # A group that stands elsewhere waits for nothing.
    stands = derive([tick(number, 499) for number in range(60)]).group_partitions["billing"][0]
    assert stands.verdict is LagVerdict.STALL


def test_a_member_that_reads_one_partition_after_the_other_is_no_error() -> None:
    def tick(number: int, *members: Member) -> Snapshot:
        parts = [partition("orders", each, end=10_000) for each in (0, 1)]
        commits = {("orders", 0): 500, ("orders", 1): 100 + 10 * number}
        return snapshot(number=number, topics=[topic("orders", *parts)], groups=[group("billing", commits, *members)])

    both = member("billing-1", ("orders", 0), ("orders", 1))
    waits, _ = derive([tick(number, both) for number in range(60)]).group_partitions["billing"]
    assert (waits.verdict, waits.level) == (LagVerdict.WARN, Level.WARN)
    assert waits.sentence.startswith("Member billing-1 commits in its other partitions, but not in this one for 14 min")
    each_its_own = (member("billing-1", ("orders", 0)), member("billing-2", ("orders", 1)))
    stalls, _ = derive([tick(number, *each_its_own) for number in range(60)]).group_partitions["billing"]
    assert stalls.verdict is LagVerdict.STALL


def test_what_dies_with_a_broker() -> None:
    alone = partition("orders", 0, replicas=(0,), isr=(0,))
    led = partition("orders", 1, replicas=(0, 1, 2))
    tight = partition("orders", 2, replicas=(1, 0, 2), isr=(1, 0))
    figures = derive([snapshot(topics=[topic("orders", alone, led, tight, min_isr=2)])])
    loss = figures.brokers[0].if_it_dies
    assert loss is not None
    assert (loss.offline, loss.under_min_isr, loss.new_leaders) == (1, 1, {1: 1})
    assert loss.sentence == (
        "1 partition would have no leader; 1 partition would reject writes with acks=all; "
        "1 partition would have another leader (broker 1 1)."
    )
    unaffected = figures.brokers[2].if_it_dies
    assert unaffected is not None
    assert unaffected.sentence == "Nothing would change for clients."


def test_a_broker_without_an_answer_shows_what_is_not_known() -> None:
    silent = Broker(3, "new", 9092, error="timed out after 5 s")
    row = derive([snapshot(brokers=[broker(0), silent])]).brokers[3]
    assert (row.size_bytes, row.disk_usable_percent, row.bytes_in_per_s, row.level) == (
        None,
        None,
        None,
        Level.UNKNOWN,
    )


def test_a_group_whose_coordinator_is_silent_is_not_known() -> None:
    unknown = replace(group("billing", {}, state=GroupState.UNKNOWN), error="broker 2 did not answer")
    row = derive([snapshot(groups=[unknown])]).groups["billing"]
    assert (row.verdict, row.lag, row.sentence) == (LagVerdict.UNKNOWN, None, "Not known: broker 2 did not answer")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_sums_agree_in_any_cluster(seed: int, count: int) -> None:
    figures = derive(window(Shape(hostile=True, ill=0.2), count, seed))
    totals = figures.totals
    assert totals.partitions == sum(map(len, figures.partitions.values()))
    assert totals.replicas == sum(row.replicas for row in figures.brokers.values())
    assert totals.health.offline == sum(row.health.offline for row in figures.brokers.values())
    assert totals.partitions - totals.health.offline == sum(row.leaders for row in figures.brokers.values())
    for name, row in figures.groups.items():
        rows = figures.group_partitions[name]
        assert row.lag == (sum(one.lag or 0 for one in rows) if any(one.lag is not None for one in rows) else None)
    levels = [finding.level.rank for finding in figures.findings if not finding.is_near]
    assert levels == sorted(levels, reverse=True)
    assert (figures.level.rank >= Level.WARN.rank) == bool(levels and levels[0] >= Level.WARN.rank)


def test_hostile_names_come_through_as_they_are() -> None:
    figures = derive(window(Shape(groups=20, hostile=True), 2))
    assert set(HOSTILE_NAMES) <= figures.groups.keys()
