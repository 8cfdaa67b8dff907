"""OpenMessaging Benchmark's result JSON (TestResult.java), one file for each usable trial.

OMB's `publishLatency` runs from the actual send (Highwater's service latency) in ms, `publishDelayLatency` is the send
delay in µs, end-to-end latency is in ms. A series has one entry per ten seconds of the measured phase.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from hdrh.histogram import HdrHistogram

from highwater.bench.exports import ExportedFile, text_file
from highwater.bench.exports.estimates import usable
from highwater.bench.workload.model import Workload
from highwater.bench.workload.specification import recorded_workloads
from highwater.common.errors import UsageError
from highwater.results.histogram_log import mean_of, read_histogram
from highwater.results.models import Metric, Window
from highwater.results.reader import RunResult, TrialResult

_WINDOW_S: Final = 10
_NS_PER_MS: Final = 1e6
_NS_PER_US: Final = 1e3
_PERCENTILES: Final = {
    "50pct": 50.0,
    "75pct": 75.0,
    "95pct": 95.0,
    "99pct": 99.0,
    "999pct": 99.9,
    "9999pct": 99.99,
    "99999pct": 99.999,
}

Convert = Callable[[float], float]


def export(result: RunResult) -> list[ExportedFile]:
    """Raises UsageError for a run whose workload today's rules do not take."""
    workloads = recorded_workloads(result.manifest.workload)
    if not workloads:
        raise UsageError(f"{result.directory}: the workload in its manifest is none by today's rules")
    # The trials of a search belong to no cell of the workload; they differ from the workload only in their rate.
    base = next(iter(workloads.values()))
    return [
        text_file(
            json.dumps(_document(result, trial, workloads.get(cell, base)), indent=2) + "\n",
            f"-{trial.summary.trial_id}",
        )
        for cell, trials in result.cells().items()
        for trial in usable(trials)
    ]


def _document(result: RunResult, trial: TrialResult, workload: Workload) -> dict[str, Any]:
    summary = trial.summary
    measured = [window for window in trial.windows() if window.phase == "measure"]
    spans = [measured[start : start + _WINDOW_S] for start in range(0, len(measured), _WINDOW_S)]
    document: dict[str, Any] = {
        "workload": f"{result.manifest.name} {summary.cell}",
        "driver": f"{summary.system.kind} {summary.system.version}",
        "messageSize": round(summary.achieved_bytes_per_s / summary.achieved_per_s) if summary.achieved_per_s else 0,
        **_load_of(workload),
        "publishRate": [_rate(span, "acked") for span in spans],
        "publishErrorRate": [_rate(span, "failed") for span in spans],
        "consumeRate": [_rate(span, "received") for span in spans],
        "backlog": [span[-1].lag or 0 for span in spans],
    }
    document |= _latencies(trial, spans, "publishLatency", "produce_service", _to_ms)
    document |= _latencies(trial, spans, "publishDelayLatency", "send_delay", _to_us)
    if summary.e2e is not None:
        document |= _latencies(trial, spans, "endToEndLatency", "e2e_response", _to_ms)
    return document


def _latencies(
    trial: TrialResult, spans: list[list[Window]], name: str, metric: Metric, convert: Convert
) -> dict[str, Any]:
    """A series per percentile, and the aggregate over the measured phase with its quantiles."""
    path = trial.histogram_path(metric)
    series = [_figures(read_histogram(path, span[0].second, span[-1].second + 1), convert) for span in spans]
    found: dict[str, Any] = {f"{name}{label}": [figures[label] for figures in series] for label in _labels()}
    whole = read_histogram(path, spans[0][0].second, spans[-1][-1].second + 1) if spans else None
    if whole is not None:
        aggregated = f"aggregated{name[0].upper()}{name[1:]}"
        found |= {f"{aggregated}{label}": value for label, value in _figures(whole, convert).items()}
        found[f"{aggregated}Quantiles"] = {
            f"{item.percentile_level_iterated_to:g}": convert(item.value_iterated_to)
            for item in whole.get_percentile_iterator(5)
        }
    return found


def _labels() -> list[str]:
    return ["Avg", *_PERCENTILES, "Max"]


def _figures(histogram: HdrHistogram, convert: Convert) -> dict[str, float]:
    at = histogram.get_percentile_to_value_dict(list(_PERCENTILES.values())) if histogram.get_total_count() else {}
    return {
        "Avg": convert(mean_of(histogram)),
        **{label: convert(at.get(percentile, 0)) for label, percentile in _PERCENTILES.items()},
        "Max": convert(histogram.get_max_value()),
    }


def _to_ms(value_ns: float) -> float:
    return value_ns / _NS_PER_MS


def _to_us(value_ns: float) -> int:
    return round(value_ns / _NS_PER_US)


def _rate(span: list[Window], name: str) -> float:
    return float(sum(getattr(window, name) for window in span)) / len(span)


def _load_of(workload: Workload) -> dict[str, float]:
    """OMB counts clients for each topic, and a workload counts those of all topics together."""
    topics = workload.topics.count
    return {
        "topics": topics,
        "partitions": workload.topics.partitions,
        "producersPerTopic": _per_topic(workload.producers.count, topics),
        "consumersPerTopic": _per_topic(workload.consumers.per_group if workload.consumers.count else 0, topics),
    }


def _per_topic(clients: int, topics: int) -> float:
    each = clients / topics
    return int(each) if each.is_integer() else each
