"""Progress reports of Spark as counts, rates, lag and one line."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.pipeline.run.progress import FlowProgress, lag_of


def report(batch: int, rows: int, second: int, **more: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2026-01-05T09:00:{second:02}.000Z",
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": 2.0 * rows,
        "stateOperators": [],
        "sources": [{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 7}, "#ids": {"t": "x"}}}],
        **more,
    }


def test_reports_are_counted_once() -> None:
    progress = FlowProgress("keep")
    assert progress.line() == "keep: waits for its first batch"
    first, second = report(0, 1000, 1), report(1, 500, 2)
    assert progress.add([first])
    assert progress.add([first, second])
    assert not progress.add([first, second])
    assert (progress.rows_in, progress.batches, progress.last_batch) == (1500, 2, 1)
    assert progress.line() == "keep: 1,500 rows up to batch 1 (1,000/s), lag 2"


def test_an_idle_report_keeps_the_rate_and_is_no_batch() -> None:
    progress = FlowProgress("keep")
    progress.add([report(3, 1000, 1), report(3, 0, 11)])
    assert (progress.batches, progress.rows_per_s) == (1, 2000.0)


def test_state_watermark_and_late_rows_are_in_the_line() -> None:
    progress = FlowProgress("keep")
    operators = [
        {"operatorName": "stateStoreSave", "numRowsTotal": 12, "numRowsDroppedByWatermark": 3},
        {"operatorName": "globalLimit", "numRowsTotal": 1},
    ]
    watermark = {"watermark": "2026-01-05T08:59:50.000Z"}
    progress.add([report(0, 10, 1, stateOperators=operators, eventTime=watermark, sources=[])])
    assert progress.line() == (
        "keep: 10 rows up to batch 0 (20/s), lag –, rows in state: 13, dropped as late: 3 groups of rows, "
        "watermark 2026-01-05T08:59:50Z"
    )


@pytest.mark.parametrize(
    ("dropped", "late"),
    [
        ({"stateStoreSave": 0, "dedupe": 0}, ""),
        ({"dedupe": 1}, "1 row"),
        ({"symmetricHashJoin": 1200, "dedupeWithinWatermark": 1}, "1,201 rows"),
        # Of an aggregation Spark counts one row for all that a batch brings of a window and key.
        ({"sessionWindowStateStoreSaveExec": 1}, "1 group of rows"),
        ({"stateStoreSave": 3, "dedupe": 2}, "2 rows and 3 groups of rows"),
    ],
)
def test_what_is_dropped_as_late_is_called_what_spark_counts(dropped: dict[str, int], late: str) -> None:
    progress = FlowProgress("keep")
    operators = [
        {"operatorName": name, "numRowsTotal": 0, "numRowsDroppedByWatermark": count} for name, count in dropped.items()
    ]
    progress.add([report(0, 10, 1, stateOperators=operators)])
    assert progress.late == late


def test_a_watermark_that_has_not_moved_is_left_out() -> None:
    progress = FlowProgress("keep")
    progress.add([report(0, 10, 1, eventTime={"watermark": "1970-01-01T00:00:00.000Z"})])
    assert "watermark" not in progress.line()


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ({"t": {"0": 5, "1": 2}}, {"t": {"0": 5, "1": 4}}, 2),
        ('{"t": {"0": 5}}', '{"t": {"0": 9}}', 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}, 3),
        ({"t": {"0": 5}}, None, None),
        (7, 9, None),
        ("no json", "no json", None),
        ({"offset": 1}, {"offset": 2}, None),
    ],
)
def test_the_lag_is_what_brokers_have_beyond_the_batch(end: object, latest: object, lag: int | None) -> None:
    assert lag_of(end, latest) == lag
