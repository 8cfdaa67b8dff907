"""Findings beside the answer: the headline metrics that it leaves out, and the loads that were carried."""

from __future__ import annotations

from pathlib import Path

from highwater.reports.blocks import Bullet, Bullets
from highwater.reports.cells import Run
from highwater.reports.findings import finding_blocks
from highwater.results.models import Scalar, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.recovery import FaultRecovery, Recovery
from tests.reports.sample_run import Sample, saturated, write_sample

ACKS: dict[str, list[Scalar]] = {"producers.client.acks": ["all", "1"]}
ONE: dict[str, list[Scalar]] = {"producers.client.acks": ["all"]}


def bullets_of(directory: Path, sample: Sample) -> list[Bullet]:
    blocks = finding_blocks(Run.of(RunResult(write_sample(directory / "run", sample))))
    return [item for block in blocks if isinstance(block, Bullets) for item in block.items]


def test_what_the_answer_says_is_not_said_again(tmp_path: Path) -> None:
    found = bullets_of(tmp_path, Sample(axes=ACKS, trials=6, measure_s=1, analysed=True))
    titles = [item.text.split(" is ")[0].split(":")[0] for item in found]
    assert titles == [
        "Throughput",
        "Produce latency p50",
        "End-to-end latency p50",
        "End-to-end latency p99",
        "Broker CPU",
    ]
    asked = bullets_of(tmp_path / "asked", Sample(axes=ACKS, measure_s=1, best=("produce.p50", "e2e.p50")))
    assert [item.text.split(" is ")[0].split(":")[0] for item in asked] == [
        "Throughput",
        "Produce latency p99",
        "End-to-end latency p99",
        "Broker CPU",
    ]


def killed(summary: TrialSummary) -> TrialSummary:
    """The same trial, in which one partition of several waited for its new leader."""
    fault = FaultRecovery(
        do="kill", node=1, role="leader", at_s=3, back_s=9, judged_until_s=12, disturbed_until_s=9,
        reference_per_s=None, no_ack_s=0, to_half_s=0, to_ninety_s=0, longest_wait_s=0.56, p99_extra_s2=0.9,
        consumer_gap_s=0,
    )  # fmt: skip
    return summary.model_copy(update={"recovery": Recovery(faults=[fault], lost=0, duplicated=0, reordered=0)})


def test_a_fault_is_shown_by_every_wait_that_the_answer_leaves_out(tmp_path: Path) -> None:
    found = bullets_of(tmp_path, Sample(axes=ONE, trials=2, measure_s=1, best=("recovery.no_ack_s",), change=killed))
    assert found[0].text.startswith("Longest wait for an acknowledgement is 560 ms (2 trials")
    assert not any("without any acknowledgement" in item.text for item in found)


def test_a_decided_difference_is_marked_and_others_are_open(tmp_path: Path) -> None:
    throughput, decided, *_ = bullets_of(tmp_path, Sample(axes=ACKS, trials=6, measure_s=1, analysed=True))
    assert (throughput.mark, decided.mark) == ("plain", "shown")
    assert "lowest with “acks 1”" in decided.text
    few = bullets_of(tmp_path / "few", Sample(axes=ACKS, measure_s=1))
    assert few[1].mark == "open"
    assert "an interval needs 5 blocks with a usable trial of each cell, and there are 3" in few[1].text


def test_no_usable_trial_no_finding(tmp_path: Path) -> None:
    assert bullets_of(tmp_path, Sample(axes=ACKS, measure_s=1, change=saturated)) == []


def test_offered_loads_are_never_compared_with_each_other(tmp_path: Path) -> None:
    axes: dict[str, list[Scalar]] = {"load.rate": [10_000, 20_000, 50_000], **ACKS}

    def change(summary: TrialSummary) -> TrialSummary:
        return saturated(summary) if summary.offered_per_s == 50_000 else summary

    highest_all, highest_one, *compared = bullets_of(tmp_path, Sample(axes=axes, measure_s=1, change=change))
    assert (highest_all.subject, highest_one.subject) == ("acks all", "acks 1")
    assert (
        "20,000 records/s is the highest offered load with a usable trial (1 higher load had none)" in highest_all.text
    )
    assert all(item.text.startswith("At rate 20,000, the highest load that two cells carried: ") for item in compared)
    assert all("50,000" not in item.text and "10,000" not in item.text for item in compared)
