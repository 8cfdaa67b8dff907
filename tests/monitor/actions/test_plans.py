"""What actions would change, as pure functions: leaders, moves, offsets, settings, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.kafka.requests.list_partition_reassignments import Move
from highwater.kafka.requests.metadata import BrokerRow, PartitionRow
from highwater.monitor.actions import election, offsets, reassignment, settings, throttle
from highwater.monitor.actions.plan import ActionError, Plan, PlannedChange, check_size, numbers_of

KEY = ("orders", 0)
ALIVE = frozenset((1, 2, 3))


def row(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...], number: int = 0) -> PartitionRow:
    return PartitionRow(number, leader, 0, replicas, isr, ())


@pytest.mark.parametrize(
    ("kind", "partition", "before", "after", "note"),
    [
        ("preferred", row(2, (1, 2), (1, 2)), "broker 2", "broker 1", ""),
        ("preferred", row(1, (1, 2), (1, 2)), "broker 1", "broker 1", ""),
        ("preferred", row(2, (1, 2), (2,)), "broker 2", "broker 2", "broker 1 is not in sync"),
        ("preferred", row(2, (9, 2), (9, 2)), "broker 2", "broker 2", "broker 9 is not alive"),
        ("preferred", row(-1, (1, 2), (1,)), "no leader", "broker 1", ""),
        ("unclean", row(2, (1, 2), (2,)), "broker 2", "broker 2", "it has a leader"),
        ("unclean", row(-1, (9, 2), (9,)), "no leader", "broker 2", "records that this replica lacks are lost"),
        ("unclean", row(-1, (9, 8), (9,)), "no leader", "no leader", "none of its replicas is alive"),
    ],
)
def test_an_election_says_who_would_lead(
    kind: str, partition: PartitionRow, before: str, after: str, note: str
) -> None:
    found = election.change(KEY, partition, kind, ALIVE)
    assert (found.what, found.before, found.after) == ("orders-0", before, after)
    assert note in found.note
    assert found.is_one == (before != after)


def test_lines_name_the_replicas_of_each_partition() -> None:
    assert reassignment.named("0: 1,2\n\n  1 : 3 1\r\n") == {0: [1, 2], 1: [3, 1]}
    for lines in ("0 1,2", "x: 1", "0: a", "0,1: 2", "0: 1\n0: 2", ": 1", "0: 1; rm -rf /"):
        with pytest.raises(ActionError):
            reassignment.named(lines)


def test_a_plan_is_checked_before_the_controller_carries_out_a_part_of_it() -> None:
    rows = {0: row(1, (1, 2), (1, 2)), 1: row(2, (2, 1), (2, 1), 1)}
    reassignment.check("orders", {0: [3, 1]}, rows, [1, 2, 3])
    for wanted, reason in (({7: [1]}, "no partition 7"), ({0: [9]}, "no broker 9"), ({0: []}, "no replica")):
        with pytest.raises(ActionError, match=reason):
            reassignment.check("orders", wanted, rows, [1, 2, 3])


def test_a_spread_is_that_of_the_command() -> None:
    rows = {number: row(1, (1, 2), (1, 2), number) for number in range(3)}
    brokers = [BrokerRow(node_id, "h", 1, "") for node_id in (1, 2, 3)]
    planned = reassignment.spread(rows, brokers, [])
    assert sorted(each for replicas in planned.values() for each in replicas) == [1, 1, 2, 2, 3, 3]
    assert sorted(replicas[0] for replicas in planned.values()) == [1, 2, 3]
    assert all(3 not in replicas for replicas in reassignment.spread(rows, brokers, [1, 2]).values())
    with pytest.raises(ActionError, match="2 replicas, and these are 1 brokers"):
        reassignment.spread(rows, brokers, [1])
    with pytest.raises(ActionError, match="no broker 9"):
        reassignment.spread(rows, brokers, [9])


def test_a_throttle_is_in_bytes_per_second() -> None:
    for text, rate in (("", None), ("1", 1), ("50MiB", 50 << 20), ("1.5 MB/s", 1_500_000), ("52428800", 52_428_800)):
        assert throttle.rate_of(text) == rate
    for text in ("0", "-1", "fast", "1 parsec", "0.5", "9" * 30, "1e6", "٣"):
        with pytest.raises(ActionError, match="is not a throttle: write bytes per second"):
            throttle.rate_of(text)


def test_a_move_knows_where_it_comes_from_and_goes_to() -> None:
    move = Move((3, 1, 2), adding=(3,), removing=(1,))
    assert (move.origin, move.target) == ([1, 2], [3, 2])


@pytest.mark.parametrize(
    ("goal", "value", "committed", "later", "offset", "note"),
    [
        ("earliest", 0, 50, -1, 10, ""),
        ("latest", 0, 50, -1, 100, ""),
        ("offset", 70, None, -1, 70, ""),
        ("offset", 7, 50, -1, 10, "7 is not between"),
        ("offset", 700, 50, -1, 100, "700 is not between"),
        ("time", 0, 50, 33, 33, ""),
        ("time", 0, 50, -1, 100, "no record is as late"),
        ("shift", -20, 50, -1, 30, ""),
        ("shift", 500, 50, -1, 100, "550 is not between"),
    ],
)
def test_an_offset_is_where_the_goal_says_within_the_log(
    goal: str, value: int, committed: int | None, later: int, offset: int, note: str
) -> None:
    found, why = offsets.target(KEY, goal, value, committed, (10, 100), later)
    assert found == offset
    assert (note in why) == bool(note) or why == note == ""


def test_a_shift_needs_a_commit() -> None:
    with pytest.raises(ActionError, match="committed nothing there"):
        offsets.target(KEY, "shift", 1, None, (0, 9), -1)


def test_goals_are_read_with_the_options_of_the_command() -> None:
    assert offsets.read_goal("earliest", "") == (0, ("--to-earliest",))
    assert offsets.read_goal("shift", "-5") == (-5, ("--shift-by", "-5"))
    assert offsets.read_goal("time", "1970-01-01T00:00:01") == (1000, ("--to-datetime", "1970-01-01T00:00:01"))
    assert offsets.read_goal("time", "1970-01-01T01:00:01+01:00")[0] == 1000
    for goal, text in (
        ("offset", "-1"), ("offset", ""), ("offset", "1e3"), ("shift", "x"), ("time", "yesterday"), ("", ""),
        ("rm", "1"), ("offset", "9" * 30), ("shift", "٣"), ("time", "9999-12-31T23:59:59.999999+99:99"),
    ):  # fmt: skip
        with pytest.raises(ActionError):
            offsets.read_goal(goal, text)


@pytest.mark.parametrize(
    ("whose", "name", "setting", "operation", "reason"),
    [
        ("topic", "", "retention.ms", "set", "Name the topic"),
        ("all brokers", "1", "log.retention.ms", "set", "have no name"),
        ("user", "ann", "x", "set", "Say whose"),
        ("topic", "a", "retention.ms", "append", "what to do"),
        ("topic", "a", "", "set", "Name the setting"),
        ("topic", "a", "a=b", "set", "Name the setting"),
        ("broker", "1", "listener.name.x.ssl.keystore.password", "set", "is a secret"),
        ("broker", "1", "listener.name.x.plain.sasl.jaas.config", "set", "is a secret"),
    ],
)
def test_a_setting_that_cannot_be_changed_here_is_refused(
    whose: str, name: str, setting: str, operation: str, reason: str
) -> None:
    with pytest.raises(ActionError, match=reason):
        settings.check_fields(whose, name, setting, operation)


PLAN = Plan("Do it", "topic", "orders", "highwater …", (PlannedChange("orders-0", "1", "2"),), {}, None)


def test_what_is_confirmed_is_what_was_seen() -> None:
    other = replace(PLAN, changes=(PlannedChange("orders-0", "1", "3"),))
    assert PLAN.digest != other.digest
    assert PLAN.digest != replace(PLAN, changes=(PlannedChange("orders-0", "7", "2"),)).digest
    assert PLAN.digest != replace(PLAN, command="highwater … --unclean").digest
    # The end of a log moves while somebody produces.
    assert replace(PLAN, is_moving=True).digest == replace(other, is_moving=True).digest
    assert PLAN.has_changes
    assert not replace(PLAN, changes=(PlannedChange("orders-0", "1", "1"),)).has_changes


def test_a_plan_has_a_bound() -> None:
    with pytest.raises(ActionError, match="501 changes"):
        check_size((PlannedChange("a", "1", "2"),) * 501)


def test_numbers_are_numbers() -> None:
    assert numbers_of("", "broker") == []
    assert numbers_of(" 3, 1 3", "broker") == [3, 1]
    for text in ("-1", "1.5", "a", "1;2", "²", "9" * 12):
        with pytest.raises(ActionError):
            numbers_of(text, "broker")
