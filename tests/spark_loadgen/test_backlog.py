from __future__ import annotations

from dataclasses import replace

import pytest

from spark_loadgen import BacklogReport, FixedSize, GeneratedPayload, LoadPlan, OpenSchedule
from spark_loadgen.backlog import backlog_report
from spark_loadgen.consumer import ConsumerReport
from spark_loadgen.coordination import Release
from spark_loadgen.delivery import ReceivedReport
from spark_loadgen.windows import Windows

PLAN = LoadPlan(
    "b", ("t",), 1, 1, 1, 1, OpenSchedule.constant(1000.0), 0, 6, 9, FixedSize(100), GeneratedPayload(), 1,
    start_after_backlog_bytes=200_000,
)  # fmt: skip


def reader(first_poll_ns: int, last_record_ns: int) -> ConsumerReport:
    received = ReceivedReport(6000, 0, 0, 0, [])
    return ConsumerReport(
        0, received, 0, Windows(), [], [], {}, 0, [("t", 0)], [6000], {}, first_poll_ns, last_record_ns, {}
    )


def windows(received: list[int]) -> tuple[Windows, list[int]]:
    """1000 records of 100 bytes a second, and what a consumer made of it; the lag with it."""
    acked = [1000] * 6 + [0] * (len(received) - 6)
    rows = Windows(
        acked=acked,
        acked_bytes=[100 * count for count in acked],
        received=received,
        received_bytes=[100 * count for count in received],
    )
    lag = [sum(acked[: second + 1]) - sum(received[: second + 1]) for second in range(len(received))]
    return rows, lag


def report(plan: LoadPlan, release: Release | None, received: list[int], last_s: float = 9.0) -> BacklogReport | None:
    rows, lag = windows(received)
    first_poll_ns = int(release.at_s * 1e9) if release else 0
    return backlog_report(plan, release, rows, lag, [reader(first_poll_ns, int(last_s * 1e9))])


def test_consumers_catch_up_with_a_load_that_goes_on() -> None:
    found = report(PLAN, Release(2.5, 2500, 250_000, built=True), [0, 0, 500, 2400, 2090, 1010, 0])
    assert found == BacklogReport(
        bytes=250_000,
        records=2500,
        built_at_s=2.5,
        caught_up_at_s=5.0,
        drain_records_per_s=4990 / 2.5,
        drain_bytes_per_s=499_000 / 2.5,
    )


def test_consumers_that_never_catch_up() -> None:
    found = report(PLAN, Release(2.5, 2500, 250_000, built=True), [0, 0, 200, 900, 900, 900, 100, 100])
    assert found is not None
    assert (found.caught_up_at_s, found.drain_records_per_s, found.drain_bytes_per_s) == (None, None, None)


def test_a_backlog_that_was_not_reached_is_said_to_be_so() -> None:
    found = report(PLAN, Release(6.0, 6000, 600_000, built=False), [0] * 6 + [4000, 2000])
    assert found is not None
    assert (found.bytes, found.built_at_s, found.caught_up_at_s) == (600_000, None, 8.0)


def test_after_the_load_reading_is_timed_to_its_last_record() -> None:
    plan = replace(PLAN, start_after_backlog_bytes=None, start_after_load=True)
    found = report(plan, Release(6.25, 6000, 600_000, built=True), [0] * 6 + [3000, 3000], last_s=7.75)
    assert found is not None
    assert (found.records, found.built_at_s, found.caught_up_at_s) == (6000, 6.25, 7.75)
    assert found.drain_records_per_s == pytest.approx(6000 / 1.5)


def test_nothing_is_told_of_consumers_that_did_not_wait() -> None:
    assert report(PLAN, None, [1000] * 6) is None
