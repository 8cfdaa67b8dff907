"""The answer of a run to its workload's question: what was lost, what is best, what decides the rest. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from highwater.common.units import plural
from highwater.results.analysis.aims import outcomes
from highwater.results.analysis.best import Best, Figures, best_cell
from highwater.results.analysis.causes import causes
from highwater.results.analysis.delivered import delivery_statement
from highwater.results.analysis.gathering import evidence_of
from highwater.results.analysis.objectives import aim_statements, objective_statements
from highwater.results.analysis.searched import gate_statement, search_statement, search_step
from highwater.results.analysis.statement import Answer, Statement, StatementKind
from highwater.results.metrics import COUNTS_OF_FATES, METRICS
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult

__all__ = ["Answer", "Statement", "StatementKind", "answer_of", "asked_metrics"]

# The kinds whose figures are in doubt when trials were disturbed.
_OF_FIGURES: Final = ("best", "objective", "aim")
# Options of `bench run` that a command to go on, or for more trials, sets itself or does without.
_WITH_VALUE: Final = ("--out", "--resume")
_WITHOUT_VALUE: Final = ("--quiet", "--json", "--dry-run", "--retry-invalid")


def answer_of(result: RunResult) -> Answer:
    """Raises ResultDirectoryError when search.json or gate.json is damaged."""
    question = result.manifest.workload.get("answer") or {}
    figures = Figures(result)
    summaries = [trial.summary for trial in result.trials]
    delivery = delivery_statement(summaries, _planned(result.manifest), figures.labels)
    delivery = _with_replaced(delivery, result.manifest)
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
    return Answer(statements, _next_step(result, bests, summaries), evidence_of(result, figures, bests[:1]))


def _with_replaced(delivery: Statement, manifest: Manifest) -> Statement:
    """The statement, with faults of the system in trials that were measured again: a retry takes none back."""
    texts = [
        f"Before trial {trial.trial_id} was measured again: {'; '.join(before.reasons)}."
        for trial in manifest.trials
        for before in trial.replaced
        if before.system_at_fault
    ]
    return replace(delivery, text=" ".join([delivery.text, *texts]), state="bad") if texts else delivery


def asked_metrics(figures: Figures) -> list[str]:
    """The metrics that the answer names the best cell of; none for a gate and for a search."""
    result = figures.result
    if result.gate() is not None or result.search() is not None:
        return []
    best = (result.manifest.workload.get("answer") or {}).get("best") or []
    # A result of a newer version may ask for what this one does not know.
    known = [name for name in ([best] if isinstance(best, str) else best) if name in METRICS]
    return known or _default_metrics(result.manifest.workload, figures)


def _planned(manifest: Manifest) -> int:
    return sum(trial.status != "skipped" for trial in manifest.trials)


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


def _next_step(result: RunResult, bests: Sequence[Best], summaries: Sequence[TrialSummary]) -> str:
    return next(_steps(result, bests, summaries), "")


def _steps(result: RunResult, bests: Sequence[Best], summaries: Sequence[TrialSummary]) -> Iterator[str]:
    """What to do, the most urgent first."""
    manifest = result.manifest
    directory = str(result.directory)
    if manifest.status in ("interrupted", "failed") and result.gate() is None:
        verb, arguments = _begun_by(manifest)
        yield f"Resume the run: {shlex.join(['highwater', 'bench', verb, *arguments, '--resume', directory])}"
    for trial in summaries:
        if any(reason.check.startswith("delivery.") for reason in trial.verdict.reasons):
            yield f"Read what the broker printed: {directory}/trials/{trial.trial_id}/system.log"
    if (search := result.search()) is not None and (step := search_step(search)):
        yield step
    if result.gate() is not None or search is not None:
        return
    if summaries and all(trial.verdict.state == "invalid" for trial in summaries):
        reasons = Counter(trial.verdict.reasons[0].check for trial in summaries if trial.verdict.reasons)
        check = reasons.most_common(1)[0][0] if reasons else ""
        texts = [r.text for trial in summaries for r in trial.verdict.reasons if r.check == check]
        yield f"Mend what made the trials invalid: {texts[0]}" if texts else "Read the verdicts of the trials."
    is_open = [best for best in bests if best.trials or best.in_vain]
    measured = [trial for trial in summaries if trial.role == "measure"]
    invalid = sum(trial.verdict.state == "invalid" for trial in measured)
    disturbed = sum(_was_disturbed(trial) for trial in measured)
    quiet = f"stop other work on this host ({disturbed} of {plural(len(measured), 'trial')} were disturbed)"
    trials = max((best.trials or 0 for best in is_open), default=0)
    planned = max(Counter(trial.cell for trial in manifest.trials if trial.role == "measure").values(), default=0)
    if trials and trials <= planned and invalid:
        # Enough trials were planned: what spoiled them has to go, or more would be spoiled as well.
        why = next(iter(_causes_of_invalidity(measured)), "no reason was recorded")
        spoiled = f"{invalid} of {plural(len(measured), 'trial')} are invalid ({why})"
        yield f"Mend what spoiled trials, and run again: {spoiled}: {_command_for(manifest, None, directory)}"
    if trials:
        command = _command_for(manifest, max(trials, planned + 1), directory)
        first = f"{quiet[:1].upper()}{quiet[1:]}, and then run" if disturbed else "Run"
        yield f"{first} about {max(trials, planned + 1)} trials of each cell (an estimate): {command}"
    if is_open and disturbed:
        yield f"{quiet[:1].upper()}{quiet[1:]}: at this noise, {is_open[0].in_vain}."
    elif is_open:
        yield f"More trials will hardly decide it: {is_open[0].in_vain}. Take the cells as equal in it."
    if disturbed and 2 * disturbed > len(measured):
        yield f"{quiet[:1].upper()}{quiet[1:]} and run again: {_command_for(manifest, None, directory)}"


def _was_disturbed(trial: TrialSummary) -> bool:
    """Whether other work on the host is a cause for which the trial is not valid."""
    by_the_host = any(reason.check.startswith(("host.", "canary.")) for reason in trial.verdict.reasons)
    return trial.verdict.state == "inconclusive" or by_the_host


def _causes_of_invalidity(trials: Sequence[TrialSummary]) -> list[str]:
    """The most frequent first, by the first reason of each invalid trial: later ones may be mere doubts."""
    verdicts = [trial.verdict for trial in trials if trial.verdict.state == "invalid"]
    first = [verdict.model_copy(update={"reasons": verdict.reasons[:1]}) for verdict in verdicts]
    return [cause.text for cause in causes(first)]


def _command_for(manifest: Manifest, trials: int | None, directory: str) -> str:
    """The command of the run with other trials and another directory, to paste."""
    more = ["--trials", str(trials)] if trials else []
    _, arguments = _begun_by(manifest, "--trials")
    return shlex.join(["highwater", "bench", "run", *arguments, *more, "--out", f"{directory}-2"])


def _begun_by(manifest: Manifest, *without: str) -> tuple[str, list[str]]:
    """The verb that began the run, and its arguments without the directory and what changes the output alone.

    without: other options, with a value, to leave out.
    """
    argv = manifest.argv
    if argv[1:2] != ["bench"] or argv[2:3] not in (["run"], ["search"]):
        return "run", [manifest.workload_file]
    with_value = (*_WITH_VALUE, *without)
    arguments, skip = [], False
    for argument in argv[3:]:
        if skip or argument in _WITHOUT_VALUE or argument.partition("=")[0] in with_value:
            skip = not skip and argument in with_value
            continue
        arguments.append(argument)
    return argv[2], arguments
