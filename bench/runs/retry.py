"""Which trials `run --resume --retry-invalid` measures again, and what stays on record of them.

Pure. Invalid trials and failed ones were never used in a figure, so measuring them again selects nothing by outcome. An
inconclusive trial is used, so it stays: measuring it again until it looks better would be such a selection. What a
retried trial showed stays on record, and if the system itself failed in it, that still decides the exit status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from highwater.bench.runs.agenda import TrialOutcome
from highwater.bench.trials.verdict import target_at_fault
from highwater.results.files import REPLACED
from highwater.results.models import ReplacedTrial


def retried(outcomes: Sequence[TrialOutcome], now_utc: str, *, at_once: bool) -> Mapping[str, ReplacedTrial]:
    """The record of each trial to measure again, by trial id.

    at_once: trials of a block ran beside one another, so the whole block is measured again.
    """
    spoiled = {outcome.plan.trial_id: outcome for outcome in outcomes if _is_spoiled(outcome)}
    blocks = {outcome.plan.block for outcome in spoiled.values()} if at_once else set()
    return {
        outcome.plan.trial_id: _record(outcome, now_utc, in_vain=outcome.plan.trial_id in spoiled)
        for outcome in outcomes
        if outcome.plan.trial_id in spoiled or outcome.plan.block in blocks
    }


def _is_spoiled(outcome: TrialOutcome) -> bool:
    if outcome.summary is None:
        return outcome.plan.status == "failed"
    return outcome.summary.verdict.state == "invalid"


def _record(outcome: TrialOutcome, now_utc: str, *, in_vain: bool) -> ReplacedTrial:
    plan, summary = outcome.plan, outcome.summary
    reasons = summary.verdict.reasons if summary is not None else []
    texts = [reason.text for reason in reasons] if summary is not None else [plan.error or "no reason was recorded"]
    failed = summary is None and not plan.generator_failed
    return ReplacedTrial(
        kept_in=f"{REPLACED}/{plan.trial_id}.{len(plan.replaced) + 1}",
        replaced_utc=now_utc,
        state="failed" if summary is None else summary.verdict.state,
        reasons=texts if in_vain else ["a trial of its block was measured again, and all of them run at once"],
        system_at_fault=failed or (in_vain and any(map(target_at_fault, reasons))),
    )
