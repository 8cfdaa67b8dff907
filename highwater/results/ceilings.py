"""Ceilings of a class of hosts: the highest rates that a broker sustained in results of a bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from highwater.common.ceilings import CONSUME, DISK_READ, DISK_WRITE, PRODUCE, Ceiling, Ceilings, HostClass
from highwater.common.errors import UsageError
from highwater.common.quantities import SIZE
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult

_PROBES: Final = {"sequential_append": DISK_WRITE, "sequential_read": DISK_READ}
_CODECS: Final = ("compression.type", "compression.codec")
_ACKS: Final = ("acks", "request.required.acks")
_GIB: Final = 1 << 30


def ceilings_of(results: Sequence[RunResult]) -> Ceilings:
    """All ceilings of results from one class of hosts. Raises UsageError for what is no such measurement."""
    first = host_class_of(results)
    found = [ceiling for result in results for ceiling in _of_result(result)]
    return Ceilings(first, tuple(found), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


def host_class_of(results: Sequence[RunResult]) -> HostClass:
    """The class of hosts that all results were measured on. Raises UsageError if there are two."""
    first = _host_class(results[0])
    for result in results[1:]:
        host = _host_class(result)
        differs = next((name for name in HostClass.__slots__ if not _is_same(name, first, host)), None)
        if differs is not None:
            raise UsageError(
                f"{result.directory} is of another class of hosts than {results[0].directory} ({differs} differs); "
                "name results of one class only"
            )
    return first


def _is_same(name: str, one: HostClass, other: HostClass) -> bool:
    if name == "memory_bytes":
        return abs(one.memory_bytes - other.memory_bytes) < _GIB
    return bool(getattr(one, name) == getattr(other, name))


def _host_class(result: RunResult) -> HostClass:
    """The class of the host with the broker: this one, or that of an external cluster."""
    summaries = [trial.summary for trial in result.trials]
    names = {host.name for summary in summaries for host in summary.cluster_hosts}
    if len(names) > 1:
        raise UsageError(
            f"{result.directory} measured a cluster of {len(names)} hosts; a ceiling is that of one broker: measure one"
        )
    facts = result.environment.facts
    if names:
        host = next(host for summary in summaries for host in summary.cluster_hosts)
        known: dict[str, Any] = {
            "cpu_model": host.cpu_model,
            "cpu_count": host.cpu_count,
            "memory_bytes": host.memory_bytes,
            "kernel": host.kernel,
            "tuning_fingerprint": host.tuning_fingerprint,
        }
        runs_in = host.runs_in or ""
    else:
        memory = facts.get("memory")
        known = {
            "cpu_model": facts.get("cpu_model"),
            "cpu_count": facts.get("cpu_count"),
            "memory_bytes": memory.get("total_bytes") if isinstance(memory, Mapping) else None,
            "kernel": facts.get("kernel_release"),
            "tuning_fingerprint": _tuning_fingerprint(result, summaries),
        }
        runs_in = ", ".join(str(facts[name]) for name in ("container", "virtual_machine") if facts.get(name))
    missing = [name for name, value in known.items() if value is None]
    if missing:
        raise UsageError(f"{result.directory} does not say what its host is: {', '.join(missing)} missing")
    return HostClass(**known, runs_in=runs_in)


def _tuning_fingerprint(result: RunResult, summaries: Sequence[TrialSummary]) -> Any:
    """The fingerprint of the trials, whose host profile may have changed settings; else of the host before them."""
    found = {summary.tuning_fingerprint for summary in summaries if summary.tuning_fingerprint is not None}
    if len(found) > 1:
        raise UsageError(
            f"{result.directory} measured with several tunings of its host: measure each in a run of its own"
        )
    return found.pop() if found else result.environment.facts.get("tuning_fingerprint")


def _of_result(result: RunResult) -> Iterator[Ceiling]:
    if not result.manifest.for_measurement:
        raise UsageError(
            f"{result.directory} is of a workload that is not for measurement: its figures are no ceilings"
        )
    trials = [trial.summary for trial in result.trials if trial.summary.role == "measure"]
    trials = [trial for trial in trials if trial.verdict.state == "valid" and trial.at_once is None]
    if not trials:
        raise UsageError(f"{result.directory} has no valid trial")
    brokers = max(max(trial.system.copies, len(trial.system.commands)) for trial in trials)
    if brokers > 1:
        raise UsageError(
            f"{result.directory} measured {brokers} brokers, which shared one host and wrote each other's records too: "
            "what one broker can do does not follow from it; measure one (system: {nodes: 1})"
        )
    yield from _produce(result, trials)
    yield from _consume(result, trials)
    yield from _disks(result)


def _produce(result: RunResult, trials: Sequence[TrialSummary]) -> Iterator[Ceiling]:
    search = result.search()
    if search is None:
        by_cell: dict[str, list[TrialSummary]] = {}
        for trial in trials:
            by_cell.setdefault(trial.cell, []).append(trial)
        for own in by_cell.values():
            yield _ceiling(result, PRODUCE, own, [_log_bytes_per_s(trial) for trial in own], is_at_least=True)
        return
    if search.last_passing_per_s is None:
        raise UsageError(f"{result.directory}: not even the lowest rate of the search passed, so it has no ceiling")
    passed = {
        probe.trial_id for probe in search.probes if probe.passed and probe.rate_per_s == search.last_passing_per_s
    }
    own = [trial for trial in trials if trial.trial_id in passed]
    if not own:
        raise UsageError(f"{result.directory} has no valid trial at the rate that its search found")
    values = [_log_bytes_per_s(trial) for trial in own]
    failing = search.first_failing_per_s
    yield _ceiling(
        result,
        PRODUCE,
        own,
        values,
        is_at_least=failing is None or search.generator_limited or search.status != "answered",
        first_fail=None if failing is None else median(values) * failing / search.last_passing_per_s,
        limit=search.text or search.limit or "",
    )


def _consume(result: RunResult, trials: Sequence[TrialSummary]) -> Iterator[Ceiling]:
    """What consumers received at the same time, or when they caught up with a backlog, if that was more."""
    values = [_consumed_bytes_per_s(trial) for trial in trials]
    if any(values):
        highest = max(zip(values, trials, strict=True), key=lambda pair: pair[0])[1].cell
        own = [(value, trial) for value, trial in zip(values, trials, strict=True) if trial.cell == highest]
        yield _ceiling(result, CONSUME, [trial for _, trial in own], [value for value, _ in own], is_at_least=True)


def _disks(result: RunResult) -> Iterator[Ceiling]:
    probes = result.probes()
    for probe in probes.probes if probes is not None else ():
        for job in probe.jobs:
            if job.name in _PROBES:
                yield Ceiling(
                    _PROBES[job.name],
                    job.bytes_per_s,
                    is_at_least=False,
                    medium=probe.target.medium,
                    file_system=probe.target.filesystem or "",
                    run=str(result.directory),
                    measured_utc=probe.taken_utc,
                )


def _ceiling(
    result: RunResult,
    resource: str,
    trials: Sequence[TrialSummary],
    values: Sequence[float],
    *,
    is_at_least: bool,
    first_fail: float | None = None,
    limit: str = "",
) -> Ceiling:
    """The ceiling that the trials of one cell show."""
    trial = trials[0]
    client = _client(result, trial)
    batch = client.get("batch.size")
    return Ceiling(
        resource=resource,
        bytes_per_s=median(values),
        is_at_least=is_at_least,
        first_fail_bytes_per_s=first_fail,
        limit=limit,
        batch_bytes=None if batch is None else SIZE.integer(batch),
        codec=str(next((client[name] for name in _CODECS if name in client), "none")),
        acks=str(next((client[name] for name in _ACKS if name in client), "all")),
        medium=trial.storage.medium,
        file_system=trial.storage.filesystem or "",
        system=f"{trial.system.kind} {trial.system.version}",
        run=str(result.directory),
        measured_utc=trial.started_utc,
    )


def _client(result: RunResult, trial: TrialSummary) -> dict[str, Any]:
    """The properties of the producers of a trial: those of the workload, and those that its cell changes."""
    producers = result.manifest.workload.get("producers")
    client = producers.get("client") if isinstance(producers, Mapping) else None
    own = {name.removeprefix("producers.client."): value for name, value in trial.factors.items()}
    return {**(client if isinstance(client, Mapping) else {}), **own}


def stored_ratio(trial: TrialSummary) -> float:
    """Bytes of the log for each byte of values: below 1 where batches are compressed; 1 if the log was not measured."""
    if trial.writeback is None or not trial.writeback.appended_bytes or not trial.delivery.acked:
        return 1.0
    value_bytes = trial.achieved_bytes_per_s / trial.achieved_per_s if trial.achieved_per_s else 0.0
    return trial.writeback.appended_bytes / (trial.delivery.acked * value_bytes) if value_bytes else 1.0


def _log_bytes_per_s(trial: TrialSummary) -> float:
    return trial.achieved_bytes_per_s * stored_ratio(trial)


def _consumed_bytes_per_s(trial: TrialSummary) -> float:
    caught_up = trial.backlog.drain_bytes_per_s if trial.backlog is not None else None
    return max(trial.consumed_bytes_per_s, caught_up or 0.0) * stored_ratio(trial)
