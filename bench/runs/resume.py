"""What an interrupted run left, and whether it can be continued under equal conditions.

Trials that had ended keep their results and do not run again, including failed ones: to repeat a trial until it
succeeds would hide failures. Only --retry-invalid repeats them, and keeps what they were on record. A trial during
which the run was interrupted or killed runs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from highwater.bench.environment import describe_environment, versions
from highwater.bench.runs.agenda import TrialOutcome
from highwater.bench.runs.launchers import LauncherKind, told_settings
from highwater.bench.runs.preflight import storage_targets
from highwater.bench.runs.retry import retried
from highwater.bench.runs.runner import Earlier
from highwater.bench.storage.targets import describe_target
from highwater.bench.trials.plan import Plan
from highwater.bench.trials.trial import Launcher, now_utc
from highwater.bench.workload.command_config import told_of
from highwater.common.errors import NotComparableError, UsageError
from highwater.results.environment_key import (
    connection_text,
    difference_text,
    environment_key,
    storage_facts,
    unequal,
    what_is_measured,
)
from highwater.results.models import Manifest, TrialPlan, TrialSummary
from highwater.results.reader import RunResult
from highwater.tuning.facts.model import Facts


def seed_of(directory: Path, seed: int | None) -> int:
    """The seed of the run in `directory`. Raises UsageError when `seed` differs from it."""
    found = RunResult(directory).manifest.seed
    if seed is not None and seed != found:
        raise UsageError(f"--seed: {directory} was started with seed {found}; leave --seed out to continue it")
    return found


def earlier_run(
    directory: Path, plan: Plan, facts: Facts, *, trials_known: bool = True, retry_invalid: bool = False
) -> Earlier:
    """What can be kept of the run in `directory`. trials_known: its trials are those of the plan.

    retry_invalid: invalid and failed trials are measured again (`bench.runs.retry`).

    Raises UsageError when the run has another workload, seed or version, NotComparableError when it is of another host
    or disk, ResultDirectoryError when it cannot be read.
    """
    result = RunResult(directory)
    _check_same_question(result.manifest, plan, directory, trials_known)
    _check_same_host(result, plan, facts, directory)
    _check_same_connection(result, plan, directory)
    summaries = {trial.summary.trial_id: trial.summary for trial in result.trials}
    outcomes = [
        TrialOutcome(_ended(trial, summaries.get(trial.trial_id)), summaries.get(trial.trial_id))
        for trial in result.manifest.trials
        if trial.trial_id in summaries or (trial.status == "failed" and not _ended_the_run(trial, result.manifest))
        if all((directory / before.kept_in).is_dir() for before in trial.replaced)
    ]
    at_once = plan.specification.workload.trials.at_once
    if at_once:
        outcomes = _of_whole_blocks(outcomes, result.manifest)
    replaced = retried(outcomes, now_utc(), at_once=at_once) if retry_invalid else {}
    probes = result.probes()
    return Earlier(
        result.manifest,
        [outcome for outcome in outcomes if outcome.plan.trial_id not in replaced],
        probes.probes if probes else (),
        replaced,
    )


def check_same_launcher(earlier: Earlier, launcher: Launcher, directory: Path) -> None:
    """Check that `launcher` is the same as before. Raises UsageError."""
    begun_with = earlier.manifest.launcher
    if begun_with not in (None, launcher.name):
        _, _, master = begun_with.partition(" ")
        kind = LauncherKind.SPARK if master else LauncherKind.PROCESS
        options = f"--launcher {kind}" + (f" --master '{master}'" if master else "")
        raise UsageError(
            f"--resume: the load of {directory} was begun on {begun_with}, and this would go on on {launcher.name}; "
            f"give it {options}"
        )
    before, now = earlier.manifest.launcher_settings, told_settings(launcher.settings)
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            raise UsageError(
                f"--resume: the load of {directory} was begun with {_given(name, before)}, and this would go on with "
                f"{_given(name, now)}; give it the same --spark-conf"
            )


def _given(name: str, settings: Mapping[str, str]) -> str:
    return f"{name}={settings[name]}" if name in settings else f"{name} as it is"


def _of_whole_blocks(outcomes: Sequence[TrialOutcome], manifest: Manifest) -> list[TrialOutcome]:
    """Outcomes without those of incomplete blocks: trials that run at once must run again together."""
    ended = {outcome.plan.trial_id for outcome in outcomes}
    broken = {trial.block for trial in manifest.trials if trial.trial_id not in ended}
    return [outcome for outcome in outcomes if outcome.plan.block not in broken]


def _ended(trial: TrialPlan, summary: TrialSummary | None) -> TrialPlan:
    """The plan of a trial with its final status. A trial with a summary is complete, even if the run was killed."""
    return trial if summary is None else trial.model_copy(update={"status": "done", "error": None})


def _ended_the_run(trial: TrialPlan, manifest: Manifest) -> bool:
    """Whether the trial ended the run, because of a user's mistake that may be corrected now."""
    return manifest.status == "failed" and trial == [t for t in manifest.trials if t.status == "failed"][-1]


