"""Logs read as arrays hold what HdrHistogram's own reader finds in them; damaged ones are refused by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from highwater.results.histogram import Histogram
from highwater.results.histogram_log import histogram_of, write_histograms
from highwater.results.interval_arrays import read_interval_arrays


def written(path: Path, seconds: dict[int, Histogram]) -> Path:
    write_histograms(path, {second: histogram_of(item.indices, item.counts) for second, item in seconds.items()})
    return path


def test_intervals_are_those_of_hdrhistograms_reader(tmp_path: Path) -> None:
    random = np.random.default_rng(23)
    seconds = {
        second: Histogram.of_values(np.exp(random.normal(14, 2 + second % 3, 500 * second)).astype(np.int64))
        for second in range(1, 20)
    }
    seconds[20] = Histogram.of_values([0, 0, 3_600_000_000_000])
    huge = Histogram.of_values([5_000])
    seconds[21] = Histogram(huge.indices, huge.counts * (1 << 40))
    path = written(tmp_path / "x.hlog", seconds)

    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    theirs = {}
    while (interval := reader.get_next_interval_histogram()) is not None:
        counts = np.frombuffer(interval.counts, np.uint64)
        theirs[interval.get_start_time_stamp() / 1000] = (np.flatnonzero(counts), counts[counts > 0])
    reader.close()
    ours = {start_s: (item.indices, item.counts) for start_s, item in read_interval_arrays(path).intervals()}
    assert list(ours) == list(theirs) == [float(second) for second in seconds]
    for start_s, (indices, counts) in theirs.items():
        assert np.array_equal(ours[start_s][0], indices)
        assert np.array_equal(ours[start_s][1], counts)


def test_a_log_without_values_has_no_intervals(tmp_path: Path) -> None:
    assert read_interval_arrays(written(tmp_path / "x.hlog", {})).intervals() == []


@pytest.mark.parametrize(
    "spoil", [lambda line: line[:-9], lambda line: line.split(",")[0], lambda line: line.replace("HIST", "HISU")]
)
def test_a_damaged_log_is_refused_with_its_line(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    path = written(tmp_path / "x.hlog", {second: Histogram.of_values([second * 1000]) for second in (1, 2)})
    lines = path.read_text().splitlines()
    lines[-1] = spoil(lines[-1])
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"^line {len(lines)}: "):
        read_interval_arrays(path)
