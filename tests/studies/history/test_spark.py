"""Spark lines of known series."""

from __future__ import annotations

import pytest

from highwater.studies.history.spark import spark_line


@pytest.mark.parametrize(
    ("values", "changes", "line"),
    [
        ([1, 2, 3, 4, 5], (), "▁▂▃▅▇"),
        ([1.0], (), "▃"),
        ([100, 101, 100, 99], (), "▃▅▃▂"),
        ([1, None, 5], (), "▁·▇"),
        ([1, 1, 5, 5], (2,), "▁▁|▇▇"),
        ([0, 0, 0], (), "▁▁▁"),
        ([None, None], (), "··"),
        ([], (), ""),
    ],
)
def test_a_line_shows_what_matters(values: list[float | None], changes: tuple[int, ...], line: str) -> None:
    assert spark_line(values, changes) == line


def test_a_long_series_shows_its_end() -> None:
    assert spark_line([1.0] * 40 + [2.0], changes=(40,), most=4) == "▁▁▁|▇"
