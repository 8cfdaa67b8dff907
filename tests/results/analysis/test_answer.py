from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from highwater.results.analysis.answer import answer_of
from highwater.results.analysis.statement import Answer, Statement, StatementKind
from highwater.results.models import AtOnce, Reason, Scalar, SloResult, TrialSummary, Verdict
from highwater.results.run_lock import RunLock
from tests.bench.summaries import LATE, LOST, summary
from tests.results.analysis.runs import run_of

AXIS = "producers.client.compression.type"
ONE, TWO, THREE = ({AXIS: codec} for codec in ("none", "lz4", "zstd"))
BUSY = Reason(check="host.cpu_ratio", value=0.97, limit=0.95, text="the host's CPUs were 97 % busy")


def trial(
    block: int, factors: Mapping[str, Scalar], *, delivery: dict[str, Any] | None = None, **given: Any
) -> TrialSummary:
    made = summary(block, dict(factors), **given)
    return made.model_copy(update={"delivery": made.delivery.model_copy(update=delivery)}) if delivery else made


def trials_of(n: int, *ratios: float, scatter: float = 0.01, seed: int = 1) -> list[TrialSummary]:
    """`n` blocks of one cell for each ratio of p99 to 4 ms; every block has another weather, and an A/A twin."""
    draw = random.Random(seed)
    trials = []
    for block in range(1, n + 1):
        weather = draw.uniform(1, 3)
        for factors, ratio in zip((ONE, TWO, THREE), ratios, strict=False):
            p99_ns = round(4_000_000 * weather * ratio * draw.uniform(1 - scatter, 1 + scatter))
            trials.append(trial(block, factors, p99_ns=p99_ns))
        p99_ns = round(4_000_000 * weather * ratios[0] * draw.uniform(1 - scatter, 1 + scatter))
        trials.append(trial(block, ONE, role="a_a", p99_ns=p99_ns))
    return trials


def disturbed(trials: list[TrialSummary], count: int) -> list[TrialSummary]:
    doubtful = Verdict(state="inconclusive", reasons=[BUSY])
    return [
        item.model_copy(update={"verdict": doubtful}) if number < count else item for number, item in enumerate(trials)
    ]


def of_kind(answer: Answer, kind: StatementKind) -> list[Statement]:
    return [statement for statement in answer.statements if statement.kind == kind]


def text_of(answer: Answer, kind: StatementKind) -> str:
    (statement,) = of_kind(answer, kind)
    return statement.text


# --- what was lost ----------------------------------------------------------------------------------------------------


def test_no_loss_was_seen(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, [trial(block, ONE) for block in (1, 2)]))
    (statement,) = of_kind(answer, "delivery")
    assert statement.text == "No loss was seen: 200,000 of 200,000 records arrived once, in order."
    assert statement.state == "good"
    assert answer.sentence.startswith(statement.text)


def test_a_loss_names_its_cell_and_comes_first_even_if_nobody_asked(tmp_path: Path) -> None:
    trials = [trial(1, ONE), trial(1, TWO, reason=LOST, delivery={"lost": 3})]
    answer = answer_of(run_of(tmp_path, trials, answer={"lost": False}))
    assert answer.statements[0].state == "bad"
    assert answer.statements[0].text == "3 of 200,000 acknowledged records were lost (in “compression lz4”)."
    assert "001-lz4-measure/system.log" in answer.next_step
    quiet = answer_of(run_of(tmp_path / "quiet", trials[:1], answer={"lost": False}))
    assert of_kind(quiet, "delivery") == []


