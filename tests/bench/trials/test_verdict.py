from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater.bench.trials.evidence import Beside, evidence_in
from highwater.bench.trials.verdict import Evidence, judge, target_at_fault
from highwater.bench.workload.model import Workload
from highwater.bench.workload.sections import Validity
from highwater.results.models import Delivery, EndToEnd, Generator, Latency, Produce, Reason, SteadyState
from tests.bench.summaries import summary

MS = 1_000_000
LATENCY = Latency(
    p50=MS, p90=MS, p99=MS, p999=MS, p9999=MS, max=MS, mean=1.0 * MS, count=1_000_000, hist="hist/produce_response.hlog"
)
LATE = LATENCY.model_copy(update={"p99": 60 * MS})
STEADY = SteadyState(attained=True, at_s=20.0, slope_ratio=0.001, window_s=10)
HEALTHY = Evidence(
    acks="all",
    idempotent=False,
    drain_max_s=30,
    offered_per_s=1000,
    achieved_per_s=1000,
    consumed_per_s=2000,
    delivery=Delivery(
        sent=9000, acked=9000, failed=0, received=9000, lost=0, duplicated=0, reordered=0, corrupt=0, in_log=9000
    ),
    produce=Produce(response_ns=LATENCY, service_ns=LATENCY, send_delay_ns=LATENCY),
    e2e=EndToEnd(response_ns=LATENCY, clock="same_host_monotonic", negative_samples=0),
    generator=Generator(
        launcher="spark local[2]",
        producers=1,
        consumers=1,
        slots=2,
        oversubscribed=False,
        cpu_ratio_max=0.5,
        producer_cpu_ns_per_record=1.0,
        consumer_cpu_ns_per_record=1.0,
        start_skew_ns=0,
        clock_spread_ns=0,
    ),
    host_cpu_ratio=0.9,
    produce_p50_ns_by_second=[MS] * 9,
    client_errors=[],
)


def evidence(**changes: Any) -> Evidence:
    """HEALTHY with fields of its own or of its parts (`delivery__lost`) changed."""
    changed = HEALTHY
    for path, value in changes.items():
        part, _, name = path.partition("__")
        if name:
            value = getattr(changed, part).model_copy(update={name: value})
        changed = replace(changed, **{part: value})
    return changed


def test_a_healthy_trial_is_valid_and_says_nothing() -> None:
    verdict = judge(HEALTHY, Validity())
    assert (verdict.state, verdict.reasons, verdict.notes) == ("valid", [], [])


