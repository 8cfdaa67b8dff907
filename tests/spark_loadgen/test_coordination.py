"""How the driver conducts a load, told as messages and instants; no sockets and no clock."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.spark_loadgen.coordination import LEAD_NS, ConsumerStart, Coordinator, Order
from highwater.spark_loadgen.model import LoadPlan, SteadyWarmup
from highwater.spark_loadgen.records import FixedSize, GeneratedPayload
from highwater.spark_loadgen.schedule import OpenSchedule
from highwater.spark_loadgen.windows import SECOND_NS

NOW = 1_000 * SECOND_NS


def plan_of(**changes: Any) -> LoadPlan:
    settings: dict[str, Any] = {
        "bootstrap_servers": "b",
        "topics": ("t",),
        "partitions": 4,
        "producers": 1,
        "groups": 1,
        "consumers_per_group": 1,
        "schedule": OpenSchedule.constant(1000.0),
        "warmup": 2,
        "measure_s": 10,
        "drain_max_s": 5,
        "sizes": FixedSize(100),
        "payload": GeneratedPayload(),
        "seed": 1,
        **changes,
    }
    return LoadPlan(**settings)


def hello(clock: str = "driver", host: str = "here") -> dict[str, Any]:
    return {"kind": "hello", "clock": clock, "host": host}


def ready(problem: str | None = None, offset_ns: int = 0, error_ns: int = 0, wall_ns: int = 0) -> dict[str, Any]:
    reading = {"offset_ns": offset_ns, "error_ns": error_ns, "wall_offset_ns": wall_ns}
    return {"kind": "ready", "problem": problem, **reading}


def started(plan: LoadPlan) -> Coordinator:
    coordinator = Coordinator(plan, "driver")
    for task in range(plan.tasks):
        coordinator.receive(task, hello(), NOW)
    for task in range(plan.tasks):
        coordinator.receive(task, ready(), NOW)
    assert coordinator.started
    return coordinator


def at(coordinator: Coordinator, elapsed_s: float) -> int:
    return coordinator.report.t0_ns + round(elapsed_s * SECOND_NS)


def produced(second: int, acked: int = 1000, total_bytes: int = 0, p50_ns: int | None = 1_000_000) -> dict[str, Any]:
    totals = {"sent": acked, "acked": acked * (second + 1), "acked_bytes": total_bytes, "failed": 0, "aborted": 0}
    counts = {"second": second, "sent": acked, "acked": acked, "acked_bytes": total_bytes, "totals": totals}
    service = {"timed": 1, "service_sum_ns": 1, "service_max_ns": 1}
    return {"kind": "progress", **counts, **service, "cpu_ratio": 0.1, "p50_ns": p50_ns, "p99_ns": p50_ns}


def consumed(second: int, received: int = 1000) -> dict[str, Any]:
    totals = {"received": received * (second + 1)}
    counts = {"second": second, "received": received, "totals": totals}
    return {"kind": "progress", **counts, "cpu_ratio": 0.1, "p99_ns": 1}


def kinds(orders: list[Order]) -> list[str]:
    return [message["kind"] for _, message in orders]


def test_tasks_of_one_host_get_one_t0() -> None:
    coordinator = Coordinator(plan_of(), "driver")
    assert coordinator.receive(0, hello(), NOW) == []
    roles = coordinator.receive(1, hello(), NOW)
    assert roles == [(0, {"kind": "role", "number": 0}), (1, {"kind": "role", "number": 1})]
    assert coordinator.receive(1, ready(), NOW) == []
    assert coordinator.missing == 1
    # What they read off their clocks is noise: it is the driver's own.
    starts = coordinator.receive(0, ready(offset_ns=777, error_ns=99), NOW)
    assert starts == [(task, {"kind": "start", "t0_ns": NOW + LEAD_NS}) for task in (0, 1)]
    report = coordinator.report
    assert (report.e2e_clock, report.clock_error_ns, report.clock_spread_ns) == ("same_host_monotonic", 0, 0)


def test_tasks_that_are_held_back_start_when_they_are_let_go() -> None:
    coordinator = Coordinator(plan_of(), "driver", hold_start=True)
    coordinator.receive(0, hello(), NOW)
    coordinator.receive(1, hello(), NOW)
    held = []
    for task in (0, 1):
        assert coordinator.receive(task, ready(), NOW) == []
        held.append(coordinator.awaits_start)
    assert held == [False, True]
    assert coordinator.tick(NOW) == []
    starts = coordinator.start(NOW + SECOND_NS)
    assert starts == [(task, {"kind": "start", "t0_ns": NOW + SECOND_NS + LEAD_NS}) for task in (0, 1)]
    assert (coordinator.started, coordinator.awaits_start) == (True, False)


def test_what_is_wrong_with_tasks_that_are_held_back_is_told_when_they_are_let_go() -> None:
    plan = plan_of(producers=2, consumers_per_group=2, pairs=True)
    coordinator = Coordinator(plan, "driver", hold_start=True)
    for task, clock in enumerate("aaab"):
        coordinator.receive(task, hello(clock, host=f"host-{clock}"), NOW)
    for task in range(4):
        coordinator.receive(task, ready(), NOW)
    assert coordinator.awaits_start
    assert coordinator.start(NOW) == [(None, {"kind": "start", "t0_ns": None})]
    assert "host host-a runs 3 of 4 tasks" in coordinator.problems[0]
    assert not coordinator.awaits_start


def test_hosts_start_together_by_their_own_clocks_and_the_error_is_told() -> None:
    plan = plan_of(producers=2, consumers_per_group=2)
    coordinator = Coordinator(plan, "driver")
    for task, clock in enumerate(("driver", "a", "a", "b")):
        coordinator.receive(task, hello(clock), NOW)
    coordinator.receive(0, ready(offset_ns=5, error_ns=1), NOW)
    coordinator.receive(1, ready(offset_ns=1_000, error_ns=300, wall_ns=-50), NOW)
    coordinator.receive(2, ready(offset_ns=1_100, error_ns=200, wall_ns=70), NOW)
    starts = dict(coordinator.receive(3, ready(offset_ns=-9_000, error_ns=500), NOW))
    t0_ns = coordinator.report.t0_ns
    assert t0_ns >= NOW + LEAD_NS
    # Both tasks of host a go by its better reading.
    assert [starts[task]["t0_ns"] - t0_ns for task in range(4)] == [0, 1_100, 1_100, -9_000]
    report = coordinator.report
    assert (report.e2e_clock, report.clock_error_ns, report.clock_spread_ns) == ("measured_offset", 700, 120)


def test_pairs_share_a_clock_and_need_no_comparison() -> None:
    plan = plan_of(producers=2, consumers_per_group=2, pairs=True)
    coordinator = Coordinator(plan, "driver")
    for task, clock in enumerate("abab"):
        roles = coordinator.receive(task, hello(clock), NOW)
    assert [message["number"] for _, message in roles] == [0, 1, 2, 3]
    for task in range(4):
        coordinator.receive(task, ready(offset_ns=task, error_ns=400), NOW)
    assert (coordinator.report.e2e_clock, coordinator.report.clock_error_ns) == ("same_host_monotonic", 0)


def test_half_a_pair_on_a_host_starts_nothing() -> None:
    plan = plan_of(producers=2, consumers_per_group=2, pairs=True)
    coordinator = Coordinator(plan, "driver")
    for task, clock in enumerate("aaab"):
        coordinator.receive(task, hello(clock, host=f"host-{clock}"), NOW)
    for task in range(4):
        orders = coordinator.receive(task, ready(), NOW)
    assert orders == [(None, {"kind": "start", "t0_ns": None})]
    assert "host host-a runs 3 of 4 tasks" in coordinator.problems[0]


def test_a_problem_of_one_task_is_told_once_and_nobody_starts() -> None:
    coordinator = Coordinator(plan_of(), "driver")
    coordinator.receive(0, hello(), NOW)
    coordinator.receive(1, hello(), NOW)
    coordinator.receive(0, ready("the topic is not there"), NOW)
    orders = coordinator.receive(1, ready("the topic is not there"), NOW)
    assert orders == [(None, {"kind": "start", "t0_ns": None})]
    assert coordinator.problems == ["the topic is not there"]
    assert not coordinator.started
    assert coordinator.tick(NOW) == []


def test_consumers_hear_that_all_producers_have_finished_once() -> None:
    coordinator = started(plan_of(producers=2))
    totals = {"sent": 1, "acked": 1}
    assert coordinator.receive(0, {"kind": "producer_finished", "totals": totals}, at(coordinator, 12)) == []
    orders = coordinator.receive(1, {"kind": "producer_finished", "totals": totals}, at(coordinator, 12.5))
    assert orders == [(None, {"kind": "producers_finished"})]
    assert coordinator.tick(at(coordinator, 13)) == []
    assert [(event.at_s, event.kind) for event in coordinator.report.events] == [(12.5, "producers_finished")]


def test_consumers_wait_for_the_backlog() -> None:
    coordinator = started(plan_of(start_after_backlog_bytes=250_000))
    coordinator.receive(1, consumed(0, 0), at(coordinator, 1))
    assert coordinator.receive(0, produced(0, total_bytes=249_999), at(coordinator, 1)) == []
    assert kinds(coordinator.receive(0, produced(1, total_bytes=250_000), at(coordinator, 2.5))) == ["consume"]
    assert coordinator.receive(0, produced(2, total_bytes=350_000), at(coordinator, 3)) == []
    assert coordinator.report.consumer_start == ConsumerStart(2.5, 2000, 250_000, built=True)


@pytest.mark.parametrize("waiting", [{"start_after_backlog_bytes": 10**9}, {"start_after_load": True}])
def test_waiting_consumers_start_when_the_load_is_over(waiting: dict[str, Any]) -> None:
    coordinator = started(plan_of(**waiting))
    coordinator.receive(0, produced(0, total_bytes=100_000), at(coordinator, 1))
    orders = coordinator.receive(
        0, {"kind": "producer_finished", "totals": {"acked": 9, "acked_bytes": 5}}, at(coordinator, 12)
    )
    assert kinds(orders) == ["consume", "producers_finished"]
    assert coordinator.report.consumer_start == ConsumerStart(12, 9, 5, built="start_after_load" in waiting)


STEADY = SteadyWarmup(slope_ratio=0.01, window_s=5, max_s=60)


def test_the_measured_phase_begins_soon_after_the_load_is_steady() -> None:
    coordinator = started(plan_of(warmup=STEADY))
    announced: list[tuple[int, Order]] = []
    for second, rate in enumerate([200, 600, 900, *[1000] * 10]):
        for task, message in ((0, produced(second, rate)), (1, consumed(second, rate))):
            announced += [
                (second, order) for order in coordinator.receive(task, message, at(coordinator, second + 1.01))
            ]
    # Seconds 3 to 7 are the first steady window; it is complete at 8.01 s, and second 10 the first with a second's
    # notice.
    assert announced == [(7, (None, {"kind": "measure", "second": 10}))]
    report = coordinator.report
    assert report.measure_start_s == 10
    assert report.steady is not None
    assert (report.steady.attained, report.steady.at_s, report.steady.because) == (True, 10.0, "")
    assert coordinator.tracker.measure_start_s == 10


def test_a_load_that_never_gets_steady_is_measured_from_the_last_moment_and_said_so() -> None:
    coordinator = started(plan_of(warmup=SteadyWarmup(slope_ratio=0.01, window_s=5, max_s=8)))
    for second in range(12):
        for task, message in ((0, produced(second, 500 + 100 * second)), (1, consumed(second))):
            assert coordinator.receive(task, message, at(coordinator, second + 1.01)) == []
    report = coordinator.report
    assert report.measure_start_s == 8
    assert report.steady is not None
    assert (report.steady.attained, report.steady.at_s) == (False, 8.0)
    assert "the rate changes by" in report.steady.because


def test_a_load_that_is_steady_too_late_for_an_announcement_begins_when_the_plan_says() -> None:
    coordinator = started(plan_of(warmup=SteadyWarmup(slope_ratio=0.01, window_s=5, max_s=6)))
    orders: list[Order] = []
    for second in range(8):
        for task, message in ((0, produced(second)), (1, consumed(second))):
            orders += coordinator.receive(task, message, at(coordinator, second + 1.01))
    assert orders == [(None, {"kind": "measure", "second": 6})]
    assert coordinator.report.steady is not None
    assert coordinator.report.steady.attained


def test_a_load_too_short_for_a_window_was_not_seen_steady() -> None:
    coordinator = started(plan_of(warmup=STEADY))
    assert coordinator.report.steady is not None
    assert (coordinator.report.steady.attained, coordinator.report.steady.slope_ratio) == (False, None)


def test_stopping_is_said_to_all_and_noted() -> None:
    coordinator = started(plan_of())
    assert coordinator.stop(at(coordinator, 3.25)) == [(None, {"kind": "stop"})]
    assert [(event.at_s, event.kind) for event in coordinator.report.events] == [(3.25, "stop")]
