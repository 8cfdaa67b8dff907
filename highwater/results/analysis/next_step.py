"""What to do next, and why: after a run, a search, a gate and a comparison. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from highwater.common.units import change_text, count_text, percent_text, plural
from highwater.results.analysis.best import MOST_TRIALS, Best, trials_to_decide
from highwater.results.analysis.causes import causes
from highwater.results.analysis.comparison_answer import is_zero_on_both
from highwater.results.analysis.searched import search_step
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL
from highwater.results.analysis_file import Search
from highwater.results.gate import Gate, MetricComparison, ResultComparison
from highwater.results.models import Manifest, TrialSummary
from highwater.results.reader import RunResult

# Options of `bench run` that a command to go on, or for more trials, sets itself or does without.
_WITH_VALUE: Final = ("--out", "--resume")
_WITHOUT_VALUE: Final = ("--quiet", "--json", "--dry-run", "--retry-invalid")
# Options of `bench search` alone.
_OF_A_SEARCH: Final = ("--min", "--max", "--precision", "--confirm", "--slo", "--cell")


def next_step(result: RunResult, bests: Sequence[Best], summaries: Sequence[TrialSummary]) -> str:
    return next(_steps(result, bests, summaries), "")


def _steps(result: RunResult, bests: Sequence[Best], summaries: Sequence[TrialSummary]) -> Iterator[str]:
    """What to do, the most urgent first."""
    manifest = result.manifest
    directory = str(result.directory)
    is_incomplete = manifest.status in ("interrupted", "failed") or result.was_killed
    if is_incomplete and result.gate() is None:
        yield f"Resume the run: {resume_command(manifest, directory)}"
    for trial in summaries:
        if any(reason.check.startswith("delivery.") for reason in trial.verdict.reasons):
            yield f"Read what the broker printed: {directory}/trials/{trial.trial_id}/system.log"
    if (search := result.search()) is not None and (step := search_step(search)):
        yield step
    if (gate := result.gate()) is not None:
        yield gate_step(gate)
        return
    if search is not None:
        if search.last_passing_per_s is not None:
            yield _measure_at(search, search.last_passing_per_s, manifest, directory)
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
    if bests and len(bests[0].cells) == 1 and bests[0].statement.state == "open":
        yield (
            f"Stop other work on this host and run {4 * planned} trials, because the interval is wide, and four times "
            f"as many about halve it: {_command_for(manifest, 4 * planned, directory)}"
        )
    if len({trial.cell for trial in measured}) == 1:
        yield (
            f"There is nothing to compare this one cell with: list several values of a key under `matrix` in "
            f"{manifest.workload_file}, or compare with another run: highwater report BASE {shlex.quote(directory)}"
        )
    if bests and bests[0].statement.state == "good":
        report = f"highwater report {shlex.quote(directory)}"
        yield f"See what the best one costs in the other metrics before you take it: {report}"


def resume_command(manifest: Manifest, directory: str) -> str:
    """The command that continues a run, to paste."""
    verb, arguments = _begun_by(manifest)
    return shlex.join(["highwater", "bench", verb, *arguments, "--resume", directory])


def _measure_at(search: Search, rate_per_s: int, manifest: Manifest, directory: str) -> str:
    """A search has few trials at its answer, and its bracket a width."""
    trials = max(LEAST_FOR_INTERVAL, search.confirmations)
    text = f"Measure {trials} trials at this rate, because an interval needs {LEAST_FOR_INTERVAL}"
    if search.first_failing_per_s is not None:
        width = percent_text(search.first_failing_per_s / rate_per_s - 1)
        text += f" (the limit itself is known to {width}; a smaller --precision of a search narrows it)"
    _, arguments = _begun_by(manifest, *_OF_A_SEARCH, "--rate", "--trials")
    if any(argument.partition("=")[0] == "--cell" for argument in manifest.argv):
        return f"{text}."
    options = ["--rate", str(rate_per_s), "--trials", str(trials), "--out", f"{directory}-2"]
    return f"{text}: {shlex.join(['highwater', 'bench', 'run', *arguments, *options])}"


def gate_step(gate: Gate) -> str:
    """What a person does about the gate's verdict; empty if head may pass, as then there is nothing to do."""
    metrics = gate.rounds[0].metrics if gate.rounds else []
    worse = [item.metric for item in metrics if item.gated and item.verdict == "worse"]
    open_ = [item.metric for item in metrics if item.gated and item.verdict == "undecided"]
    more = "repeat with more pairs (pairs.min and pairs.max of the policy)"
    if gate.state == "regression" and worse:
        doubt = f"if a trial stands out, {more}"
        if not gate.interleaved:
            doubt = "then measure both in turns, because the host may have changed between two runs"
        return f"Look at {worse[0]} in the report, because head is worse in it; {doubt}."
    if gate.state == "inconclusive":
        why = f"{open_[0]} is not decided" if open_ else "the pairs do not decide"
        return f"{more[:1].upper()}{more[1:]}, because {why}."
    if gate.state == "environment_mismatch":
        return "Measure both on the same host, because figures of two environments cannot be compared."
    return ""


def comparison_step(comparison: ResultComparison) -> str:
    """What to do about lost records or a difference that is shown, or what shows one that is open."""
    if comparison.is_broken:
        sides = (comparison.base, comparison.head)
        broken = [f"{side.directory}/trials" for side in sides if side.delivery is not None and side.delivery.is_broken]
        logs = " and ".join(dict.fromkeys(broken))
        is_heads = comparison.head.delivery is not None and comparison.head.delivery.is_broken
        first = "Do not ship head, and read" if is_heads else "Read"
        return f"{first} what the broker printed (system.log in {logs}), because lost records outweigh any speed."
    metrics = comparison.answered
    changed = [item for item in metrics if item.verdict in ("worse", "better", "differs")]
    if not (comparison.same_environment and comparison.same_load):
        what = "load" if comparison.same_environment else "environment"
        return f"Measure both again with the same {what}, because what differs may be its effect."
    if changed:
        first = min(changed, key=lambda item: item.verdict != "worse").metric
        if comparison.paired:
            return f"Look at the trials of {first} in the report, because it changed."
        return f"Measure both in one run, in turns, because the host may have caused the change of {first}."
    needed = {item.metric: _trials_of_a_side(item, len(metrics)) for item in metrics}
    known = {metric: trials for metric, trials in needed.items() if trials is not None}
    if not known:
        return ""
    return _more_trials(min((item for item in metrics if known.get(item.metric)), key=lambda i: known[i.metric]), known)


def _more_trials(item: MetricComparison, known: dict[str, int]) -> str:
    trials = known[item.metric]
    if trials > MOST_TRIALS:
        about = count_text(float(f"{trials:.1g}"))
        instead = (
            "Take the two as equal in it."
            if item.paired
            else "Measure both in turns in one run instead, because the drift of the host then counts less."
        )
        return (
            f"More trials alone will hardly show a difference: {item.metric} would take about {about} trials of each "
            f"side (an estimate). {instead}"
        )
    text = f"Run both again with about {trials} trials of each cell (--trials {trials}, an estimate), because "
    if item.ci95 is None or item.ratio is None:
        return f"{text}{plural(item.n_pairs, 'trial')} are too few for an interval."
    return f"{text}they would show the {change_text(item.ratio)} of {item.metric}, if it is real."


def _trials_of_a_side(item: MetricComparison, comparisons: int) -> int | None:
    if is_zero_on_both(item):
        return None
    return trials_to_decide(item, comparisons)


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
