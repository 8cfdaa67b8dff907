"""What a search says of its trials: no rate is confirmed by trials that are not valid."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from highwater.results.analysis.searched import search_statement, search_step
from highwater.results.analysis_file import Search, SearchProbe
from highwater.results.models import Reason, Verdict

BUSY = Reason(check="host.cpu_ratio", value=0.98, limit=0.95, text="the host's CPUs were 98 % busy")
RATE = "8,000/s with produce latency p99 < 10 ms"
VALID, DOUBTFUL = Verdict(state="valid", reasons=[]), Verdict(state="inconclusive", reasons=[BUSY])
LATE = "the load generator was late by 12 ms at p99, more than the objective of 10 ms: it is the limit, not the system"


def search(verdicts: Sequence[Verdict | None], **changed: object) -> Search:
    """8,000/s is sustained and 8,250/s is not; `verdicts` are those of the fresh trials at 8,000/s."""
    fresh = [
        SearchProbe(
            trial_id=f"{n}", stage="confirm", rate_per_s=8000, passed=True, limit=None, text=None, verdict=verdict
        )
        for n, verdict in enumerate(verdicts)
    ]
    text = "produce.p99 was 25 ms, <10ms is asked for"
    failed = SearchProbe(
        trial_id="x", stage="bisect", rate_per_s=8250, passed=False, limit="produce.p99", text=text, verdict=VALID
    )
    found = Search(
        status="answered",
        slo={"produce.p99": "<10ms"},
        min_per_s=1000,
        max_per_s=None,
        precision_ratio=0.03,
        last_passing_per_s=8000,
        first_failing_per_s=8250,
        limit="produce.p99",
        text=text,
        generator_limited=False,
        confirmed=len(verdicts),
        confirmations=len(verdicts),
        probes=[failed, *fresh],
    )
    return found.model_copy(update=changed)


@pytest.mark.parametrize(
    ("verdicts", "text", "state"),
    [
        ([VALID] * 3, f"{RATE} is sustained, confirmed by 3 of 3 fresh trials", "good"),
        (
            [VALID, DOUBTFUL, DOUBTFUL],
            f"{RATE} was sustained in 3 of 3 fresh trials, 2 of them inconclusive (host CPU above 95 %): not confirmed",
            "open",
        ),
        (
            [],
            f"{RATE} was sustained in the search alone, as no fresh trial was requested (--confirm): not confirmed",
            "open",
        ),
        ([None, None], f"{RATE} is sustained, confirmed by 2 of 2 fresh trials", "good"),
    ],
)
def test_what_the_fresh_trials_are_worth(verdicts: list[Verdict | None], text: str, state: str) -> None:
    found = search_statement(search(verdicts))
    assert found.text == f"{text}; 8,250/s failed: produce.p99 was 25 ms, <10ms is asked for."
    assert found.state == state


def test_a_failure_is_no_surer_than_its_trial() -> None:
    found = search([DOUBTFUL])
    failed = found.probes[0].model_copy(update={"verdict": DOUBTFUL})
    text = search_statement(found.model_copy(update={"probes": [failed, *found.probes[1:]]})).text
    assert text == (
        f"{RATE} was sustained in 1 of 1 fresh trial, all of them inconclusive (host CPU above 95 %): not confirmed; "
        "8,250/s failed: produce.p99 was 25 ms, <10ms is asked for, in a trial that is inconclusive "
        "(host CPU above 95 %)."
    )


def test_the_trial_in_doubt_is_that_of_the_rate_that_failed() -> None:
    found = search([VALID])
    spoiled = Verdict(state="invalid", reasons=[Reason(check="host.cpu_ratio", value=1, limit=0.95, text="full")])
    failed = found.probes[0].model_copy(update={"verdict": spoiled})
    passed = failed.model_copy(update={"stage": "ramp", "passed": True, "limit": None, "text": None})
    lower = failed.model_copy(update={"rate_per_s": 7000, "verdict": VALID})
    found = found.model_copy(update={"probes": [passed, failed, lower, *found.probes[1:]]})
    assert search_statement(found).text.endswith(
        "; 8,250/s failed in 1 of 2 trials: produce.p99 was 25 ms, <10ms is asked for, in a trial that is invalid "
        "(host CPU above 95 %)."
    )


def test_a_late_generator_is_named_once_as_the_limit() -> None:
    late = search([VALID], limit="generator.send_delay_p99_ns", text=LATE, generator_limited=True)
    found = search_statement(late)
    assert found.text == f"{RATE} is sustained, confirmed by 1 of 1 fresh trial; 8,250/s failed: {LATE}."
    assert found.state == "open"


def test_what_to_do_next() -> None:
    assert search_step(search([VALID])) == ""
    assert "cores of its own" in search_step(search([DOUBTFUL]))
    assert "--confirm 3" in search_step(search([]))
    assert "more producers" in search_step(search([VALID], generator_limited=True))
    assert search_step(search([DOUBTFUL], status="interrupted")) == ""
