"""Faults under load: what a workload may ask for, how recovery is read off the seconds, and brokers broken for real."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, Literal, cast

import pytest

from highwater.bench.systems import SystemProcess
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.trials.faults import FaultInjector
from highwater.bench.trials.recovery import FaultMark, recoveries, undisturbed
from highwater.bench.workload.faults import Fault
from highwater.common.errors import TrialError
from highwater.results.models import Phase, Window
from highwater.results.recovery import FaultRecovery
from highwater.spark_loadgen.model import Progress
from tests.bench.workload.test_specification import complaint, document, read

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
    assert recovered([100] * 7 + [80, 100, 100, 100, 40, 100, 100, 100], KILLED)[0].to_half_s == 0.0, "90 % came first"
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
        (faulty("[{at: 5s, do: restart, for: 3s}]"), "faults[0].for: does not fit restart"),
        (
            faulty("[{at: 1s, do: kill}]"),
            "faults[0].at: must be 3s or later: recovery is compared with the time before",
        ),
        (
            faulty("[{at: 30s, do: kill}]"),
            "faults[0].at: leaves less than 3 s of the measured phase (20s) for recovery",
        ),
        (faulty("[{at: 5s, do: kill, for: 14s}]"), "faults[0].for: leaves less than 3 s of the measured phase (20s)"),
        (
            faulty("[{at: 5s, do: kill, for: 4s}, {at: 8s, do: pause, for: 1s}]"),
            "faults[1].at: must be 12s or later: one fault at a time, with its recovery",
        ),
        (
            faulty("[{at: 5s, do: kill, node: 1}, {at: 9s, do: pause, node: 1}]"),
            "faults[1].node: 1 is down since an earlier fault",
        ),
        (
            faulty("[{at: 5s, do: kill}]", "{nodes: 1}"),
            "faults[0].for: is missing: no broker would be left to report what its log contains",
        ),
        (
            faulty("[{at: 5s, do: kill, for: 3s}]", "{kind: external, bootstrap_servers: 'h:1'}"),
            "faults: need a system that this run starts; this run does not break an external one",
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


class Node:
    """A broker's process: `ends` of its starts end before it serves."""

    def __init__(self, ends: int = 0) -> None:
        self.ends = ends
        self.done: list[str] = []
        self.process_ids = [7]

    def take_down(self, how: signal.Signals) -> None:
        self.done.append(how.name)

    def start_again(self) -> None:
        self.done.append("start")

    def reap(self) -> bool:
        return self.done[-1] != "start" or self.done.count("start") <= self.ends

    def serves(self) -> bool:
        return not self.reap()

    def pause(self) -> None:
        self.done.append("pause")

    def resume(self) -> None:
        self.done.append("resume")


class Cluster:
    """Tells who leads."""

    def leader_of(self, topic: str, partition: int) -> int:
        assert (topic, partition) == ("t", 0)
        return 2

    def controller(self) -> int:
        raise TrialError("the cluster does not report its controller: _TIMED_OUT")


def injector(*faults: dict[str, Any], nodes: Sequence[Node], measure_s: int = 100) -> FaultInjector:
    found = [Fault.model_validate(fault) for fault in faults]
    brokers, cluster = cast(Sequence[SystemProcess], nodes), cast(BrokerClient, Cluster())
    return FaultInjector(found, brokers, cluster, "t", measure_s, 1, lambda _: None)


def at(elapsed_s: float, phase: Literal["warmup", "measure"] = "measure") -> Progress:
    """Of a measured phase of 100 s that starts 10 s after T0."""
    zeros: dict[str, Any] = dict.fromkeys(("offered", "sent", "acked", "received", "failed"), 0)
    return Progress(
        phase=phase,
        elapsed_s=elapsed_s,
        left_s=110.0 - elapsed_s,
        generator_cpu_ratio_max=None,
        produce_p99_ns=None,
        e2e_p99_ns=None,
        **zeros,
    )


