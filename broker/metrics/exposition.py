"""Prometheus' text format (version 0.0.4) of one metric family at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.broker.counters import BOUNDS_MS, Histogram
from highwater.common.prometheus_text import Labels, head, number_text, sample

_NS_PER_MS: Final = 1_000_000

NO_LABELS: Final[Labels] = {}


def family(name: str, kind: str, help_text: str, samples: Iterable[tuple[Labels, float]]) -> str:
    """Return a counter or gauge; an empty text when it has no samples."""
    lines = family_samples(name, samples)
    return head(name, kind, help_text) + lines if lines else ""


def family_samples(name: str, samples: Iterable[tuple[Labels, float]]) -> str:
    """Return more samples of a family whose header is already written."""
    return "".join([sample(name, labels, value) for labels, value in samples])


def histogram_family(
    name: str, help_text: str, histograms: Iterable[tuple[Labels, Histogram]], *, units_per_ms: float = 1
) -> str:
    """Return histograms in ms, or in another unit with `units_per_ms` per ms."""
    bounds = [number_text(bound * units_per_ms) for bound in BOUNDS_MS] + ["+Inf"]
    out: list[str] = []
    for labels, histogram in histograms:
        total = 0
        for bound, count in zip(bounds, histogram.counts, strict=True):
            total += count
            out.append(sample(f"{name}_bucket", {**labels, "le": bound}, total))
        out.append(sample(f"{name}_sum", labels, histogram.sum_ns / _NS_PER_MS * units_per_ms))
        out.append(sample(f"{name}_count", labels, total))
    return head(name, "histogram", help_text) + "".join(out) if out else ""