def _check_same_question(manifest: Manifest, plan: Plan, directory: Path, trials_known: bool) -> None:
    if manifest.workload_sha256 != plan.specification.sha256:
        begun, asked = map(what_is_measured, (manifest.workload, plan.specification.workload.as_document()))
        key, one, other = next(differences(begun, asked), ("workload", "…", "…"))
        raise UsageError(
            f"--resume: {directory} was begun with {key}: {one}, and now it is {other}; give it the same workload and "
            "options, or begin anew with --out"
        )
    planned = [trial.plan.trial_id for trial in plan.trials]
    if trials_known and [trial.trial_id for trial in manifest.trials] != planned:
        raise UsageError(f"--resume: the trials in {directory} are not those of this plan; begin anew with --out")
    now = versions({})
    for name, version in manifest.versions.items():
        if name in now and now[name] != version:
            raise UsageError(
                f"--resume: {directory} was begun with {name} {version}, and this is {now[name]}; one run has one "
                "instrument: begin anew with --out"
            )


def _check_same_host(result: RunResult, plan: Plan, facts: Facts, directory: Path) -> None:
    paths = storage_targets(plan)
    # Under a host profile a disk may have had another scheduler than it has now.
    plain = {trial.cell.name for trial in plan.trials if trial.cell.workload.host.is_left_alone}
    summaries = [trial.summary for trial in result.trials if trial.summary.cell in plain]
    before = {summary.storage.name: summary.storage for summary in summaries}
    today = [describe_target(name, paths[name], facts) for name in before if name in paths]
    # Target by target, so that two disks that changed places are found.
    now = environment_key(describe_environment(facts, {}, paths.values()), []).facts
    then = environment_key(result.environment, []).facts
    pairs = [(then, now), *((storage_facts([before[target.name]]), storage_facts([target])) for target in today)]
    changed = next((found for one, other in pairs for found in unequal(one, other)), None)
    if changed is not None:
        raise NotComparableError(
            f"--resume: {directory} was begun under other conditions: {difference_text(changed)}; begin anew with --out"
        )


def _check_same_connection(result: RunResult, plan: Plan, directory: Path) -> None:
    workloads = {trial.cell.name: trial.cell.workload for trial in plan.trials}
    for trial in result.trials:
        # A search has cells that its plan does not contain, all of one cluster.
        workload = workloads.get(trial.summary.cell, plan.specification.workload)
        before, now = trial.summary.system.connection, told_of(plan.specification.command_config(workload))
        if before != now:
            raise NotComparableError(
                f"--resume: clients of {directory} came in by {connection_text(before)}, and now it is "
                f"{connection_text(now)}; begin anew with --out"
            )


def differences(one: Any, other: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted keys under which two documents differ, with both values; None where a key is missing."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            yield from differences(one.get(name), other.get(name), f"{key}.{name}" if key else name)
    elif one != other:
        yield key, one, other
