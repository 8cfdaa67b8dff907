"""The rows of each table of a lake from a result directory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater.results import environment_key
from highwater.results.analysis.compare import ONLY_CELL
from highwater.results.files import ResultDirectoryError
from highwater.results.histogram import Histogram
from highwater.results.interval_arrays import IntervalArrays
from highwater.results.metrics import METRICS
from highwater.results.models import LATENCY_METRICS, Latency, Manifest, Metric, TrialSummary
from highwater.results.reader import RunResult, TrialResult
from highwater.studies.lake.tables import SCHEMAS, SECONDS

Row = dict[str, Any]

_DIGITS: Final = 8
# Facts of env.json that are settings, and not what a host happened to do.
_SETTINGS: Final = ("settings", "sysctl", "versions")


def run_id(manifest: Manifest) -> str:
    """`20260105T093000Z-quickstart-1f2e3d4c`: the same for a run whenever it is read, also after it was resumed."""
    asked = [manifest.name, manifest.created_utc, manifest.workload_sha256, manifest.seed, manifest.argv, manifest.cwd]
    digest = hashlib.sha256(json.dumps(asked, ensure_ascii=False).encode()).hexdigest()[:_DIGITS]
    created = "".join(letter for letter in manifest.created_utc.split(".")[0].removesuffix("Z") if letter.isalnum())
    name = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in manifest.name
    )
    return f"{created}Z-{name}-{digest}"


def tables_of(result: RunResult, *, seconds: bool) -> dict[str, pa.Table]:
    """The rows of a run by table; a table without rows is left out. seconds: with the histograms of each second.

    Raises ResultDirectoryError for a damaged file, or a histogram log that is not what its summary was made of.
    """
    run = run_id(result.manifest)
    found: dict[str, list[Row]] = {name: [] for name in SCHEMAS if name != SECONDS}
    of_seconds: list[pa.RecordBatch] = []
    found["runs"].append(_run(run, result))
    found["settings"].extend(_settings(run, result))
    found["probes"].extend(_probes(run, result))
    cells = len(result.cells())
    for trial in result.trials:
        summary, place = trial.summary, {"run": run, "trial_id": trial.summary.trial_id}
        found["trials"].append(place | _trial(summary, result.manifest, cells))
        found["figures"].extend(place | row for row in _figures(summary))
        found["changes"].extend(place | row for row in _changes(summary))
        found["windows"].extend(place | line.model_dump() for line in trial.windows())
        found["partitions"].extend(place | line.model_dump() for line in trial.partitions())
        found["events"].extend(place | line.model_dump() for line in trial.events())
        samples = {"": trial.host_samples(), **trial.cluster_samples()}
        found["host"].extend(place | {"host": host} | line.model_dump() for host in samples for line in samples[host])
        for metric in (*LATENCY_METRICS, "txn_commit"):
            arrays = trial.interval_arrays(metric)
            found["histograms"].extend(place | row for row in _measured(trial, metric, arrays))
            if seconds and arrays is not None and arrays.starts_s:
                of_seconds.append(_seconds(place, metric, arrays))
    tables = {name: _table(name, rows) for name, rows in found.items() if rows}
    return tables | ({SECONDS: pa.Table.from_batches(of_seconds)} if of_seconds else {})


def _table(name: str, rows: list[Row]) -> pa.Table:
    schema = SCHEMAS[name]
    return pa.table({column: [row.get(column) for row in rows] for column in schema.names}, schema=schema)


def _run(run: str, result: RunResult) -> Row:
    manifest, facts = result.manifest, result.environment.facts
    analysis = result.analysis()
    memory = facts.get("memory")
    hosts = sorted({host for trial in result.trials for host in trial.summary.generator.hosts()})
    return {
        "run": run,
        "environment": environment_key.key_of(result).name,
        "workload": manifest.name,
        "purpose": manifest.purpose,
        "for_measurement": manifest.for_measurement,
        "created_utc": manifest.created_utc,
        "finished_utc": manifest.finished_utc,
        "status": manifest.status,
        "exit_code": manifest.exit_code,
        "workload_sha256": manifest.workload_sha256,
        "commit": manifest.git.commit if manifest.git else None,
        "dirty": manifest.git.dirty if manifest.git else None,
        "seed": manifest.seed,
        "highwater": manifest.versions.get("highwater"),
        "host": ", ".join(hosts) or None,
        "operating_system": _text(facts.get("operating_system")),
        "kernel": _text(facts.get("kernel_release")),
        "cpu_model": _text(facts.get("cpu_model")),
        "cpu_count": facts.get("cpu_count"),
        "memory_bytes": memory.get("total_bytes") if isinstance(memory, Mapping) else None,
        "trials": len(result.trials),
        "usable_trials": sum(_usable(trial.summary) for trial in result.trials),
        "source": str(result.directory.absolute()),
        "manifest_json": manifest.model_dump_json(by_alias=True),
        "environment_json": result.environment.model_dump_json(by_alias=True),
        "analysis_json": analysis.model_dump_json(by_alias=True) if analysis is not None else None,
    }


def _trial(summary: TrialSummary, manifest: Manifest, cells: int) -> Row:
    asked = _asked(manifest, summary)
    storage, delivery, system = summary.storage, summary.delivery, summary.system
    measured = next(phase for phase in summary.phases if phase.name == "measure")
    return {
        "cell": summary.cell,
        "label": ONLY_CELL if cells == 1 else summary.cell,
        "factors_json": json.dumps(summary.factors, ensure_ascii=False),
        "trial": summary.trial,
        "block": summary.block,
        "order_in_block": summary.order_in_block,
        "role": summary.role,
        "verdict": summary.verdict.state,
        "usable": _usable(summary),
        "started_utc": summary.started_utc,
        "measured_s": measured.end_s - measured.start_s,
        "driver": summary.driver,
        "launcher": summary.launcher or summary.generator.launcher,
        "system": system.kind,
        "version": system.version,
        "copies": system.copies,
        "partitions": _text(asked.get("topics.partitions")),
        # The default of Kafka's clients.
        "acks": _text(asked.get("producers.client.acks", "all")).replace("-1", "all"),
        "compression": _text(asked.get("producers.client.compression.type", "none")),
        "flush_messages": _text(
            system.effective_topic_config.get("flush.messages")
            or system.effective_config.get("log.flush.interval.messages")
            or asked.get("topics.config.flush.messages")
        ),
        "record_size": _text(asked.get("records.size")),
        "storage": storage.name,
        "medium": storage.medium,
        "emulated": storage.emulated,
        "disk_model": storage.model,
        "scheduler": storage.scheduler,
        "filesystem": storage.filesystem,
        "offered_per_s": summary.offered_per_s,
        "achieved_per_s": summary.achieved_per_s,
        "sent": delivery.sent,
        "acked": delivery.acked,
        "failed": delivery.failed,
        "received": delivery.received,
        "lost": delivery.lost,
        "duplicated": delivery.duplicated,
        "reordered": delivery.reordered,
        "corrupt": delivery.corrupt,
        "delivery_checked": delivery.checked,
        "summary_json": summary.model_dump_json(by_alias=True),
    }


def _asked(manifest: Manifest, summary: TrialSummary) -> dict[str, Any]:
    """What the workload asked of this trial, by dotted keys."""
    workload = {name: value for name, value in manifest.workload.items() if name not in ("matrix", "variants")}
    variants = manifest.workload.get("variants")
    chosen = variants.get(str(summary.factors.get("variant"))) if isinstance(variants, Mapping) else None
    laid_over = environment_key.flat(chosen) if isinstance(chosen, Mapping) else {}
    return environment_key.flat(workload) | laid_over | summary.factors


def _usable(summary: TrialSummary) -> bool:
    return summary.verdict.state != "invalid"


def _figures(summary: TrialSummary) -> Iterator[Row]:
    for definition in METRICS.values():
        value = definition.read(summary)
        if value is not None:
            yield {
                "cell": summary.cell,
                "block": summary.block,
                "role": summary.role,
                "usable": _usable(summary),
                "metric": definition.name,
                "unit": definition.unit,
                "better": definition.better,
                "value": float(value),
            }


def _changes(summary: TrialSummary) -> Iterator[Row]:
    if (profile := summary.host_profile) is not None:
        for setting, after in profile.applied.items():
            yield {
                "profile": profile.name,
                "setting": setting,
                "before": profile.before.get(setting),
                "after": after,
                "verified": profile.verified,
                "rolled_back": profile.rolled_back,
            }


def _measured(trial: TrialResult, metric: Metric, arrays: IntervalArrays | None) -> Iterator[Row]:
    """The histogram of the measured phase, if it has values."""
    phase = next(phase for phase in trial.summary.phases if phase.name == "measure")
    intervals = arrays.intervals() if arrays is not None else []
    measured = Histogram.merged(item.histogram for item in intervals if phase.start_s <= item.start_s < phase.end_s)
    latency = _latency(trial.summary, metric)
    counted = latency.count if latency is not None else 0
    if measured.count != counted or (latency is not None and counted and measured.percentile(99) != latency.p99):
        path = trial.histogram_path(metric)
        what = f"has {measured.count} values in the measured phase, and not the {counted} of summary.json"
        raise ResultDirectoryError(f"{path}: {what if path.is_file() else 'is missing'}")
    if measured.count:
        yield {"metric": metric, "count": measured.count, "buckets": measured.indices, "counts": measured.counts}


def _seconds(place: Row, metric: Metric, arrays: IntervalArrays) -> pa.RecordBatch:
    """A row for each second of a histogram log; a row is never made as an object, as a run has thousands of them."""
    texts = {**place, "metric": metric}
    offsets = pa.array(arrays.offsets.astype(np.int32))
    return pa.RecordBatch.from_arrays(
        [
            *(pa.repeat(pa.scalar(text, pa.string()), len(arrays.starts_s)) for text in texts.values()),
            pa.array(np.asarray(arrays.starts_s).astype(np.int64)),
            pa.ListArray.from_arrays(offsets, pa.array(arrays.buckets.astype(np.int32))),
            pa.ListArray.from_arrays(offsets, pa.array(arrays.counts)),
        ],
        schema=SCHEMAS[SECONDS],
    )


def _latency(summary: TrialSummary, metric: Metric) -> Latency | None:
    match metric:
        case "produce_response":
            return summary.produce.response_ns
        case "produce_service":
            return summary.produce.service_ns
        case "send_delay":
            return summary.produce.send_delay_ns
        case "e2e_response":
            return summary.e2e.response_ns if summary.e2e else None
        case "txn_commit":
            return summary.transactions.commit_ns if summary.transactions else None


def _settings(run: str, result: RunResult) -> Iterator[Row]:
    """What was in force, by where it was set; a setting that differs between trials has all of its values."""
    facts = result.environment.facts
    systems = [trial.summary.system for trial in result.trials]
    workload = {name: value for name, value in result.manifest.workload.items() if name not in ("name", "purpose")}
    scopes: dict[str, Mapping[str, Any]] = {
        "environment": environment_key.key_of(result).facts,
        "host": {name: value for part in _SETTINGS for name, value in _mapping(facts.get(part)).items()},
        "workload": environment_key.flat(workload),
        "broker": _values_of(
            [{"version": f"{system.kind} {system.version}"} | system.effective_config for system in systems]
        ),
        "topic": _values_of([system.effective_topic_config for system in systems]),
    }
    for scope, settings in scopes.items():
        for name, value in settings.items():
            if value is not None:
                yield {"run": run, "scope": scope, "name": name, "value": _text(value)}


def _values_of(trials: list[dict[str, str]]) -> dict[str, str]:
    values: dict[str, set[str]] = {}
    for settings in trials:
        for name, value in settings.items():
            values.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(found)) for name, found in values.items()}


def _probes(run: str, result: RunResult) -> Iterator[Row]:
    probes = result.probes()
    for probe in probes.probes if probes is not None else []:
        for job in probe.jobs:
            yield {
                "run": run,
                "host": probe.host or "",
                "storage": probe.target.name,
                "medium": probe.target.medium,
                "disk_model": probe.target.model,
                "moment": probe.moment,
                "job": job.name,
                **job.model_dump(exclude={"name"}),
            }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value if isinstance(value, str) else str(value)
