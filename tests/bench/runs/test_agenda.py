from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.bench.runs.agenda import BlockAgenda, Skipped, TrialOutcome, decided_by
from highwater.bench.trials.plan import Plan, PlannedTrial, make_plan
from highwater.bench.workload.sections import StopWhen
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.results.models import TrialSummary
from tests.bench.fakes import MINIMAL
from tests.bench.summaries import LATE, summary

FILE = MINIMAL.replace("n: 2", "n: 8") + "matrix: {producers.client.acks: [1, all]}\n"


def plan_of(text: str = FILE) -> Plan:
    return make_plan(specify(parse_document(text, "w.yaml"), Path("w.yaml")))


def follow(agenda: BlockAgenda, outcomes: list[TrialOutcome]) -> list[PlannedTrial | Skipped]:
    """Every trial ends as soon as it is begun."""
    steps: list[PlannedTrial | Skipped] = []
    while (step := agenda.next(outcomes)) is not None:
        if isinstance(step, Skipped):
            outcomes.append(TrialOutcome(step.planned.plan, None))
            steps.append(step)
            continue
        outcomes += [TrialOutcome(trial.plan, summary(trial.plan.block, dict(trial.plan.factors))) for trial in step]
        steps += step
    return steps


def test_all_trials_in_the_order_of_the_plan() -> None:
    plan = plan_of()
    assert follow(BlockAgenda(plan), []) == plan.trials


def test_trials_that_have_ended_do_not_come_again() -> None:
    plan = plan_of()
    ended = [TrialOutcome(trial.plan, None) for trial in plan.trials[:5]]
    assert follow(BlockAgenda(plan), ended) == plan.trials[5:]


def test_a_finished_cell_gets_no_more_trials_from_the_next_block_on() -> None:
    asked: list[int] = []

    def finished(summaries: Sequence[TrialSummary]) -> Mapping[str, str]:
        asked.append(len(summaries))
        return {"acks=1": "known"} if len(summaries) >= 6 else {}

    plan = plan_of()
    steps = follow(BlockAgenda(plan, finished), [])
    skipped = [step.planned.plan for step in steps if isinstance(step, Skipped)]
    assert [(plan.block, plan.cell) for plan in skipped] == [(block, "acks=1") for block in range(4, 9)]
    assert len(steps) == 16
    assert asked == [2, 4, 6, 7, 8, 9, 10]  # once a block, with the trials of whole blocks


def test_a_narrow_interval_decides_a_cell() -> None:
    stop_when = StopWhen.model_validate({"ci_halfwidth": "2%", "of": "produce.p99", "min": 5})
    decide = decided_by(stop_when, seed=1)
    narrow = [summary(block, {"acks": "1"}, p99_ns=1000 + block) for block in range(1, 6)]
    wide = [summary(block, {"acks": "all"}, p99_ns=1000 * block) for block in range(1, 6)]
    reasons = decide([*narrow, *wide])
    assert list(reasons) == ["acks=1"]
    assert reasons["acks=1"] == "decided: produce.p99 is known to ±0.199 % after 5 trials (trials.stop_when: ±2 %)"
    assert decide(narrow[:4]) == {}
    assert decide([summary(block, {"acks": "1"}, reason=LATE) for block in range(1, 9)]) == {}
    assert decide([summary(block, {"acks": "1"}, role="a_a") for block in range(1, 9)]) == {}


def test_the_trials_of_a_block_come_at_once_but_for_those_that_have_ended() -> None:
    plan = plan_of(FILE.replace("n: 8", "n: 2, at_once: true"))
    agenda = BlockAgenda(plan)
    assert agenda.next([]) == plan.trials[:2]
    assert agenda.next([TrialOutcome(trial.plan, None) for trial in plan.trials[:2]]) == plan.trials[2:]
    assert agenda.next([TrialOutcome(plan.trials[0].plan, None)]) == [plan.trials[1]]
    assert agenda.next([TrialOutcome(trial.plan, None) for trial in plan.trials]) is None


def test_a_finished_cell_is_not_among_those_of_a_block_either() -> None:
    plan = plan_of(FILE.replace("n: 8", "n: 3, at_once: true"))
    steps = follow(BlockAgenda(plan, lambda _: {"acks=1": "known"}), [])
    assert [step.plan.cell for step in steps[2:] if isinstance(step, PlannedTrial)] == ["acks=all"] * 2
