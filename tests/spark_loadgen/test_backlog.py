from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.spark_loadgen.backlog import backlog_report
from highwater.spark_loadgen.consumer import ConsumerReport
from highwater.spark_loadgen.coordination import ConsumerStart
from highwater.spark_loadgen.delivery import ReceivedReport
from highwater.spark_loadgen.model import BacklogReport, LoadPlan
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule
from highwater.spark_loadgen.windows import Windows

PLAN = LoadPlan(
    "b", ("t",), 1, 1, 1, 1, OpenSchedule.constant(1000.0), 0, 6, 9, FixedSize(100), GeneratedPayload(), 1,
    start_after_backlog_bytes=200_000,
)  # fmt: skip


def reader(first_poll_ns: int, last_record_ns: int) -> ConsumerReport:
    received = ReceivedReport(6000, 0, 0, 0, [])
    return ConsumerReport(
        0, received, 0, Windows(), [], [], {}, 0, [("t", 0)], [6000], {}, first_poll_ns, last_record_ns, {}
    )


def tenths(received: list[int]) -> Windows:
    """100 records of 100 bytes a tenth of a second for six seconds, and what a consumer made of it."""
    acked = [100] * 60
    return Windows(
        acked=acked,
        acked_bytes=[100 * count for count in acked],
        received=received,
        received_bytes=[100 * count for count in received],
    )


def report(
    plan: LoadPlan, consumer_start: ConsumerStart | None, received: list[int], last_s: float = 9.0
) -> BacklogReport | None:
    """received: per tenth of a second."""
    first_poll_ns = int(consumer_start.at_s * 1e9) if consumer_start else 0
    return backlog_report(plan, consumer_start, tenths(received), [reader(first_poll_ns, int(last_s * 1e9))])


def test_consumers_catch_up_with_a_load_that_goes_on() -> None:
    # 2500 records lie there at 2.5 s, 100 more come and 400 are read in a tenth: 100 are left at 3.3 s.
    found = report(PLAN, ConsumerStart(2.5, 2500, 250_000, built=True), [0] * 25 + [400] * 8 + [200] + [100] * 26)
    assert found is not None
    assert (found.bytes, found.records, found.built_at_s, found.caught_up_at_s) == (250_000, 2500, 2.5, 3.3)
    assert found.drain_records_per_s == pytest.approx(3200 / 0.8)
    assert found.drain_bytes_per_s == pytest.approx(320_000 / 0.8)


def test_catching_up_within_a_second_is_not_rounded_to_it() -> None:
    slow, fast = (
        report(
            PLAN, ConsumerStart(2.0, 2000, 200_000, built=True), [0] * 20 + [rate] * (1900 // (rate - 100)) + [100] * 9
        )
        for rate in (480, 1050)
    )
    assert slow is not None
    assert fast is not None
    assert (slow.caught_up_at_s, fast.caught_up_at_s) == (2.5, 2.2)
    assert fast.drain_records_per_s == pytest.approx(1050 * 10)


def test_consumers_that_never_catch_up() -> None:
    found = report(PLAN, ConsumerStart(2.5, 2500, 250_000, built=True), [0] * 25 + [90] * 40)
    assert found is not None
    assert (found.caught_up_at_s, found.drain_records_per_s, found.drain_bytes_per_s) == (None, None, None)


def test_a_backlog_that_was_not_reached_is_said_to_be_so() -> None:
    found = report(PLAN, ConsumerStart(6.0, 6000, 600_000, built=False), [0] * 60 + [400] * 15)
    assert found is not None
    assert (found.bytes, found.built_at_s, found.caught_up_at_s) == (600_000, None, 7.5)


def test_after_the_load_reading_is_timed_to_its_last_record() -> None:
    plan = replace(PLAN, start_after_backlog_bytes=None, start_after_load=True)
    found = report(plan, ConsumerStart(6.25, 6000, 600_000, built=True), [0] * 62 + [400] * 15, last_s=7.75)
    assert found is not None
    assert (found.records, found.built_at_s, found.caught_up_at_s) == (6000, 6.25, 7.75)
    assert found.drain_records_per_s == pytest.approx(6000 / 1.5)


def test_records_that_are_left_after_the_load_were_not_all_read() -> None:
    plan = replace(PLAN, start_after_backlog_bytes=None, start_after_load=True)
    found = report(plan, ConsumerStart(6.25, 6000, 600_000, built=True), [0] * 62 + [400] * 14, last_s=7.75)
    assert found is not None
    assert found.caught_up_at_s is None


def test_nothing_is_told_of_consumers_that_did_not_wait() -> None:
    assert report(PLAN, None, [100] * 60) is None