@pytest.mark.parametrize(
    ("changes", "state", "check", "at_fault"),
    [
        ({"delivery__failed": 3}, "invalid", "delivery.failed", True),
        ({"delivery__lost": 3, "delivery__in_log": 8997}, "invalid", "delivery.lost", True),
        ({"skipped_by_group": 2}, "invalid", "delivery.skipped", True),
        ({"delivery__in_log": 8999}, "invalid", "delivery.in_log", True),
        ({"delivery__in_log": 9001}, "invalid", "delivery.in_log", True),
        # The broker holds them all: nobody lost anything, the consumers were cut off.
        ({"delivery__lost": 3, "delivery__unread": 3}, "invalid", "drain.unread", False),
        # The consumers read to the end of the log and did not get them, whatever the broker counts.
        ({"delivery__lost": 3}, "invalid", "delivery.lost", True),
        ({"delivery__lost": 3, "delivery__unread": 2}, "invalid", "delivery.lost", True),
        ({"delivery__corrupt": 1}, "invalid", "delivery.corrupt", True),
        (
            {"promise": "exactly_once", "delivery__duplicated": 1, "delivery__duplicated_in_log": 1}
            | {"delivery__in_log": 9001},
            "invalid",
            "delivery.duplicated",
            True,
        ),
        ({"delivery__aborted_received": 2}, "invalid", "delivery.aborted_received", True),
        ({"transactional": True, "delivery__in_log": 8999}, "invalid", "delivery.in_log", True),
        ({"promise": "none", "delivery__corrupt": 1}, "invalid", "delivery.corrupt", True),
        (
            {"steady": STEADY.model_copy(update={"attained": False, "because": "the rate changes by 3%"})},
            "invalid",
            "steady.not_attained",
            False,
        ),
        ({"generator__ceiling_per_s": 1100.0}, "inconclusive", "generator.ceiling_ratio", False),
        ({"generator__consumer_ceiling_per_s": 2200.0}, "inconclusive", "generator.consumer_ceiling_ratio", False),
        ({"steal_ratio": 0.06}, "inconclusive", "host.steal_ratio", False),
        (
            {"canary": [Reason(check="canary.cpu", value=3.0, limit=2.0, text="slow")]},
            "inconclusive",
            "canary.cpu",
            False,
        ),
        ({"delivery__reordered": 1}, "invalid", "delivery.reordered", True),
        (
            {"delivery__duplicated": 1, "delivery__duplicated_in_log": 1, "delivery__in_log": 9001, "idempotent": True},
            "invalid",
            "delivery.duplicated",
            True,
        ),
        ({"acks": "0", "delivery__lost": 1, "delivery__in_log": 8999}, "invalid", "loss.unacknowledged", False),
        ({"achieved_per_s": 994.0}, "invalid", "load.achieved_ratio", False),
        ({"offered_per_s": 0.0}, "invalid", "load.achieved_ratio", False),
        ({"generator__cpu_ratio_max": 0.86}, "invalid", "generator.cpu_ratio_max", False),
        ({"host_cpu_ratio": 0.99}, "inconclusive", "host.cpu_ratio", False),
        ({"generator__oversubscribed": True}, "inconclusive", "generator.oversubscribed", False),
        (
            {"produce_p50_ns_by_second": [MS] * 3 + [2 * MS] * 3 + [4 * MS] * 3},
            "inconclusive",
            "steady.drift_ratio",
            False,
        ),
    ],
)
def test_what_makes_a_trial_doubtful(changes: dict[str, Any], state: str, check: str, at_fault: bool) -> None:
    verdict = judge(evidence(**changes), Validity())
    assert verdict.state == state
    assert check in [reason.check for reason in verdict.reasons]
    assert any(map(target_at_fault, verdict.reasons)) == at_fault
    for reason in verdict.reasons:
        assert reason.text.endswith(reason.text.strip())
        assert "\n" not in reason.text


