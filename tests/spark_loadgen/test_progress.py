from __future__ import annotations

import time

import pytest

from highwater.spark_loadgen.model import LoadPlan
from highwater.spark_loadgen.progress import ProgressTracker
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule

PLAN = LoadPlan("b", ("t",), 1, 2, 1, 1, OpenSchedule.constant(1000.0), 1, 2, 5, FixedSize(100), GeneratedPayload(), 1)


def produced(second: int, sent: int, p99_ns: int) -> dict[str, object]:
    return {
        "kind": "progress",
        "second": second,
        "sent": sent,
        "acked": sent - 1,
        "acked_bytes": 100 * (sent - 1),
        "timed": 2,
        "service_sum_ns": 2 * p99_ns,
        "service_max_ns": p99_ns,
        "totals": {"sent": sent, "acked": sent - 1, "failed": 1},
        "cpu_ratio": sent / 1000,
        "p50_ns": p99_ns // 2,
        "p99_ns": p99_ns,
    }


def consumed(second: int, received: int) -> dict[str, object]:
    totals = {"received": received}
    return {
        "kind": "progress",
        "second": second,
        "received": received,
        "totals": totals,
        "cpu_ratio": 0.1,
        "p99_ns": None,
    }


def test_before_t0_there_is_only_a_phase() -> None:
    progress = ProgressTracker(PLAN).progress()
    assert (progress.phase, progress.elapsed_s, progress.left_s, progress.offered) == ("start", 0.0, 3.0, 0)
    assert progress.generator_cpu_ratio_max is None


@pytest.mark.parametrize(("elapsed_s", "phase"), [(0.5, "warmup"), (1.5, "measure"), (30.0, "drain")])
def test_phases_follow_the_plan(elapsed_s: float, phase: str) -> None:
    tracker = ProgressTracker(PLAN)
    tracker.t0_ns = time.monotonic_ns() - int(elapsed_s * 1e9)
    assert tracker.progress().phase == phase


def test_a_second_is_told_once_everybody_has_reported_it() -> None:
    tracker = ProgressTracker(PLAN)
    tracker.t0_ns = time.monotonic_ns() - 1_500_000_000
    tracker.receive(0, produced(0, 500, 7))
    tracker.receive(1, produced(0, 400, 9))
    assert tracker.progress().sent == 0
    tracker.receive(2, consumed(0, 880))
    tracker.receive(0, produced(1, 600, 8))
    progress = tracker.progress()
    assert progress.phase == "measure"
    assert (progress.offered, progress.sent, progress.acked, progress.received) == (1000, 900, 898, 880)
    assert (progress.failed, progress.produce_p50_ns, progress.produce_p99_ns, progress.e2e_p99_ns) == (2, 4, 9, None)
    assert progress.lag == 499 + 399 - 880, "at the end of that second, whatever was acknowledged since"
    assert progress.outstanding == 0
    assert progress.generator_cpu_ratio_max == 0.5
    assert progress.measured == [], "that was the warm-up"


def test_whole_seconds_of_the_measured_phase_are_kept() -> None:
    tracker = ProgressTracker(PLAN)
    tracker.t0_ns = time.monotonic_ns() - 2_500_000_000
    for second in range(2):
        tracker.receive(0, produced(second, 500, 7))
        tracker.receive(1, produced(second, 400, 9))
        tracker.receive(2, consumed(second, 880))
    (told,) = tracker.progress().measured
    assert (told.acked, told.acked_bytes) == (898, 89_800)
    assert (told.timed, told.service_sum_ns, told.service_max_ns) == (4, 32, 9)


def test_producers_that_have_finished_are_not_waited_for() -> None:
    tracker = ProgressTracker(PLAN)
    tracker.t0_ns = time.monotonic_ns() - 4_000_000_000
    for task in (0, 1):
        tracker.receive(task, {"kind": "producer_finished", "totals": {"sent": 50, "acked": 49, "failed": 1}})
    assert tracker.producers_finished
    tracker.receive(2, consumed(3, 55))
    progress = tracker.progress()
    assert (progress.phase, progress.received, progress.lag) == ("drain", 55, 98 - 55)
    assert [second.received for second in tracker.history] == [0, 0, 0, 55]
