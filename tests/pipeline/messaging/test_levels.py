"""Levels of delay, names of topics, backoff, and the way of a record through levels and wheel."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.messaging import headers
from highwater.pipeline.messaging.levels import (
    ROCKETMQ_LEVELS_MS,
    WAITING_PATTERN,
    WHEEL,
    GroupTopics,
    check_levels,
    delay_text,
    delay_topic,
    greatest_level_ms,
    level_of,
    parse_delay_ms,
)
from highwater.pipeline.messaging.moving import Poison, Waiting, delayed, due_ms, moved, release_ms
from highwater.pipeline.messaging.policy import Backoff, exponential
from highwater.pipeline.messaging.record import Headers, Outgoing, Record

NOW_MS = 1_700_000_000_000
SEEN = Record("orders", 3, 17, NOW_MS - 5000, b"k", b"v", (("color", b"red"),))


def in_log(outgoing: Outgoing, offset: int = 0) -> Record:
    return Record(
        outgoing.topic,
        outgoing.partition or 0,
        offset,
        outgoing.timestamp_ms,
        outgoing.key,
        outgoing.value,
        outgoing.headers,
    )


@given(st.integers(1, 10**11))
def test_a_delay_is_read_as_it_is_written(delay_ms: int) -> None:
    text = delay_text(delay_ms)
    assert parse_delay_ms(text) == delay_ms
    assert level_of(delay_topic(delay_ms)) == delay_ms
    assert level_of(GroupTopics("a.b", "c").waiting(delay_ms)) == delay_ms


def test_rocketmq_has_eighteen_levels() -> None:
    assert len(ROCKETMQ_LEVELS_MS) == 18
    assert [delay_text(level) for level in ROCKETMQ_LEVELS_MS[:5]] == ["1s", "5s", "10s", "30s", "1m"]
    assert delay_text(ROCKETMQ_LEVELS_MS[-1]) == "2h"


@pytest.mark.parametrize("text", ["", "5", "0s", "-1s", "1.5", "1w", "s", "0.0001s"])
def test_what_is_no_delay(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a delay"):
        parse_delay_ms(text)


def test_the_wheel_must_reach_to_the_least_level() -> None:
    assert check_levels([5000, 1000, 1000]) == (1000, 5000)
    with pytest.raises(SettingsError, match="must be 1s or less"):
        check_levels([5000])


@pytest.mark.parametrize(
    ("topic", "level_ms"),
    [
        ("hw.delay.5s", 5000),
        (WHEEL, 1000),
        ("orders.billing.retry.10m", 600_000),
        ("orders.billing.retry", None),
        ("orders.billing.retry.parked", None),
        ("orders.5s", None),
        ("hw.delay.05s", None),
        ("dlq.orders.billing", None),
    ],
)
def test_topics_in_which_records_wait(topic: str, level_ms: int | None) -> None:
    assert level_of(topic) == level_ms
    assert bool(re.match(WAITING_PATTERN, topic)) == (level_ms is not None)


def test_names() -> None:
    names = GroupTopics("orders", "billing")
    assert names.waiting(30_000) == "orders.billing.retry.30s"
    assert names.dead == "dlq.orders.billing"


@given(st.integers(0, 10**9))
def test_the_next_level_is_the_greatest_that_fits(rest_ms: int) -> None:
    level = greatest_level_ms(rest_ms, ROCKETMQ_LEVELS_MS)
    if level is None:
        assert rest_ms < 1000
    else:
        assert level <= rest_ms
        assert all(other <= level or other > rest_ms for other in ROCKETMQ_LEVELS_MS)


@given(st.integers(1, 4 * 86_400_000), st.lists(st.integers(0, 300), max_size=5))
def test_every_delay_ends_on_time_and_gives_the_record_back(rest_ms: int, late: list[int]) -> None:
    due, now_ms, hops = NOW_MS + rest_ms, NOW_MS, 0
    record = in_log(delayed(SEEN, "bills", due, now_ms, ROCKETMQ_LEVELS_MS))
    while record.topic != "bills":
        assert due_ms(record) == due
        now_ms = max(now_ms, release_ms(record)) + (late[hops % len(late)] if late else 0)
        record = in_log(moved(record, now_ms, ROCKETMQ_LEVELS_MS))
        hops += 1
        assert hops < 80
    assert due <= now_ms <= due + (max(late) if late else 0)
    assert (record.key, record.value, record.timestamp_ms) == (SEEN.key, SEEN.value, SEEN.timestamp_ms)
    assert record.text("color") == "red"
    assert record.text(headers.ORIGIN) == "orders/3/17"
    assert record.text(headers.TARGET) is None


def test_two_hours_and_seventeen_minutes_take_three_moves() -> None:
    record, topics = in_log(delayed(SEEN, "bills", NOW_MS + 137 * 60_000, NOW_MS, ROCKETMQ_LEVELS_MS)), []
    while record.topic != "bills":
        topics.append(record.topic)
        record = in_log(moved(record, release_ms(record), ROCKETMQ_LEVELS_MS))
    assert topics == ["hw.delay.2h", "hw.delay.10m", "hw.delay.7m"]


@given(st.integers(1, 999), st.integers(1, 999), st.integers(-400, 400))
def test_due_times_in_a_slot_of_the_wheel_are_close(rest_ms: int, other_rest_ms: int, later_ms: int) -> None:
    """Whatever waits in a partition of the wheel at one time is due in the same tenth of a second.

    A record of the next turn before one that is due now would hold this one up for a second.
    """
    first = delayed(SEEN, "bills", NOW_MS + rest_ms, NOW_MS, ROCKETMQ_LEVELS_MS)
    second_due_ms = NOW_MS + later_ms + other_rest_ms
    second = delayed(SEEN, "bills", second_due_ms, NOW_MS + later_ms, ROCKETMQ_LEVELS_MS)
    assert first.topic == second.topic == WHEEL
    if first.partition == second.partition:
        assert abs(NOW_MS + rest_ms - second_due_ms) < 100


def test_a_delayed_record_of_a_foreign_producer_needs_its_target_alone() -> None:
    record = Record("hw.delay.5s", 0, 0, NOW_MS, b"k", b"v", ((headers.TARGET, b"bills"),))
    assert release_ms(record) == NOW_MS + 5000
    assert moved(record, NOW_MS + 5000, ROCKETMQ_LEVELS_MS).topic == "bills"


@pytest.mark.parametrize(
    ("given_headers", "reason"),
    [
        ((), "there is no header hw-target"),
        (((headers.TARGET, b"bills"), (headers.DUE_MS, b"soon")), "hw-due-ms is not a whole number"),
        (((headers.TARGET, b"bills"), (headers.DUE_MS, b"9" * 18)), "more than 100 years"),
    ],
)
def test_what_cannot_be_delivered_becomes_a_dead_letter(given_headers: Headers, reason: str) -> None:
    waiting = Waiting(ROCKETMQ_LEVELS_MS)
    waiting.add(Record("hw.delay.5s", 0, 0, NOW_MS - 10_000, b"k", b"v", given_headers))
    (move,) = waiting.due(NOW_MS, 100)
    assert move.outgoing.topic == "dlq.hw.delay.highwater-mover"
    dead = in_log(move.outgoing)
    assert dead.text(headers.DISPOSITION) == "poison"
    assert reason in (dead.text(headers.ERROR) or "")
    waiting.done([move])
    assert waiting.next_release_ms() is None


def test_records_wait_only_in_topics_for_that() -> None:
    with pytest.raises(Poison, match="not a topic in which"):
        due_ms(SEEN)


def test_backoff() -> None:
    backoff = Backoff.parse("10s 1m")
    assert [backoff.after(attempt) for attempt in (1, 2, 3)] == [10_000, 60_000, None]
    assert Backoff.parse("").after(1) is None
    assert exponential("1s", times=3, most="10s", retries=4).delays_ms == (1000, 3000, 9000, 10_000)
    with pytest.raises(SettingsError):
        exponential("1s", times=0.5)
