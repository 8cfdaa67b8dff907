"""The answer of a run to its workload's question: what was lost, what is best, what decides the rest. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from highwater.common.units import plural
from highwater.results.analysis.aims import outcomes
from highwater.results.analysis.best import Best, Figures, best_cell
from highwater.results.analysis.delivered import delivery_of
from highwater.results.analysis.gathering import evidence_of
from highwater.results.analysis.next_step import next_step
from highwater.results.analysis.objectives import aim_statements, objective_statements
from highwater.results.analysis.searched import gate_statement, search_statement
from highwater.results.analysis.statement import Answer, Statement
from highwater.results.metrics import COUNTS_OF_FATES, METRICS
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult
from highwater.results.rebalance import KINDS

_REBALANCES: Final = tuple(f"rebalance.{kind}.all_read_s" for kind in KINDS)


def answer_of(result: RunResult) -> Answer:
    """Raises ResultDirectoryError when search.json or gate.json is damaged."""
    question = result.manifest.workload.get("answer") or {}
    figures = Figures(result)
    summaries = [trial.summary for trial in result.trials]
    delivery = delivery_of(result, figures.labels)
    statements = [delivery] if question.get("lost", True) or delivery.state == "bad" else []
    bests: list[Best] = []
    if (gate := result.gate()) is not None:
        statements.append(gate_statement(gate))
    elif (search := result.search()) is not None:
        statements.append(search_statement(search))
    elif not any(figures.trials.values()):
        statements += _nothing_usable(summaries)
    else:
        bests = [best_cell(figures, metric) for metric in asked_metrics(figures)]
        statements += _in_doubt(
            [
                *(best.statement for best in bests),
                *objective_statements(figures.trials, figures.labels),
                *aim_statements(outcomes(result), figures.labels),
            ],
            result.manifest,
            [trial for trials in figures.trials.values() for trial in trials],
        )
    return Answer(statements, next_step(result, bests, summaries), evidence_of(result, figures, bests[:1]))


def asked_metrics(figures: Figures) -> list[str]:
    """The metrics that the answer names the best cell of; none for a gate and for a search."""
    result = figures.result
    if result.gate() is not None or result.search() is not None:
        return []
    best = (result.manifest.workload.get("answer") or {}).get("best") or []
    # A result of a newer version may ask for what this one does not know.
    known = [name for name in ([best] if isinstance(best, str) else best) if name in METRICS]
    return known or _default_metrics(result.manifest.workload, figures)


def _default_metrics(workload: Mapping[str, Any], figures: Figures) -> list[str]:
    """The metrics of the objectives; without objectives and aims, the one that the load was made for."""
    objectives = [
        name
        for name in workload.get("slo", {})
        if name in METRICS and METRICS[name].better != "none" and not name.startswith(COUNTS_OF_FATES)
    ]
    if objectives or workload.get("aims"):
        return objectives
    trials = [trial for trials in figures.trials.values() for trial in trials]
    if any(trial.at_once for trial in trials):
        return ["system.cpu_s_per_gib"]
    if any(trial.recovery for trial in trials):
        return ["recovery.longest_wait_s"]
    if any(trial.rebalances for trial in trials):
        return [name for name in _REBALANCES if any(METRICS[name].read(trial) is not None for trial in trials)]
    if any(trial.backlog for trial in trials):
        return ["backlog.drain_bytes_per_s"]
    if any(trial.driver in ("rdkafka_performance", "wire_load") and not _timed(trial) for trial in trials):
        read = any(trial.generator.consumers for trial in trials)
        return ["consume.per_s" if read else "produce.achieved_per_s", "system.cpu_s_per_gib"]
    if workload.get("consumers", {}).get("start") == "after_load":
        return ["consume.per_s"]
    if all(trial.offered_per_s is None for trial in trials):
        return ["produce.achieved_per_s"]
    return ["produce.p99"]


def _timed(trial: TrialSummary) -> bool:
    return bool(trial.produce.response_ns.count)


def _nothing_usable(summaries: Sequence[TrialSummary]) -> list[Statement]:
    if not summaries:
        return []
    text = f"No figure can be used: none of {plural(len(summaries), 'trial')} is a valid measurement."
    return [Statement(text, "best", "bad")]


def _in_doubt(statements: Sequence[Statement], manifest: Manifest, trials: Sequence[TrialSummary]) -> list[Statement]:
    """The statements, the first about figures with a clause that says what the figures are worth.

    A decision that no undisturbed trial supports is no good news.
    """
    disturbed = sum(trial.verdict.state == "inconclusive" for trial in trials)
    emulated = any(trial.storage.emulated for trial in trials)
    doubts = [
        *(["on an emulated disk"] if emulated else []),
        *(["a smoke run, not to be quoted"] if not manifest.for_measurement else []),
        *([f"{disturbed} of {plural(len(trials), 'trial')} disturbed"] if disturbed else []),
    ]
    if not doubts or not statements:
        return list(statements)
    first, *others = statements
    text, clause = first.text.removesuffix("."), "; ".join(doubts)
    short = first.short or text
    if disturbed or not manifest.for_measurement:
        most = "every trial" if disturbed == len(trials) else "some trials" if disturbed else ""
        short += f" (in doubt: {f'{most} disturbed' if most else 'a smoke run'})"
    marked = replace(
        first, text=f"{text[:-1]}; {clause})." if text.endswith(")") else f"{text} ({clause}).", short=short
    )
    if disturbed == len(trials):
        return [replace(s, state="plain") if s.state == "good" else s for s in (marked, *others)]
    return [marked, *others]
