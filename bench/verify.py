"""Does a result directory hold what it says? Percentiles are recomputed, counts are added up again."""

from __future__ import annotations

from collections.abc import Iterator

from bench.results import Latency, Metric, ResultDirectoryError, RunResult, TrialResult, measured_latency


def disagreements(result: RunResult) -> Iterator[str]:
    """One line for everything that contradicts itself."""
    for planned in result.manifest.trials:
        finished = any(trial.summary.trial_id == planned.trial_id for trial in result.trials)
        if (planned.status == "done") != finished:
            yield f"{planned.trial_id}: the manifest says {planned.status}, and summary.json is {_there(finished)}"
    for trial in result.trials:
        yield from _latencies(trial)
        yield from _counts(trial)


def _there(is_there: bool) -> str:
    return "there" if is_there else "missing"


def _latencies(trial: TrialResult) -> Iterator[str]:
    summary = trial.summary
    stored: dict[Metric, Latency] = {
        "produce_response": summary.produce.response_ns,
        "produce_service": summary.produce.service_ns,
        "send_delay": summary.produce.send_delay_ns,
    }
    if summary.e2e:
        stored["e2e_response"] = summary.e2e.response_ns
    for metric, latency in stored.items():
        try:
            computed = measured_latency(trial.directory, metric, summary.phases)
        except (OSError, ValueError, TypeError) as error:
            yield f"{summary.trial_id}: {metric}: the histogram log cannot be read: {error}"
            continue
        if computed != latency:
            wrong = [name for name in Latency.model_fields if getattr(computed, name) != getattr(latency, name)]
            values = ", ".join(f"{name} {getattr(latency, name)} is {getattr(computed, name)}" for name in wrong)
            yield f"{summary.trial_id}: {metric}: summary and histogram log disagree: {values}"


def _counts(trial: TrialResult) -> Iterator[str]:
    summary, delivery = trial.summary, trial.summary.delivery
    try:
        windows = trial.windows()
    except ResultDirectoryError as error:
        yield f"{summary.trial_id}: {error}"
        return
    for name in ("sent", "acked", "failed", "received"):
        total, stored = sum(getattr(window, name) for window in windows), getattr(delivery, name)
        if total != stored:
            yield f"{summary.trial_id}: {name}: windows add up to {total}, the summary says {stored}"
    measure = next(phase for phase in summary.phases if phase.name == "measure")
    measured = [window for window in windows if window.phase == "measure"]
    seconds = measure.end_s - measure.start_s
    for name, stored_rate in (("offered", summary.offered_per_s), ("acked", summary.achieved_per_s)):
        rate = sum(getattr(window, name) for window in measured) / seconds
        if abs(rate - stored_rate) > 1e-6 * max(1.0, rate):
            yield f"{summary.trial_id}: {name} per second: windows give {rate}, the summary says {stored_rate}"