@pytest.mark.parametrize(
    ("delivery", "text"),
    [
        (
            {"duplicated": 4},
            "100,000 of 100,000 records arrived in order (4 duplicates, which at-least-once delivery allows).",
        ),
        (
            {"reordered": 2},
            "100,000 of 100,000 records arrived once (2 out of order, which the workload allows).",
        ),
        (
            {"aborted": 1000},
            "99,000 of 99,000 records arrived once, in order (1,000 of aborted transactions left out).",
        ),
        (
            {"checked": False},
            "Not known whether records were lost: delivery was not checked (100,000 acknowledged).",
        ),
        (
            {"checked": False, "received": 0},
            "The log holds all 100,000 acknowledged records; no consumer read them back.",
        ),
    ],
)
def test_what_was_allowed_or_not_looked_at_is_said(tmp_path: Path, delivery: dict[str, Any], text: str) -> None:
    assert text_of(answer_of(run_of(tmp_path, [trial(1, ONE, delivery=delivery)])), "delivery").endswith(text)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ("delivery.duplicated", "7 of 100,000 received records were received before."),
        ("delivery.reordered", "7 of 100,000 received records were out of order."),
        ("delivery.skipped", "7 of 100,000 acknowledged records were given to no member of the group."),
        ("delivery.failed", "7 of 100,000 sent records were given up by the client."),
        ("drain.unread", "7 of 100,000 acknowledged records were not read in time, though the log holds them."),
        ("loss.unacknowledged", "7 of 100,000 sent records were lost, which acks 0 allows."),
    ],
)
def test_every_broken_promise_has_its_words(tmp_path: Path, check: str, text: str) -> None:
    reason = Reason(check=check, value=7, limit=0, text="")
    answer = answer_of(run_of(tmp_path, [trial(1, ONE, reason=reason)]))
    assert (of_kind(answer, "delivery")[0].text, of_kind(answer, "delivery")[0].state) == (text, "bad")


def test_trials_that_did_not_finish_are_not_spoken_for(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path / "some", [trial(1, ONE)], unfinished=2, status="interrupted"))
    assert text_of(answer, "delivery").endswith("arrived once, in order, in 1 of 3 trials.")
    assert answer.next_step == (
        f"Resume the run: highwater bench run w.yaml --launcher process --trials 3 --resume {tmp_path / 'some'}"
    )
    killed = run_of(tmp_path / "killed", [trial(1, ONE)], unfinished=2, status="running")
    assert answer_of(killed).next_step.startswith("Resume the run: ")
    lock = RunLock.take(killed.directory)
    assert not answer_of(killed).next_step.startswith("Resume the run: "), "it goes on"
    lock.release()
    none = answer_of(run_of(tmp_path / "none", []))
    assert none.sentence == "No trial finished, so nothing is known about lost records."


# --- which cell is best -----------------------------------------------------------------------------------------------


def test_a_decided_best_says_by_how_much(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, trials_of(8, 1.0, 0.5)))
    text = text_of(answer, "best")
    assert text.startswith("Produce latency p99 is lowest with “compression lz4”: ")
    assert "ms with “compression none”; in trials of the same block 49.9 % " in text
    assert "lower (95 % interval 49" in text
    assert of_kind(answer, "best")[0].state == "good"
    assert answer.next_step.startswith("See what the best one costs in the other metrics before you take it: ")


def test_the_best_of_three_is_decided_against_each_of_the_others(tmp_path: Path) -> None:
    text = text_of(answer_of(run_of(tmp_path, trials_of(8, 1.0, 2.0, 0.5))), "best")
    assert text.startswith("Produce latency p99 is lowest with “compression zstd”: ")
    assert "the next best, “compression none”" in text


def test_a_group_that_is_not_told_apart_is_named(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, trials_of(8, 1.0, 1.001, 2.0, scatter=0.02)))
    (statement,) = of_kind(answer, "best")
    assert statement.state == "open"
    assert "not decided between “compression none” (" in statement.text
    assert "and “compression lz4” (" in statement.text
    assert statement.text.endswith("Both are better than the other cell.")
    assert "may be none" in statement.text


def test_few_trials_decide_nothing_and_name_the_command_that_does(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, trials_of(3, 1.0, 0.5)))
    text = text_of(answer, "best")
    assert text.endswith("because an interval needs 5 blocks with a usable trial of each cell, and there are 3.")
    assert answer.next_step == (
        "Run about 6 trials of each cell (an estimate): "
        f"highwater bench run w.yaml --launcher process --trials 6 --out {tmp_path}-2"
    )


def test_trials_that_were_spoiled_are_no_reason_for_more_trials(tmp_path: Path) -> None:
    trials = trials_of(7, 1.0, 0.5)
    late = Reason(check="generator.send_delay_p99_ns", value=7e6, limit=5e6, text="records left late")
    spoiled = Verdict(state="invalid", reasons=[late, BUSY])
    trials = [item.model_copy(update={"verdict": spoiled}) if item.block <= 4 else item for item in trials]
    answer = answer_of(run_of(tmp_path, trials))
    assert answer.next_step == (
        "Mend what spoiled trials, and run again: 8 of 14 trials are invalid (8 trials: records left late: p99 "
        f"above 5 ms; median 7 ms): highwater bench run w.yaml --launcher process --out {tmp_path}-2"
    )


