"""Compares two sums of the same trials to the bucket: live and final, or final and a result directory. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from highwater.results.histogram import Histogram
from highwater.studies.telemetry.figures import second_figures, trial_figures
from highwater.studies.telemetry.sums import TrialSums

COUNTS: Final = ("sent", "acked", "acked_bytes", "failed", "received", "received_bytes")
_MOST_TOLD: Final = 20

K = TypeVar("K")
Series = Mapping[str, Mapping[int, Histogram]]


def differences_of_sums(one: TrialSums, other: TrialSums) -> list[str]:
    """What differs in buckets, counts, hosts or figures; empty if the two are equal to the bit."""
    found = [
        *_of_series(one.histograms, other.histograms),
        *_of_rows(one.counts, other.counts),
        *_of_rows({"cpu": one.cpu}, {"cpu": other.cpu}),
        *(f"samples of host {host}" for host in _unequal(one.hosts, other.hosts)),
        *(f"messages of task {task}" for task in _unequal(one.tasks, other.tasks)),
    ]
    ours, theirs = (second_figures(sums, range(sums.seconds)) for sums in (one, other))
    if one.closed == other.closed:
        found += [f"second {a.second}: figures" for a, b in zip(ours, theirs, strict=False) if repr(a) != repr(b)]
    first, second = trial_figures(one), trial_figures(other)
    for name in ("state", "latencies", "achieved_per_s", "consumed_per_s", "objectives"):
        if repr(getattr(first, name)) != repr(getattr(second, name)):
            found.append(f"{name}: {getattr(first, name)!r} and {getattr(second, name)!r}")
    return _shortened(found)


def differences_of_results(sums: TrialSums, histograms: Series, counts: Mapping[str, Mapping[int, int]]) -> list[str]:
    """What differs from the histogram logs and windows of a result directory; empty if all is equal to the bit."""
    known = {name: row for name, row in sums.counts.items() if name in COUNTS}
    return _shortened([*_of_series(sums.histograms, histograms), *_of_rows(known, counts)])


def _of_series(one: Series, other: Series) -> Iterator[str]:
    for metric in sorted({*one, *other}):
        ours, theirs = one.get(metric, {}), other.get(metric, {})
        for second in sorted({*ours, *theirs}):
            first, last = (list(h.items()) if h else [] for h in (ours.get(second), theirs.get(second)))
            if first != last:
                yield f"second {second}: {metric} has {_count(first)} records here and {_count(last)} there"


def _of_rows(one: Mapping[str, Mapping[int, int]], other: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    for name in sorted({*one, *other}):
        ours, theirs = one.get(name, {}), other.get(name, {})
        for second in sorted({*ours, *theirs}):
            if (first := ours.get(second, 0)) != (last := theirs.get(second, 0)):
                yield f"second {second}: {name} is {first} here and {last} there"


def _unequal(one: Mapping[K, object], other: Mapping[K, object]) -> list[str]:
    return sorted(str(key) for key in {*one, *other} if one.get(key) != other.get(key))


def _count(items: list[tuple[int, int]]) -> int:
    return sum(count for _, count in items)


def _shortened(found: list[str]) -> list[str]:
    return [*found[:_MOST_TOLD], f"{len(found) - _MOST_TOLD} more differences"] if len(found) > _MOST_TOLD else found
