from __future__ import annotations

from pathlib import Path

from highwater.bench.runs.search import SearchRange
from highwater.bench.runs.searching import search_plan
from highwater.bench.trials.plan import make_plan
from highwater.bench.trials.progress import Outcomes, headline
from highwater.bench.workload.specification import specify
from highwater.bench.workload.yaml_document import parse_document
from highwater.results.models import Reason, TrialPlan
from tests.bench.fakes import MINIMAL
from tests.bench.summaries import summary

WHY = "broker, generator and other work waited for each other; stop other work, or lower load.rate"
TRIAL = TrialPlan(trial_id="1", cell="base", factors={}, trial=1, block=1, order_in_block=1, status="done")


def reasons_told(outcomes: Outcomes, reason: Reason) -> list[str]:
    return outcomes.of(TRIAL, summary(1, reason=reason))[1:]


def test_a_reason_is_explained_once_in_a_run() -> None:
    outcomes = Outcomes()
    first = Reason(check="host.cpu", value=0.97, limit=0.95, text=f"the CPUs were 97 % busy (limit 95 %): {WHY}")
    second = Reason(check="host.cpu", value=1.0, limit=0.95, text=f"the CPUs were 100 % busy (limit 95 %): {WHY}")
    other = Reason(check="send_delay", value=7, limit=5, text="records left late: p99 7 ms (limit 5 ms); use more")
    assert reasons_told(outcomes, first) == [first.text]
    assert reasons_told(outcomes, second) == ["the CPUs were 100 % busy (limit 95 %)"]
    assert reasons_told(outcomes, other) == [other.text]
    assert reasons_told(outcomes, other) == ["records left late: p99 7 ms (limit 5 ms)"]


def test_the_first_line_counts_the_trials_that_a_search_may_need() -> None:
    specification = specify(parse_document(MINIMAL, "w.yaml"), Path("w.yaml"))
    assert ": 1 cell × 2 trials on " in headline(make_plan(specification, 1), "local[2]")
    plan = search_plan(specification, SearchRange(1000, None, 0.03, 3), 1)
    assert f": about {len(plan.trials)} trials on " in headline(plan, "local[2]")
