"""What is measured of a trial: one list that the table, the findings and the charts all read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from highwater.bench.results import Latency, TrialSummary
from highwater.reports.quantity import BYTES_PER_MIB, NS_PER_MS, significant, unit_text, whole

Better = Literal["higher", "lower"]

FEWEST_SAMPLES_ABOVE: Final = 10
"""A percentile with fewer samples above it depends on chance more than on the system."""


@dataclass(frozen=True)
class Measure:
    """A metric as the report shows it.

    `key`: the metric's name in results. `value` reads it from a trial in `unit`, which is `scale` times the unit of the
    results. `samples_above`: number of samples above a percentile.
    """

    key: str
    name: str
    group: str
    title: str
    unit: str
    value: Callable[[TrialSummary], float | None]
    better: Better | None = None
    samples_above: Callable[[TrialSummary], float | None] = lambda _: None
    scale: float = 1.0

    def figure(self, value: float) -> str:
        return whole(value) if self.unit == "records/s" and value >= 1000 else significant(value)

    def text(self, value: float) -> str:
        return f"{self.figure(value)} {self.unit}"


def _percentile(
    key: str, group: str, title: str, above: float, latency: Callable[[TrialSummary], Latency | None]
) -> Measure:
    field = title.replace(".", "")

    def value(trial: TrialSummary) -> float | None:
        found = latency(trial)
        return None if found is None else getattr(found, field) / NS_PER_MS

    def samples_above(trial: TrialSummary) -> float | None:
        found = latency(trial)
        return None if found is None else found.count * above

    return Measure(f"{key}.{field}", f"{group} {title}", group, title, "ms", value, "lower", samples_above, NS_PER_MS)


def produce_latency(trial: TrialSummary) -> Latency:
    return trial.produce.response_ns


def e2e_latency(trial: TrialSummary) -> Latency | None:
    return trial.e2e.response_ns if trial.e2e else None


_PRODUCE: Final = "Produce latency"
_E2E: Final = "End-to-end latency"

OFFERED: Final = Measure(
    "produce.offered_per_s", "Offered load", "Load", "offered", "records/s", lambda t: t.offered_per_s
)
ACHIEVED: Final = Measure(
    "produce.achieved_per_s", "Throughput", "Load", "achieved", "records/s", lambda t: t.achieved_per_s, "higher"
)
BYTES: Final = Measure(
    "produce.achieved_bytes_per_s",
    "Throughput in bytes",
    "Load",
    "achieved",
    "MiB/s",
    lambda t: t.achieved_bytes_per_s / BYTES_PER_MIB,
    "higher",
    scale=BYTES_PER_MIB,
)
PRODUCE_P50: Final = _percentile("produce", _PRODUCE, "p50", 0.5, produce_latency)
PRODUCE_P99: Final = _percentile("produce", _PRODUCE, "p99", 0.01, produce_latency)
PRODUCE_P999: Final = _percentile("produce", _PRODUCE, "p99.9", 0.001, produce_latency)
E2E_P50: Final = _percentile("e2e", _E2E, "p50", 0.5, e2e_latency)
E2E_P99: Final = _percentile("e2e", _E2E, "p99", 0.01, e2e_latency)
E2E_P999: Final = _percentile("e2e", _E2E, "p99.9", 0.001, e2e_latency)
SYSTEM_CPU: Final = Measure(
    "system.cpu_ratio", "Broker CPU", "CPU", "broker", "cores", lambda t: t.host.system_cpu_ratio, "lower"
)
GENERATOR_CPU: Final = Measure(
    "generator.cpu_ratio_max", "Generator CPU", "CPU", "generator", "cores", lambda t: t.generator.cpu_ratio_max
)

TABLE: Final = (
    OFFERED,
    ACHIEVED,
    BYTES,
    PRODUCE_P50,
    PRODUCE_P99,
    PRODUCE_P999,
    E2E_P50,
    E2E_P99,
    E2E_P999,
    SYSTEM_CPU,
    GENERATOR_CPU,
)
"""The measures of the main table, in its order."""

HEADLINES: Final = (ACHIEVED, PRODUCE_P50, PRODUCE_P99, E2E_P50, E2E_P99, SYSTEM_CPU)
"""The measures that the findings compare."""

_BY_KEY: Final = {measure.key: measure for measure in (*TABLE, PRODUCE_P50)}
_PERCENTILES: Final = ("p50", "p90", "p99", "p999", "p9999", "max")
_TITLES: Final = {
    "produce": _PRODUCE,
    "produce.service": "Service latency",
    "send_delay": "Lateness of sends",
    "e2e": _E2E,
    "txn.commit": "Commit of a transaction",
    "consume.per_s": "Consumed records",
    "consume.bytes_per_s": "Consumed bytes",
    "lag.max": "Largest lag",
    "errors": "Failed records",
    "host.cpu_ratio": "CPU of the host",
    "host.cache_served_ratio": "Reads served from cache",
    "system.cpu_s_per_gib": "Broker CPU per GiB",
    "system.rss_bytes": "Broker memory",
    "steady.at_s": "Time to steady state",
    "backlog.drain_bytes_per_s": "Catching up with the backlog",
}


def metric_name(metric: str) -> str:
    """The title of a metric of the result files; its name when it has no title."""
    if metric in _BY_KEY:
        return _BY_KEY[metric].name
    prefix, _, last = metric.rpartition(".")
    if prefix in _TITLES and last in _PERCENTILES:
        return f"{_TITLES[prefix]} {last.replace('p999', 'p99.9', 1)}"
    return _TITLES.get(metric, metric)


def metric_text(metric: str, value: float, unit: str = "") -> str:
    """A figure of the result files as text, in the unit of the report's own tables if they show the metric."""
    if metric in _BY_KEY:
        measure = _BY_KEY[metric]
        return measure.text(value / measure.scale)
    return unit_text(value, unit or metric_unit(metric))


def metric_unit(metric: str) -> str:
    """The unit of a metric: the end of its name; ns for percentiles."""
    last = metric.rpartition(".")[2]
    if last in _PERCENTILES and metric != "lag.max":
        return "ns"
    endings = {"bytes_per_s": "bytes_per_s", "per_s": "per_s", "_ratio": "ratio", "_bytes": "bytes", "_s": "s"}
    return next((unit for end, unit in endings.items() if last.endswith(end)), "records")