def test_blocks_without_a_usable_trial_of_each_cell_are_not_counted(tmp_path: Path) -> None:
    invalid = Verdict(state="invalid", reasons=[LATE])
    trials = [
        item.model_copy(update={"verdict": invalid}) if item.block > 1 and item.factors == ONE else item
        for item in trials_of(6, 1.0, 0.5)
    ]
    text = text_of(answer_of(run_of(tmp_path, trials)), "best")
    assert "an interval needs 5 blocks with a usable trial of each cell, and there is 1" in text


def test_a_difference_within_the_noise_is_none(tmp_path: Path) -> None:
    draw = random.Random(4)
    trials = [item for item in trials_of(8, 1.0, 1.05, scatter=0.001) if item.role == "measure"]
    for block in range(1, 9):
        base = next(item for item in trials if item.block == block)
        p99_ns = round(base.produce.response_ns.p99 * draw.choice((0.9, 1.1)))
        trials.append(trial(block, ONE, role="a_a", p99_ns=p99_ns))
    text = text_of(answer_of(run_of(tmp_path, trials)), "best")
    assert "is within the noise: as many trials of the same thing differ by ±" in text


def test_what_more_trials_cannot_decide_is_said(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, trials_of(8, 1.0, 1.001, scatter=0.05)))
    assert answer.next_step.startswith("More trials will hardly decide it: produce.p99 would take about ")
    assert answer.next_step.endswith("0 trials of each cell (an estimate). Take the cells as equal in it.")


def test_disturbed_trials_and_smoke_runs_show_in_the_sentence(tmp_path: Path) -> None:
    trials = disturbed(trials_of(8, 1.0, 0.5), 24)
    answer = answer_of(run_of(tmp_path, trials, for_measurement=False))
    assert text_of(answer, "best").endswith("a smoke run, not to be quoted; 16 of 16 trials disturbed).")
    assert of_kind(answer, "best")[0].state == "plain"
    assert "(16 of 16 trials were disturbed)" in answer.next_step
    some = answer_of(run_of(tmp_path / "some", disturbed(trials_of(8, 1.0, 0.5), 3)))
    assert text_of(some, "best").endswith("; 2 of 16 trials disturbed).")
    assert of_kind(some, "best")[0].state == "good"
    assert some.next_step.startswith("See what the best one costs")


def test_an_invalid_trial_on_a_busy_host_was_disturbed_too(tmp_path: Path) -> None:
    trials = disturbed(trials_of(8, 1.0, 0.97, scatter=0.3), 24)
    late = Reason(check="generator.send_delay_p99_ns", value=9_000_000, limit=5_000_000, text="records left late")
    trials[0] = trials[0].model_copy(update={"verdict": Verdict(state="invalid", reasons=[late, BUSY])})
    assert "(16 of 16 trials were disturbed)" in answer_of(run_of(tmp_path, trials)).next_step


def test_throughput_is_no_question_when_every_cell_kept_up(tmp_path: Path) -> None:
    result = run_of(tmp_path, trials_of(6, 1.0, 1.0), answer={"best": "produce.achieved_per_s"})
    (statement,) = of_kind(answer_of(result), "best")
    assert statement.state == "plain"
    assert "every cell reached the offered 20,000/s" in statement.text
    assert "highwater bench search finds limits" in statement.text


def test_a_closed_loop_asks_for_throughput(tmp_path: Path) -> None:
    trials = [
        trial(block, factors, achieved_per_s=per_s + block, offered_per_s=None)
        for block in range(1, 8)
        for factors, per_s in ((ONE, 10_000), (TWO, 30_000))
    ]
    text = text_of(answer_of(run_of(tmp_path, trials)), "best")
    assert text.startswith("Throughput is highest with “compression lz4”: 30,004/s, and 10,004/s with")
    assert "in trials of the same block 3× as high (95 % interval 3 to 3×)" in text


def test_trials_at_once_are_asked_for_their_cpu(tmp_path: Path) -> None:
    trials = [item.model_copy(update={"at_once": AtOnce(processor=1, trials=[])}) for item in trials_of(6, 1.0, 1.0)]
    assert text_of(answer_of(run_of(tmp_path, trials)), "best").startswith("Broker CPU per GiB")


