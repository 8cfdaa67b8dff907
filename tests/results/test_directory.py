"""What is written comes back: histograms through HdrHistogram's own reader, windows, summaries."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from highwater.results import checksums
from highwater.results.files import ResultDirectoryError
from highwater.results.histogram import Histogram
from highwater.results.histogram_log import (
    empty_histogram,
    histogram_of,
    mean_of,
    read_histogram,
    write_histograms,
)
from highwater.results.reader import RunResult
from highwater.results.writer import ResultWriter

VALUES = [0, 1, 999, 2047, 2048, 123_456, 5_000_000, 5_000_001, 999_999_999, 3_599_999_999_999]


def test_converted_histograms_equal_those_that_recorded_the_values_themselves() -> None:
    ours = Histogram.of_values(VALUES * 3)
    converted = histogram_of(ours.indices, ours.counts)
    recorded = empty_histogram()
    for value in VALUES:
        recorded.record_value(value, 3)
    assert converted.get_total_count() == recorded.get_total_count() == 30
    assert np.array_equal(np.frombuffer(converted.counts, np.uint64), np.frombuffer(recorded.counts, np.uint64))
    percentiles = [0, 25, 50, 90, 99, 99.9, 100]
    assert converted.get_percentile_to_value_dict(percentiles) == recorded.get_percentile_to_value_dict(percentiles)
    assert (converted.get_max_value(), converted.get_min_value(), converted.get_mean_value()) == (
        recorded.get_max_value(),
        recorded.get_min_value(),
        recorded.get_mean_value(),
    )
    assert mean_of(converted) == recorded.get_mean_value()
    assert mean_of(empty_histogram()) == 0
    for percentile in percentiles:
        assert ours.percentile(percentile) == recorded.get_value_at_percentile(percentile)


def test_logs_are_read_by_hdrhistograms_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "produce_response.hlog"
    seconds = {0: [1_000_000] * 5, 1: [2_000_000] * 7, 3: VALUES}
    histograms = {second: Histogram.of_values(values) for second, values in seconds.items()}
    histograms[2] = Histogram.of_values([])
    write_histograms(path, {second: histogram_of(item.indices, item.counts) for second, item in histograms.items()})

    reader = HistogramLogReader(str(path), HdrHistogram(1, 3_600_000_000_000, 3))
    found = {}
    while (interval := reader.get_next_interval_histogram()) is not None:
        assert interval.get_end_time_stamp() - interval.get_start_time_stamp() == 1000
        found[interval.get_start_time_stamp() / 1000] = interval.get_total_count()
    reader.close()
    assert found == {0.0: 5, 1.0: 7, 3.0: len(VALUES)}

    assert read_histogram(path, 0, 2).get_total_count() == 12
    assert read_histogram(path, 1, 3).get_value_at_percentile(50) == histograms[1].percentile(50)
    out = io.BytesIO()
    read_histogram(path, 0, 4).output_percentile_distribution(out, 1_000_000.0)
    assert b"TotalCount     =       22" in out.getvalue()


def test_a_log_without_values_is_empty_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "e2e_response.hlog"
    write_histograms(path, {})
    assert read_histogram(path, 0, 100).get_total_count() == 0


def test_a_directory_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("")
    with pytest.raises(ResultDirectoryError, match=r"is not empty; name a new directory with --out"):
        ResultWriter(tmp_path)
    with pytest.raises(ResultDirectoryError, match=r"cannot make the result directory .*; name another with --out"):
        ResultWriter(tmp_path / "something" / "below")


def test_a_run_that_came_to_nothing_leaves_its_directory_free(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path / "out")
    writer.trial_directory("t1")
    for model in ("manifest", "env", "probes", "analysis", "search", "calibration"):
        (writer.directory / f"{model}.json").write_text("{}")
    checksums.write(writer.directory)
    writer.discard()
    ResultWriter(tmp_path / "out")


def test_a_directory_without_results_leaves_nothing(tmp_path: Path) -> None:
    writer = ResultWriter(tmp_path / "out")
    writer.remove_if_empty()
    assert not (tmp_path / "out").exists()
    with pytest.raises(ResultDirectoryError, match=r"it has no manifest\.json"):
        RunResult(tmp_path / "out")
