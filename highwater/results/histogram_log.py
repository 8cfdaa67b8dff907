"""HdrHistogram V2 interval logs (.hlog): one interval per second since T0, values in ns.

The format is HdrHistogram's own (histogram log format 1.2), so that other tools can read the files. The load generator
counts in HdrHistogram's bucket layout, so values are not rounded twice.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from numpy.typing import NDArray

from highwater.results.histogram import Histogram

LOWEST_VALUE_NS: Final = 1
HIGHEST_VALUE_NS: Final = 3_600_000_000_000  # one hour
SIGNIFICANT_FIGURES: Final = 3

_NS_PER_MS: Final = 1_000_000
_DAMAGED: Final = (HdrCookieException, HdrHistogramSettingsException, HdrLengthException)


def empty_histogram() -> HdrHistogram:
    return HdrHistogram(LOWEST_VALUE_NS, HIGHEST_VALUE_NS, SIGNIFICANT_FIGURES)


def histogram_of(indices: NDArray[np.int64], counts: NDArray[np.int64]) -> HdrHistogram:
    """A histogram with `counts` at these rising bucket indices."""
    histogram = empty_histogram()
    if len(indices):
        np.frombuffer(histogram.counts, dtype=np.uint64)[indices] = counts
        histogram.set_internal_tacking_values(int(indices[0]), int(indices[-1]), int(counts.sum()))
    return histogram


def sparse(histogram: HdrHistogram) -> Histogram:
    """The same values in the load generator's form, whose percentiles and mean are the ones of all results."""
    return Histogram.of_dense(np.frombuffer(histogram.counts, dtype=np.uint64).astype(np.int64))


def mean_of(histogram: HdrHistogram) -> float:
    """HdrHistogram's mean over the middles of buckets; unlike the library's method this skips empty buckets."""
    return sparse(histogram).mean


def percentile_spectrum(histogram: HdrHistogram, ticks_per_half_distance: int) -> Iterator[tuple[float, int, int]]:
    """HdrHistogram's percentile iterator: percentile, highest value up to it, count up to that value.

    The library's iterator visits every bucket, also empty ones; this one steps from percentile to percentile.
    """
    counts = np.frombuffer(histogram.counts, dtype=np.uint64)
    indices = np.flatnonzero(counts)
    if not len(indices):
        return
    reached = np.cumsum(counts[indices])
    percentiles = 100.0 * reached / reached[-1]
    level = 0.0
    while True:
        at = int(np.searchsorted(percentiles, level))
        value = histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(indices[at])))
        yield level, value, int(reached[at])
        if at == len(indices) - 1:
            yield 100.0, value, int(reached[at])
            return
        half_distance = 2.0 ** (math.log(100 / (100.0 - level)) / math.log(2) + 1)
        level += 100.0 / (ticks_per_half_distance * half_distance)


def write_histograms(path: Path, histograms: Mapping[int, HdrHistogram] | Mapping[float, HdrHistogram]) -> None:
    """Write one interval per second, in order of time. Seconds without values are left out."""
    with path.open("w", encoding="ascii") as file:
        file.write("#[Histogram log format version 1.2]\n")
        # Without this line, readers count from the first interval with a value, and select the wrong seconds.
        file.write("#[StartTime: 0.000 (seconds since epoch)]\n")
        file.write("#[Intervals are seconds since the agreed start of the load; values are nanoseconds]\n")
        file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
        for second, histogram in sorted(histograms.items()):
            if histogram.get_total_count():
                max_ms = histogram.get_max_value() / _NS_PER_MS
                file.write(f"{second:.3f},1.000,{max_ms:.6f},{histogram.encode().decode('ascii')}\n")


def read_histogram(path: Path, start_s: float, end_s: float) -> HdrHistogram:
    """Sum of the intervals of `path` that start in [start_s, end_s).

    Raises OSError when the file is missing, ValueError when it is damaged.
    """
    total = empty_histogram()
    for interval_start_s, interval in _intervals(path):
        if start_s <= interval_start_s < end_s:
            total.add(interval)
    return total


def read_seconds(path: Path) -> dict[int, Histogram]:
    """Every interval of `path` by its second. Raises the errors of `read_histogram`."""
    return {round(start_s): sparse(interval) for start_s, interval in _intervals(path)}


def _intervals(path: Path) -> Iterator[tuple[float, HdrHistogram]]:
    """(start in seconds, histogram) of every interval."""
    reader = HistogramLogReader(str(path), empty_histogram())
    try:
        while (interval := reader.get_next_interval_histogram()) is not None:
            yield interval.get_start_time_stamp() / 1000, interval
    except (*_DAMAGED, TypeError, IndexError, zlib.error) as error:
        raise ValueError(str(error) or type(error).__name__) from error
    finally:
        reader.close()
