"""Distances between two traces, with the bounds of a faithful replay. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from highwater.bench.workload.trace_directory import Pairs, RecordStatistics, Trace
from highwater.spark_loadgen.stamp import STAMP_BYTES
from highwater.studies.capture.fitting import judged_codec

RATE_MAX: Final = 0.02
KS_MAX: Final = 0.05
SHARE_MAX: Final = 0.01
BATCH_MAX: Final = 0.05
COMPRESSION_MAX: Final = 0.05
TOP_KEYS: Final = 100
_SHIFT_MS_MAX: Final = 1000
_STEP_MS: Final = 10
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distance:
    """before, after: the figure of each trace, where it has one. bound: None: shown, and not judged."""

    name: str
    distance: float
    bound: float | None
    before: float | None = None
    after: float | None = None

    @property
    def within(self) -> bool:
        return self.bound is None or self.distance <= self.bound


def distances(before: Trace, after: Trace, speed: float = 1.0, share: float = 1.0) -> list[Distance]:
    """The distances from a trace to that of its replay, at `speed` and with `share` of the records.

    At another speed or share batches are others by nature: they are shown and not judged then.
    """
    as_it_was = speed == share == 1.0
    found = [Distance("records each second", _rate_error(before, after, speed, share), RATE_MAX)]
    one, other = (trace.distributions.batches for trace in (before, after))
    means = [batches.stored_bytes / batches.count for batches in (one, other)]
    found.append(Distance("bytes of a batch, mean", _relative(*means), BATCH_MAX if as_it_was else None, *means))
    means = [sum(value * count for value, count in batches.records) / batches.count for batches in (one, other)]
    found.append(Distance("records of a batch, mean", _relative(*means), None, *means))
    if len(before.distributions.partitions) == len(after.distributions.partitions):
        shares = [_shares([each.records for each in trace.distributions.partitions]) for trace in (before, after)]
        found.append(Distance("shares of partitions", float(np.abs(shares[0] - shares[1]).sum() / 2), None))
    records, replayed = before.distributions.records, after.distributions.records
    if records is not None and replayed is not None:
        found += _of_records(records, replayed, judged_codec(before))
    return found


def _of_records(before: RecordStatistics, after: RecordStatistics, judged: str) -> Iterator[Distance]:
    sizes = [_with_stamps(records) for records in (before, after)]
    yield Distance("sizes of values", kolmogorov_smirnov(*sizes), KS_MAX)
    if before.key_bytes or after.key_bytes:
        yield Distance("sizes of keys", kolmogorov_smirnov(before.key_bytes, after.key_bytes), KS_MAX)
    if any(shape[0] for records in (before, after) for shape in records.headers):
        headers = [_header_bytes(records) for records in (before, after)]
        yield Distance("bytes of headers", kolmogorov_smirnov(*headers), KS_MAX)
    tops = [_top_share(records) for records in (before, after)]
    yield Distance(f"share of the {TOP_KEYS} hottest keys", abs(tops[0] - tops[1]), SHARE_MAX, *tops)
    nulls = [records.null_keys / _count(records) for records in (before, after)]
    yield Distance("share of records without a key", abs(nulls[0] - nulls[1]), SHARE_MAX, *nulls)
    for codec in sorted(before.compressibility.keys() & after.compressibility.keys()):
        ratios = [records.compressibility[codec].ratio for records in (before, after)]
        bound = COMPRESSION_MAX if codec == judged else None
        yield Distance(f"compressed by {codec}", abs(ratios[0] - ratios[1]), bound, *ratios)


def kolmogorov_smirnov(one: Pairs, other: Pairs) -> float:
    """The largest difference between two cumulative distributions; 1 if only one of them has anything."""
    if not one or not other:
        return float(bool(one) != bool(other))
    values = np.unique([value for pairs in (one, other) for value, _ in pairs])
    cumulated = []
    for pairs in (one, other):
        table = np.array(sorted(pairs), np.int64)
        sums = np.concatenate(([0.0], np.cumsum(table[:, 1], dtype=np.float64)))
        cumulated.append(sums[np.searchsorted(table[:, 0], values, side="right")] / sums[-1])
    return float(np.abs(cumulated[0] - cumulated[1]).max())


def _with_stamps(records: RecordStatistics) -> Pairs:
    """Sizes as a replay can have them: a value without room for its stamp becomes a stamp."""
    return [
        (STAMP_BYTES, records.null_values),
        *((max(size, STAMP_BYTES), count) for size, count in records.value_bytes),
    ]


def _header_bytes(records: RecordStatistics) -> Pairs:
    return [(names + values, count) for _, names, values, count in records.headers]


def _count(records: RecordStatistics) -> int:
    return max(1, records.null_values + sum(count for _, count in records.value_bytes))


def _top_share(records: RecordStatistics) -> float:
    """The share of the TOP_KEYS most frequent keys in the records with a key."""
    total = sum(count * keys for count, _, _, keys in records.keys.rows)
    left, top = TOP_KEYS, 0
    for count, _, _, keys in records.keys.rows:
        taken = min(left, keys)
        top += taken * count
        left -= taken
    return top / total if total else 0.0


def _relative(before: float, after: float) -> float:
    return abs(after - before) / before


def _shares(counts: Sequence[int]) -> _Floats:
    of = np.array(counts, np.float64)
    shares: _Floats = of / of.sum()
    return shares


def _rate_error(before: Trace, after: Trace, speed: float, share: float) -> float:
    """The sum of the differences of all seconds, as a share of all records, where the two are best aligned.

    A trace begins with its first record, and a replay a few milliseconds later or sooner: so the second one is shifted
    by up to a second.
    """
    bin_ms = before.manifest.bin_ms
    instants_ms = (np.arange(len(before.arrivals)) * bin_ms / speed).astype(np.int64)
    wanted = np.bincount(instants_ms // 1000, weights=before.arrivals * share)
    instants_ms = np.arange(len(after.arrivals)) * after.manifest.bin_ms
    replayed = np.bincount(instants_ms // _STEP_MS, weights=after.arrivals)
    bins, shift_max = 1000 // _STEP_MS, _SHIFT_MS_MAX // _STEP_MS
    best = np.inf
    for shift in range(-shift_max, shift_max + 1):
        moved = np.concatenate((np.zeros(shift), replayed)) if shift >= 0 else replayed
        early = replayed[:-shift].sum() if shift < 0 else 0.0
        moved = moved[-shift:] if shift < 0 else moved
        seconds = np.add.reduceat(moved, np.arange(0, len(moved), bins)) if len(moved) else np.zeros(0)
        length = max(len(seconds), len(wanted))
        difference = np.abs(np.pad(seconds, (0, length - len(seconds))) - np.pad(wanted, (0, length - len(wanted))))
        best = min(best, float(difference.sum() + early))
    return best / float(wanted.sum())