@pytest.mark.parametrize(
    "changes",
    [
        {"achieved_per_s": 995.0},
        {"generator__cpu_ratio_max": 0.85},
        {"host_cpu_ratio": None},
        # Drift without consequence, and too few seconds to tell.
        {"produce_p50_ns_by_second": [MS // 10] * 3 + [MS] * 6},
        {"produce_p50_ns_by_second": [MS, None, None, 9 * MS]},
        {"acks": "0", "delivery__in_log": 8000},
        {"delivery__duplicated": 2, "delivery__duplicated_in_log": 2, "delivery__in_log": 9002},
        # Three groups each saw the one duplicate.
        {"delivery__duplicated": 3, "delivery__duplicated_in_log": 1, "delivery__in_log": 9001},
        # Commit markers take offsets; who asked for no order and no check gets neither.
        {"transactional": True, "delivery__in_log": 9090},
        {"ordered": False, "delivery__reordered": 5},
        {"promise": "none", "delivery__received": 0, "delivery__in_log": 8000},
        {"steady": STEADY},
        {"constant_rate": False, "produce_p50_ns_by_second": [MS] * 3 + [9 * MS] * 6},
        # A closed loop has no rate to keep and no time to be late by; its generator is meant to be busy.
        {
            "offered_per_s": None,
            "produce": Produce(response_ns=LATENCY, service_ns=LATENCY, send_delay_ns=LATE),
            "generator__cpu_ratio_max": 0.99,
        },
    ],
)
def test_what_does_not(changes: dict[str, Any]) -> None:
    assert judge(evidence(**changes), Validity()).state == "valid"


def test_the_share_of_the_generators_ceiling_is_said() -> None:
    calibrated = evidence(generator__ceiling_per_s=4000.0, generator__consumer_ceiling_per_s=4000.0)
    verdict = judge(calibrated, Validity())
    assert verdict.state == "valid"
    assert verdict.notes[0].startswith("25 % of the generator's own ceiling, 4")
    assert verdict.notes[1].startswith("50 % of its consumers' own ceiling, 4")


def test_the_limits_are_the_workloads_own() -> None:
    late = evidence(
        produce=HEALTHY.produce.model_copy(update={"send_delay_ns": LATENCY.model_copy(update={"p99": 8 * MS})})
    )
    (reason,) = judge(late, Validity()).reasons
    assert (reason.check, reason.value, reason.limit) == ("generator.send_delay_p99_ns", 8 * MS, 5 * MS)
    assert judge(late, Validity.model_validate({"send_delay_p99": "10ms"})).state == "valid"


def test_notes_say_what_to_know_about_valid_figures() -> None:
    thin = LATENCY.model_copy(update={"count": 9_999})
    noted = evidence(
        acks="0",
        delivery__duplicated=2,
        produce__response_ns=thin,
        e2e__clock="measured_offset",
        e2e__negative_samples=4,
    )
    notes = judge(noted, Validity()).notes
    assert any(note.startswith("acks 0:") for note in notes)
    assert "2 duplicates: delivery is at least once when enable.idempotence is off" in notes
    assert "produce p99.9, p99.99: fewer than 10 of 9999 samples lie beyond" in notes
    assert any("clocks of several hosts" in note for note in notes)
    assert any(note.startswith("4 records seem received before") for note in notes)


def test_an_error_of_the_client_is_quoted() -> None:
    (reason, *_) = judge(evidence(delivery__failed=2, client_errors=["_MSG_TIMED_OUT ×2"]), Validity()).reasons
    assert reason.text == "2 records were given up by the client (_MSG_TIMED_OUT ×2)"


def test_a_closed_loop_says_what_its_figures_are() -> None:
    notes = judge(evidence(offered_per_s=None, generator__cpu_ratio_max=0.99), Validity()).notes
    assert any(note.startswith("closed loop: ") for note in notes)
    assert "generator-bound: the busiest task used 99 % of a core; the system may be faster" in notes


def test_what_was_not_checked_is_said() -> None:
    assert any("is not known" in note for note in judge(evidence(promise="none"), Validity()).notes)


def test_what_was_sent_again_and_nobody_read_is_not_held_against_the_broker() -> None:
    verdict = judge(evidence(generator__consumers=0, delivery__received=0, delivery__in_log=9001), Validity())
    assert (verdict.state, verdict.reasons) == ("valid", [])
    assert any("the log holds 1 records more than were acknowledged" in note for note in verdict.notes)
    short = judge(evidence(generator__consumers=0, delivery__received=0, delivery__in_log=8999), Validity())
    assert [reason.check for reason in short.reasons] == ["delivery.in_log"]
    promised = evidence(idempotent=True, generator__consumers=0, delivery__received=0, delivery__in_log=9001)
    assert [reason.check for reason in judge(promised, Validity()).reasons] == ["delivery.in_log"]


@pytest.mark.parametrize(
    ("producers", "idempotent"),
    [
        ({}, False),
        ({"client": {"enable.idempotence": True}}, True),
        ({"client": {"enable.idempotence": "True"}}, True),
        ({"client": {"enable.idempotence": False}}, False),
        ({"transactions": {"records": 10}}, True),
    ],
)
def test_who_is_idempotent(producers: dict[str, Any], idempotent: bool) -> None:
    """librdkafka reads its booleans in any case, and makes a transactional producer idempotent by itself."""
    document = {"schema": "bench.workload/1", "name": "w", "load": {"rate": "1k/s"}, "producers": producers}
    workload = Workload.model_validate(document | {"phases": {"measure": "5s"}, "records": {"size": "1KiB"}})
    assert evidence_in(summary(1), [], workload, Beside()).idempotent is idempotent