def test_a_fault_is_made_when_it_is_due_and_on_whom_the_cluster_names() -> None:
    nodes = [Node(), Node(), Node()]
    faults = injector({"at": "5s", "do": "restart", "node": "leader"}, nodes=nodes)
    faults.run_due()
    for progress in (at(9.0, "warmup"), at(14.9)):
        faults.progressed(progress)
        faults.run_due()
    assert [node.done for node in nodes] == [[], [], []]
    faults.progressed(at(15.0))
    faults.run_due()
    faults.finish(lambda: None)
    assert [node.done for node in nodes] == [[], ["SIGTERM", "start"], []]
    (mark,) = faults.marks(t0_unix_ns=0)
    assert (mark.do, mark.node, mark.role) == ("restart", 2, "leader")
    assert mark.back_s is not None
    assert [(event.kind, event.text) for event in faults.events(0)] == [
        ("fault", "broker 2 (leader) asked to end"),
        ("fault", "broker 2 started again"),
        ("recovery", "broker 2 serves again"),
    ]


def test_a_broker_that_the_cluster_still_counts_in_is_started_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.bench.trials.faults._AGAIN_AFTER_S", 0.0)
    node = Node(ends=2)
    faults = injector({"at": "5s", "do": "restart", "node": 1}, nodes=[node])
    faults.progressed(at(15.0))
    faults.run_due()
    faults.finish(lambda: None)
    assert node.done == ["SIGTERM", "start", "start", "start"]


def test_a_broker_that_never_serves_again_fails_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.bench.trials.faults._AGAIN_AFTER_S", 0.0)
    monkeypatch.setattr("highwater.bench.trials.faults._SERVES_WITHIN_S", 0.05)
    faults = injector({"at": "5s", "do": "restart", "node": 1}, nodes=[Node(ends=10**6)])
    faults.progressed(at(15.0))
    faults.run_due()
    with pytest.raises(TrialError, match="broker 1 does not serve 0 s after it was started again"):
        faults.finish(lambda: None)


def test_a_fault_that_could_not_be_made_fails_the_trial() -> None:
    faults = injector({"at": "5s", "do": "kill", "node": "controller"}, nodes=[Node(), Node()])
    faults.progressed(at(15.0))
    faults.run_due()
    assert faults.problem == "the cluster does not report its controller: _TIMED_OUT"
    late = injector({"at": "90s", "do": "kill", "node": 1}, nodes=[Node()])
    late.progressed(at(15.0))
    with pytest.raises(TrialError, match="the load ended before the fault at 90 s of the measured phase was made"):
        late.finish(lambda: None)


def test_the_next_fault_waits_for_the_broker_of_the_one_before() -> None:
    node = Node(ends=10**6)
    faults = injector({"at": "5s", "do": "restart"}, {"at": "8s", "do": "kill", "for": "1s"}, nodes=[node])
    faults.progressed(at(30.0))
    for _ in range(5):
        faults.run_due()
    assert node.done == ["SIGTERM", "start"]
    node.ends = 0
    with pytest.raises(TrialError, match="was made: broker 1 was not back from the one before"):
        faults.finish(lambda: None)
    assert "SIGKILL" not in node.done


def test_a_fault_whose_end_could_not_be_seen_is_not_made() -> None:
    """It would seem that the load never came back from it."""
    node = Node(ends=10**6)
    faults = injector({"at": "5s", "do": "restart"}, {"at": "8s", "do": "kill", "for": "5s"}, nodes=[node])
    for elapsed_s, expected in (
        (16.0, None),
        (102.0, None),
        (103.5, "it is too late for the fault at 8 s of the measured phase: broker 1 was not back from the one before"),
    ):
        faults.progressed(at(elapsed_s))
        faults.run_due()
        assert faults.problem == expected
    assert "SIGKILL" not in node.done


def test_one_that_never_comes_back_is_not_waited_for() -> None:
    nodes = [Node(), Node(), Node()]
    faults = injector({"at": "5s", "do": "pause"}, nodes=nodes)
    faults.progressed(at(15.0))
    faults.run_due()
    faults.finish(lambda: None)
    assert sorted(node.done for node in nodes) == [[], [], ["pause"]]
    assert faults.marks(0)[0].back_s is None
