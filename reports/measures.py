"""What is measured of a trial: one list that the table, the findings and the charts all read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from bench.results import Latency, TrialSummary
from reports.quantity import BYTES_PER_MIB, NS_PER_MS, significant, whole

Better = Literal["higher", "lower"]

FEWEST_SAMPLES_ABOVE: Final = 10
"""A percentile with fewer samples above it says more about luck than about the system."""


@dataclass(frozen=True)
class Measure:
    """`value` is in `unit`; `samples_above` (of a percentile) counts the samples that lie beyond it."""

    key: str
    name: str
    group: str
    title: str
    unit: str
    value: Callable[[TrialSummary], float | None]
    better: Better | None = None
    samples_above: Callable[[TrialSummary], float | None] = lambda _: None

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

    return Measure(f"{key}_{field}", f"{group} {title}", group, title, "ms", value, "lower", samples_above)


def produce_latency(trial: TrialSummary) -> Latency:
    return trial.produce.response_ns


def e2e_latency(trial: TrialSummary) -> Latency | None:
    return trial.e2e.response_ns if trial.e2e else None


def _maximum(trial: TrialSummary) -> float:
    return trial.produce.response_ns.max / NS_PER_MS


_PRODUCE: Final = "Produce latency"
_E2E: Final = "End-to-end latency"

OFFERED: Final = Measure("offered", "Offered load", "Load", "offered", "records/s", lambda t: t.offered_per_s)
ACHIEVED: Final = Measure(
    "achieved", "Throughput", "Load", "achieved", "records/s", lambda t: t.achieved_per_s, "higher"
)
BYTES: Final = Measure(
    "bytes",
    "Throughput in bytes",
    "Load",
    "achieved",
    "MiB/s",
    lambda t: t.achieved_bytes_per_s / BYTES_PER_MIB,
    "higher",
)
PRODUCE_P50: Final = _percentile("produce", _PRODUCE, "p50", 0.5, produce_latency)
PRODUCE_P99: Final = _percentile("produce", _PRODUCE, "p99", 0.01, produce_latency)
PRODUCE_P999: Final = _percentile("produce", _PRODUCE, "p99.9", 0.001, produce_latency)
PRODUCE_MAX: Final = Measure("produce_max", "Largest produce latency", _PRODUCE, "max", "ms", _maximum, "lower")
E2E_P50: Final = _percentile("e2e", _E2E, "p50", 0.5, e2e_latency)
E2E_P99: Final = _percentile("e2e", _E2E, "p99", 0.01, e2e_latency)
SYSTEM_CPU: Final = Measure(
    "system_cpu", "Broker CPU", "CPU", "broker", "cores", lambda t: t.host.system_cpu_ratio, "lower"
)
GENERATOR_CPU: Final = Measure(
    "generator_cpu", "Generator CPU", "CPU", "generator", "cores", lambda t: t.generator.cpu_ratio_max
)

TABLE: Final = (
    OFFERED,
    ACHIEVED,
    BYTES,
    PRODUCE_P50,
    PRODUCE_P99,
    PRODUCE_P999,
    PRODUCE_MAX,
    E2E_P50,
    E2E_P99,
    SYSTEM_CPU,
    GENERATOR_CPU,
)
"""The measures of the main table, in its order."""

HEADLINES: Final = (ACHIEVED, PRODUCE_P50, PRODUCE_P99, E2E_P50, E2E_P99, SYSTEM_CPU)
"""The measures that the findings compare."""
