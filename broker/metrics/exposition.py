"""Prometheus' text format (version 0.0.4) of one metric family at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from highwater.broker.counters import BOUNDS_MS, Histogram
from highwater.common.prometheus_text import Labels, labels_text

_NS_PER_MS: Final = 1_000_000

NO_LABELS: Final[Labels] = {}


def family(name: str, kind: str, help_text: str, samples: Iterable[tuple[Labels, float]]) -> str:
    """Return a counter or gauge; an empty text when it has no samples."""
    lines = family_samples(name, samples)
    return _head(name, kind, help_text) + lines if lines else ""


def family_samples(name: str, samples: Iterable[tuple[Labels, float]]) -> str:
    """Return more samples of a family whose header is already written."""
    return "".join([f"{name}{labels_text(labels)} {_number(value)}\n" for labels, value in samples])


def histogram_family(
    name: str, help_text: str, histograms: Iterable[tuple[Labels, Histogram]], *, units_per_ms: float = 1
) -> str:
    """Return histograms in ms, or in another unit with `units_per_ms` per ms."""
    bounds = [_number(bound * units_per_ms) for bound in BOUNDS_MS] + ["+Inf"]
    out: list[str] = []
    for labels, histogram in histograms:
        total = 0
        for bound, count in zip(bounds, histogram.counts, strict=True):
            total += count
            out.append(f"{name}_bucket{labels_text({**labels, 'le': bound})} {total}\n")
        suffix = labels_text(labels)
        out.append(f"{name}_sum{suffix} {_number(histogram.sum_ns / _NS_PER_MS * units_per_ms)}\n")
        out.append(f"{name}_count{suffix} {total}\n")
    return _head(name, "histogram", help_text) + "".join(out) if out else ""


def _head(name: str, kind: str, help_text: str) -> str:
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"
