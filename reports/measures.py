"""How a report shows metrics: the units of its tables, their headings, which metrics they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from highwater.common.units import significant
from highwater.drawing.quantity import BYTES_PER_MIB, NS_PER_MS
from highwater.results.metrics import METRICS, MetricDefinition, value_text
from highwater.results.models import Latency, TrialSummary

FEWEST_SAMPLES_ABOVE: Final = 10
"""A percentile with fewer samples above it depends on chance more than on the system."""


@dataclass(frozen=True)
class Measure:
    """A metric as the report's tables show it, in `unit`, which is `scale` times the unit of the results.

    `group` and `title`: the two lines above its column. `ranks_systems`: whether it says that one system is better.
    """

    metric: MetricDefinition
    group: str
    title: str
    unit: str
    scale: float = 1.0
    ranks_systems: bool = True

    @property
    def key(self) -> str:
        return self.metric.name

    @property
    def name(self) -> str:
        return self.metric.title

    @property
    def better(self) -> Literal["higher", "lower"] | None:
        return self.metric.better if self.ranks_systems and self.metric.better != "none" else None

    def value(self, trial: TrialSummary) -> float | None:
        found = self.metric.read(trial)
        return None if found is None else found / self.scale

    def samples_above(self, trial: TrialSummary) -> float | None:
        """Return how many samples of the trial are above this percentile; None for another measure."""
        return self.metric.samples_above(trial)

    def figure(self, value: float) -> str:
        return significant(value)

    def text(self, value: float) -> str:
        return f"{self.figure(value)} {self.unit}"


def _percentile(metric: str, group: str, title: str) -> Measure:
    return Measure(METRICS[metric], group, title, "ms", NS_PER_MS)


def produce_latency(trial: TrialSummary) -> Latency:
    return trial.produce.response_ns


def e2e_latency(trial: TrialSummary) -> Latency | None:
    return trial.e2e.response_ns if trial.e2e else None


_PRODUCE: Final = "Produce latency"
_E2E: Final = "End-to-end latency"

OFFERED: Final = Measure(METRICS["produce.offered_per_s"], "Load", "offered", "records/s")
ACHIEVED: Final = Measure(METRICS["produce.achieved_per_s"], "Load", "achieved", "records/s")
BYTES: Final = Measure(METRICS["produce.achieved_bytes_per_s"], "Load", "achieved", "MiB/s", BYTES_PER_MIB)
PRODUCE_P50: Final = _percentile("produce.p50", _PRODUCE, "p50")
PRODUCE_P99: Final = _percentile("produce.p99", _PRODUCE, "p99")
PRODUCE_P999: Final = _percentile("produce.p999", _PRODUCE, "p99.9")
E2E_P50: Final = _percentile("e2e.p50", _E2E, "p50")
E2E_P99: Final = _percentile("e2e.p99", _E2E, "p99")
E2E_P999: Final = _percentile("e2e.p999", _E2E, "p99.9")
SYSTEM_CPU: Final = Measure(METRICS["system.cpu_ratio"], "CPU", "broker", "cores")
GENERATOR_CPU: Final = Measure(METRICS["generator.cpu_ratio"], "CPU", "generator", "cores", ranks_systems=False)

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

_BY_KEY: Final = {measure.key: measure for measure in TABLE}


def metric_text(metric: str, value: float, unit: str = "") -> str:
    """A figure of the result files as text, in the unit of the report's own tables if they show the metric."""
    if metric in _BY_KEY:
        measure = _BY_KEY[metric]
        return measure.text(value / measure.scale)
    return value_text(value, unit or (METRICS[metric].unit if metric in METRICS else ""))
