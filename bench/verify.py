"""Checks a result directory: whether it is unchanged, and whether its figures follow from its data.

It parses every file with its model and recomputes digests, percentiles (from the histogram logs), counts (from the
series), verdicts and the analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from highwater.bench.trials.evidence import judged_again
from highwater.bench.trials.recovery import FaultMark, recoveries
from highwater.bench.trials.summary import slo_results
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import recorded_workloads
from highwater.common import distribution
from highwater.results import checksums
from highwater.results.analysis.conclusions import analyse
from highwater.results.analysis_file import Analysis
from highwater.results.files import ResultDirectoryError, measured_latency, parse_file
from highwater.results.models import Latency, Metric, TrialPlan, TrialSummary, Verdict
from highwater.results.reader import RunResult, TrialResult
from highwater.results.recovery import FaultRecovery


def opened(directory: Path) -> tuple[RunResult, list[str]]:
    """A result directory without what is damaged in its first files, and a line for each of these.

    Raises ResultDirectoryError when its manifest cannot be read.
    """
    result = RunResult(directory, salvage=True)
    by_digest = set(checksums.disagreements(directory, ended=False))
    return result.strict(), [line for fault in result.faults() if (line := str(fault)) not in by_digest]


def disagreements(result: RunResult) -> Iterator[str]:
    """One line for every contradiction. Raises ResultDirectoryError when the directory cannot be read."""
    yield from checksums.disagreements(result.directory, ended=result.manifest.status == "done")
    yield from _unreadable(result.probes, result.search, result.gate)
    for planned in result.manifest.trials:
        yield from _replaced(result, planned)
        finished = any(trial.summary.trial_id == planned.trial_id for trial in result.trials)
        if (planned.status == "done") != finished:
            damaged = not finished and (result.directory / "trials" / planned.trial_id / "summary.json").is_file()
            state = "damaged" if damaged else _there(finished)
            yield f"{planned.trial_id}: the manifest says {planned.status}, and summary.json is {state}"
    judged_by = _judged_by(result)
    workloads = {} if isinstance(judged_by, str) else judged_by
    # The trials of a search or a calibration belong to no cell of their workload; they are judged by its only cell.
    alone = next(iter(workloads.values())) if len(workloads) == 1 else None
    for trial in result.trials:
        yield from _unreadable(trial.host_samples, trial.events)
        yield from _latencies(trial)
        yield from _counts(trial)
        yield from _partitions(trial)
        yield from _recovery(trial)
        yield from _verdict(trial, workloads.get(trial.summary.cell, alone))
    yield from _analysis(result)
    yield from _search(result)
    yield from _confirmations(result)


def not_judged_again(result: RunResult) -> list[str]:
    """Why some verdicts were not judged again; empty if all were."""
    if isinstance(judged_by := _judged_by(result), str):
        return [f"verdicts were not judged again: {judged_by}"]
    disturbed = sum(trial.summary.recovery is not None for trial in result.trials)
    why = "beside a fault some seconds alone are judged"
    return [f"{disturbed} verdicts were not judged again: {why}"] if disturbed else []


def _judged_by(result: RunResult) -> dict[str, Workload] | str:
    """The workload of each cell; or why the present rules do not apply to the run."""
    made_by, here = result.manifest.versions.get("highwater"), distribution.version()
    if made_by != here:
        return f"the run was made by highwater {made_by or 'of an unknown version'}, and this is {here}"
    return recorded_workloads(result.manifest.workload) or "the workload in its manifest is none by today's rules"


def _replaced(result: RunResult, planned: TrialPlan) -> Iterator[str]:
    """Check what is recorded of a trial that was measured again against the files that were kept of it."""
    for before in planned.replaced:
        summary = result.directory / before.kept_in / "summary.json"
        if not summary.parent.is_dir():
            yield f"{planned.trial_id}: was measured again, and {before.kept_in} is missing"
        elif summary.is_file() != (before.state != "failed"):
            yield f"{before.kept_in}: was {before.state}, and summary.json is {_there(summary.is_file())}"
        elif summary.is_file():
            try:
                state = parse_file(TrialSummary, summary).verdict.state
            except ResultDirectoryError as error:
                yield str(error)
                continue
            if state != before.state:
                yield f"{before.kept_in}: its summary says {state}, and the manifest {before.state}"


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
    if summary.transactions and summary.transactions.commit_ns:
        stored["txn_commit"] = summary.transactions.commit_ns
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
    if summary.driver in ("rdkafka_performance", "wire_load"):
        return  # native clients report totals only
    try:
        windows = trial.windows()
    except ResultDirectoryError as error:
        yield f"{summary.trial_id}: {error}"
        return
    for name in ("sent", "acked", "failed", "received"):
        total, stored = sum(getattr(window, name) for window in windows), getattr(delivery, name)
        # Seconds count all received records, the summary only those with a stamp of this run.
        nameless = delivery.corrupt if name == "received" else 0
        if not stored <= total <= stored + nameless:
            yield f"{summary.trial_id}: {name}: windows add up to {total}, the summary says {stored}"
    measure = next(phase for phase in summary.phases if phase.name == "measure")
    measured = [window for window in windows if window.phase == "measure"]
    seconds = measure.end_s - measure.start_s
    for name, stored_rate in (("offered", summary.offered_per_s), ("acked", summary.achieved_per_s)):
        rate = sum(getattr(window, name) for window in measured) / seconds
        if stored_rate is None:
            continue  # a closed loop offers whatever is taken
        if abs(rate - stored_rate) > 1e-6 * max(1.0, rate):
            yield f"{summary.trial_id}: {name} per second: windows give {rate}, the summary says {stored_rate}"


def _recovery(trial: TrialResult) -> Iterator[str]:
    summary = trial.summary
    if summary.recovery is None:
        return
    marks = [
        FaultMark(fault.do, fault.node, fault.role, fault.at_s, fault.back_s, _ended_s(fault))
        for fault in summary.recovery.faults
    ]
    measure = next(phase for phase in summary.phases if phase.name == "measure")
    try:
        windows = trial.windows()
    except ResultDirectoryError:
        return  # reported where counts are added up
    closed_loop, consumers = summary.offered_per_s is None, summary.e2e is not None
    found = recoveries(marks, windows, measure, closed_loop=closed_loop, consumers=consumers)
    if found != summary.recovery.faults:
        yield f"{summary.trial_id}: recovery: the windows and the faults give other figures"


def _ended_s(fault: FaultRecovery) -> float | None:
    return None if fault.ended_after_s is None else round(fault.at_s + fault.ended_after_s, 3)


def _partitions(trial: TrialResult) -> Iterator[str]:
    summary = trial.summary
    try:
        found = trial.partitions()
    except ResultDirectoryError as error:
        yield f"{summary.trial_id}: {error}"
        return
    acked = [line.acked for line in found if line.acked is not None]
    if found and len(acked) == len(found) and sum(acked) != summary.delivery.acked:
        yield f"{summary.trial_id}: acked: partitions add up to {sum(acked)}, the summary says {summary.delivery.acked}"


def _verdict(trial: TrialResult, workload: Workload | None) -> Iterator[str]:
    summary = trial.summary
    yield from _judged(trial, workload)
    if summary.verdict.state != "invalid":
        for name in ("lost", "corrupt", "failed"):
            if count := getattr(summary.delivery, name):
                yield f"{summary.trial_id}: {name}: {count} records, and the verdict is {summary.verdict.state}"
    path = trial.directory / "verdict.json"
    if not path.is_file():
        return  # of a run before this file was kept
    try:
        stored = parse_file(Verdict, path)
    except ResultDirectoryError as error:
        yield f"{trial.summary.trial_id}: {error}"
        return
    if stored != trial.summary.verdict:
        yield f"{trial.summary.trial_id}: verdict.json says {stored.state}, the summary {trial.summary.verdict.state}"


def _judged(trial: TrialResult, workload: Workload | None) -> Iterator[str]:
    """Judge verdict and objectives again, by the figures and by the workload in the manifest."""
    summary = trial.summary
    if workload is None or summary.recovery is not None:
        return
    try:
        made = judged_again(summary, trial.windows(), workload)
    except ResultDirectoryError:
        return  # reported where counts are added up
    said, found = ((v.state, sorted(reason.check for reason in v.reasons)) for v in (summary.verdict, made))
    if said != found:
        yield f"{summary.trial_id}: verdict: says {_verdict_text(*said)}, and the figures give {_verdict_text(*found)}"
    if (objectives := slo_results(workload, summary)) != summary.slo:
        either = [*objectives, *summary.slo]
        wrong = dict.fromkeys(item.metric for item in either if item not in objectives or item not in summary.slo)
        yield f"{summary.trial_id}: slo: {', '.join(wrong)}: the figures give other results than the summary says"


def _verdict_text(state: str, checks: list[str]) -> str:
    return f"{state} ({', '.join(checks)})" if checks else state


def _analysis(result: RunResult) -> Iterator[str]:
    """Recompute the analysis, which is a pure function of the summaries and its seed."""
    try:
        stored = result.analysis()
    except ResultDirectoryError as error:
        yield str(error)
        return
    there = {trial.summary.trial_id for trial in result.trials}
    if (
        stored is None
        or not stored.complete
        or any(planned.status == "done" and planned.trial_id not in there for planned in result.manifest.trials)
    ):
        return  # figures of trials that are gone cannot be computed
    factors = {cell.cell: cell.factors for cell in stored.cells}
    made = _figures(analyse(factors, [trial.summary for trial in result.trials], seed=stored.seed, complete=True))
    for what, figures in _figures(stored).items():
        if made.get(what) != figures:
            yield f"analysis.json: {what}: says {figures}, and the trials give {made.get(what, 'no such figure')}"


def _search(result: RunResult) -> Iterator[str]:
    """Whether a search knows its trials by their own verdicts."""
    try:
        search = result.search()
    except ResultDirectoryError:
        return  # reported where it is read first
    verdicts = {trial.summary.trial_id: trial.summary.verdict for trial in result.trials}
    for probe in search.probes if search is not None else []:
        found = verdicts.get(probe.trial_id)
        if probe.verdict is not None and probe.verdict != found:
            there = "has no summary" if found is None else f"is {found.state}"
            yield f"search.json: {probe.trial_id} is {probe.verdict.state}, and the trial {there}"


def _figures(analysis: Analysis) -> dict[str, object]:
    """The figures of an analysis without its texts, which may differ between versions."""
    estimates = {
        f"{cell.cell} {item.metric}": (item.value, item.n_trials, item.ci95)
        for cell in analysis.cells
        for item in cell.metrics
    }
    noise = {f"noise of {item.metric}": (item.ratios, item.bound95_ratio) for item in analysis.noise}
    comparisons = {
        f"{item.head} against {item.base} {item.metric}": (item.ratio, item.ci95, item.n_pairs)
        for item in analysis.comparisons
    }
    return {**estimates, **noise, **comparisons}


def _confirmations(result: RunResult) -> Iterator[str]:
    """Check the confirmations of a gate, which are result directories inside of the gate's own."""
    try:
        gate = result.gate()
    except ResultDirectoryError:
        return  # reported where it is read first
    for done in gate.rounds if gate is not None else []:
        if done.stage == "confirmation" and done.directory is not None:
            if Path(done.directory).name != done.directory or done.directory == "..":
                yield f"gate.json: {done.directory!r} is not a directory of a confirmation"
                continue
            try:
                found = list(disagreements(RunResult(result.directory / done.directory)))
            except ResultDirectoryError as error:
                found = [str(error)]
            yield from (f"{done.directory}: {line}" for line in found)


def _unreadable(*readers: Callable[[], object]) -> Iterator[str]:
    for read in readers:
        try:
            read()
        except ResultDirectoryError as error:
            yield str(error)
