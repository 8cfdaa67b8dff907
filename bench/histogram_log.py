"""HdrHistogram V2 interval logs (.hlog): one interval per second since T0, values in ns.

The format is HdrHistogram's own (histogram log format 1.2), so that other people's tools read our files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

LOWEST_VALUE_NS: Final = 1
HIGHEST_VALUE_NS: Final = 3_600_000_000_000  # one hour
SIGNIFICANT_FIGURES: Final = 3


def empty_histogram() -> HdrHistogram:
    return HdrHistogram(LOWEST_VALUE_NS, HIGHEST_VALUE_NS, SIGNIFICANT_FIGURES)


def read_histogram(path: Path, start_s: float, end_s: float) -> HdrHistogram:
    """Sum of the intervals of `path` that start in [start_s, end_s). Raises OSError when the file is missing."""
    total = empty_histogram()
    reader = HistogramLogReader(str(path), empty_histogram())
    try:
        while (interval := reader.get_next_interval_histogram()) is not None:
            interval_start_s = interval.get_start_time_stamp() / 1000
            if start_s <= interval_start_s < end_s:
                total.add(interval)
    finally:
        reader.close()
    return total