def test_cells_are_compared_at_the_highest_load_that_two_carried(tmp_path: Path) -> None:
    trials = []
    for block in range(1, 8):
        for rate, codecs in ((10_000, ("none", "lz4")), (20_000, ("none", "lz4")), (40_000, ("none",))):
            for codec in codecs:
                p99_ns = rate * (300 if codec == "lz4" else 100) + block
                factors: dict[str, Scalar] = {"load.rate": rate, AXIS: codec}
                trials.append(trial(block, factors, p99_ns=p99_ns, offered_per_s=rate, achieved_per_s=rate))
    axes: dict[str, list[Scalar]] = {"load.rate": [10_000, 20_000, 40_000], AXIS: ["none", "lz4"]}
    text = text_of(answer_of(run_of(tmp_path, trials, axes=axes)), "best")
    assert text.startswith(
        "At rate 20,000, the highest load that two cells carried: Produce latency p99 is lowest with "
        "“compression none”: 2 ms, and 6 ms with “compression lz4”"
    )


def test_one_cell_has_its_figure_with_its_interval(tmp_path: Path) -> None:
    trials = [trial(block, ONE, p99_ns=4_000_000 + 100_000 * block) for block in range(1, 8)]
    text = text_of(answer_of(run_of(tmp_path, trials)), "best")
    assert text.startswith("Produce latency p99 is 4.4 ms, 95 % interval 4.1 to 4.7 ms (7 trials)")
    few = answer_of(run_of(tmp_path / "few", trials[:2]))
    assert text_of(few, "best") == "Produce latency p99 is 4.15 ms (2 trials; an interval needs 5)."
    assert "--trials 5" in few.next_step


def test_without_a_valid_trial_there_is_no_figure(tmp_path: Path) -> None:
    answer = answer_of(run_of(tmp_path, [trial(1, ONE, reason=LATE), trial(1, TWO, reason=LATE)]))
    assert text_of(answer, "best") == "No figure can be used: none of 2 trials is a valid measurement."
    assert answer.next_step == f"Mend what made the trials invalid: {LATE.text}"


# --- objectives and aims ----------------------------------------------------------------------------------------------


def held(item: TrialSummary, met: bool) -> TrialSummary:
    value = item.produce.response_ns.p99
    objectives = [
        SloResult(metric="produce.p99", bound="<8ms", value=value, met=met),
        SloResult(metric="errors", bound="==0", value=0, met=True),
    ]
    return item.model_copy(update={"slo": objectives})


def test_missed_objectives_name_cells_and_the_worst_trial(tmp_path: Path) -> None:
    trials = [held(trial(block, ONE), True) for block in (1, 2)]
    trials += [held(trial(block, TWO, p99_ns=block * 5_000_000), block == 1) for block in (1, 2)]
    answer = answer_of(run_of(tmp_path, trials, slo={"produce.p99": "<8ms", "errors": "==0"}))
    missed, kept = of_kind(answer, "objective")
    assert missed.text == (
        "Objective missed: Produce latency p99 < 8 ms, by “compression lz4” in 1 of 2 trials (worst 10 ms); "
        "met by 1 other cell."
    )
    assert (kept.text, kept.state) == ("Objective met in every trial: Failed records = 0.", "good")
    assert [item.text.split(" ")[0] for item in of_kind(answer, "best")] == ["Produce"]


def test_aims_are_answered_by_their_ratio(tmp_path: Path) -> None:
    trials = [
        trial(block, {"variant": variant}, p99_ns=p99_ns + block)
        for block in range(1, 7)
        for variant, p99_ns in (("a", 2_000_000), ("b", 4_000_000))
    ]
    aims = [{"of": "a", "beside": ["b"], "ratio": {"produce.p99": "<=0.7"}}]
    answer = answer_of(run_of(tmp_path, trials, aims=aims))
    (aim,) = of_kind(answer, "aim")
    assert aim.state == "good"
    assert aim.text == (
        "Aim reached: Produce latency p99 of “variant a” beside “variant b” is 0.5× (95 % interval 0.5 to 0.5×); "
        "≤ 0.7 is aimed at."
    )
    assert of_kind(answer, "best") == []
