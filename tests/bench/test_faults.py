"""Faults under load: what a workload may ask for, how recovery is read off the seconds, and brokers broken for real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bench.recovery import FaultMark, recoveries, undisturbed
from bench.results import FaultRecovery, Phase, Window
from tests.bench.test_specification import complaint, document, read

MEASURE = Phase(name="measure", start_s=2.0, end_s=22.0)
MS = 1_000_000


def windows(acked: Sequence[int], received: Sequence[int] | None = None) -> list[Window]:
    """100 records are due in every second; the tail is 10 ms, and 1010 ms where not all were acknowledged."""
    return [
        Window(
            second=second,
            phase="measure" if second >= 2 else "warmup",
            offered=100,
            sent=100,
            acked=count,
            acked_bytes=count,
            failed=0,
            received=(received or acked)[second],
            received_bytes=0,
            produce_p50_ns=5 * MS,
            produce_p99_ns=10 * MS if count >= 100 else 1010 * MS,
            produce_max_ns=20 * MS if count >= 100 else 4200 * MS,
            e2e_p50_ns=None,
            e2e_p99_ns=None,
            e2e_max_ns=None,
            generator_cpu_ratio_max=0.1,
        )
        for second, count in enumerate(acked)
    ]


def recovered(
    acked: Sequence[int], *marks: FaultMark, closed_loop: bool = False, received: Sequence[int] | None = None
) -> list[FaultRecovery]:
    found = windows([*acked, *([100] * (22 - len(acked)))], received)
    return recoveries(marks, found, MEASURE, closed_loop=closed_loop, consumers=received is not None)


KILLED = FaultMark("kill", 2, "leader", at_s=7.5, back_s=12.25)


def test_the_figures_of_a_fault_are_those_of_its_seconds() -> None:
    # killed in second 7: nothing for three seconds, then 60 %, then a catch-up, and all from second 12 on
    (found,) = recovered([100] * 7 + [50, 0, 0, 0, 60, 390], KILLED, received=[100] * 7 + [0] * 4 + [100] * 11)
    assert found.no_ack_s == 3
    assert found.to_half_s == 3.5, "from the fault at 7.5 to the start of second 11"
    assert found.to_ninety_s == 4.5
    assert found.longest_wait_s == 4.2
    assert found.p99_extra_s2 == 5.0, "five seconds of one second beyond the median before"
    assert found.consumer_gap_s == 4
    assert (found.judged_until_s, found.disturbed_until_s) == (22, 12)
    assert undisturbed([found], MEASURE) == [2, 3, 4, 5, 6, *range(12, 22)]


def test_a_fault_that_nobody_noticed_costs_nothing() -> None:
    (found,) = recovered([100] * 22, KILLED)
    assert (found.no_ack_s, found.to_half_s, found.to_ninety_s, found.p99_extra_s2) == (0, 0.0, 0.0, 0.0)
    assert found.consumer_gap_s is None, "there are no consumers"
    assert found.disturbed_until_s == 12, "as long as the broker is down"


def test_what_did_not_come_back_has_no_time_and_stays_disturbed() -> None:
    (found,) = recovered([100] * 7 + [40] * 15, KILLED)
    assert (found.to_half_s, found.to_ninety_s) == (None, None)
    assert undisturbed([found], MEASURE) == [2, 3, 4, 5, 6]


def test_a_rate_that_is_back_for_a_moment_only_is_not_back() -> None:
    (found,) = recovered([100] * 7 + [0, 100, 100, 0, 100, 100, 100], KILLED)
    assert found.to_ninety_s == 3.5


def test_a_dip_when_the_broker_returns_is_disturbed_too() -> None:
    (found,) = recovered([100] * 7 + [0, 100, 100, 100, 100, 30, 20, 100, 100, 100], KILLED)
    assert found.to_ninety_s == 0.5, "without the broker"
    assert found.disturbed_until_s == 14


def test_a_dip_long_after_the_broker_returned_is_not_the_faults() -> None:
    (found,) = recovered([100] * 7 + [0, 100, 100, 100, 100, 100, 100, 100, 100, 20, 100, 20, 100, 20, 100], KILLED)
    assert (found.to_half_s, found.to_ninety_s, found.disturbed_until_s) == (0.5, 0.5, 12)
    (unnoticed,) = recovered([100] * 16 + [20, 100, 20, 100, 20, 100], KILLED)
    assert (unnoticed.to_half_s, unnoticed.disturbed_until_s) == (0.0, 12)


def test_each_fault_is_judged_until_the_next_and_a_closed_loop_against_what_was_before() -> None:
    second = FaultMark("pause", 1, "node", at_s=15.0, back_s=None)
    acked = [100] * 2 + [1000] * 5 + [400] * 2 + [1000] * 6 + [0] * 4 + [1000] * 3
    first, last = recovered(acked, KILLED, second, closed_loop=True)
    assert (first.reference_per_s, first.judged_until_s, first.to_half_s, first.to_ninety_s) == (1000, 15, 1.5, 1.5)
    assert (last.no_ack_s, last.to_ninety_s, last.back_s) == (4, 4.0, None)


def faulty(faults: str, system: str = "{nodes: 3}") -> dict[str, str]:
    return {"phases": "{warmup: 1s, measure: 20s}", "system": system, "faults": faults}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (faulty("[{at: 5s, do: burn}]"), "faults[0].do: 'burn' is not 'kill', 'stop', 'pause' or 'restart'"),
        (faulty("[{at: 5s, doo: kill}]"), 'faults[0].doo: unknown key; did you mean "do"?'),
        (faulty("[{at: 5, do: kill}]"), "faults[0].at: 5 is not a duration"),
        (faulty("[{at: 5s, do: kill, node: 0}]"), "faults[0].node: 0 is not a broker's number (from 1)"),
        (faulty("[{at: 5s, do: kill, node: 4}]"), "faults[0].node: 4 is more than system.nodes, 3"),
        (faulty("[{at: 5s, do: restart, for: 3s}]"), "faults[0].for: is not for restart"),
        (faulty("[{at: 1s, do: kill}]"), "faults[0].at: must be 3s or later: recovery is held against what was before"),
        (faulty("[{at: 30s, do: kill}]"), "faults[0].at: leaves no 3 s of the measured phase (20s) to come back in"),
        (faulty("[{at: 5s, do: kill, for: 14s}]"), "faults[0].for: leaves no 3 s of the measured phase (20s)"),
        (
            faulty("[{at: 5s, do: kill, for: 4s}, {at: 8s, do: pause, for: 1s}]"),
            "faults[1].at: must be 12s or later: one fault at a time, and what follows",
        ),
        (
            faulty("[{at: 5s, do: kill, node: 1}, {at: 9s, do: pause, node: 1}]"),
            "faults[1].node: 1 is gone since an earlier fault",
        ),
        (
            faulty("[{at: 5s, do: kill}]", "{nodes: 1}"),
            "faults[0].for: is missing: no broker would be left to tell what its log holds",
        ),
        (
            faulty("[{at: 5s, do: kill, for: 3s}]", "{kind: external, bootstrap_servers: 'h:1'}"),
            "faults: need a system that this run starts; an external one is not ours to break",
        ),
        (
            faulty("[{at: 5s, do: kill, node: controller}]", "{kind: apache-kafka, nodes: 3}"),
            "faults[0].node: controller: with KRaft no broker tells it",
        ),
    ],
)
def test_a_fault_that_cannot_be_made_is_one_line(sections: dict[str, str], expected: str) -> None:
    said = complaint(document(**sections))
    assert expected in said
    assert "\n" not in said


def test_faults_survive_a_dump() -> None:
    workload = read(document(**faulty("[{at: 5s, do: kill, node: leader, for: 4s}]"))).workload
    dumped: dict[str, Any] = workload.as_document()
    assert dumped["faults"] == [{"at": "5s", "do": "kill", "node": "leader", "for": "4s"}]
    assert type(workload).model_validate(dumped) == workload
