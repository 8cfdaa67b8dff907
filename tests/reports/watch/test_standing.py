"""How a run stands: the lines of its live figures as bands, and as points that stay few."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.common.live_figures import Chart
from highwater.reports.watch.standing import MOST_STRETCHES, Standing

RATE = Chart("rate", "Records", "/s", ["acknowledged"])
LAG = Chart("lag", "Lag", "", ["lag"], is_peak=True)


def begun() -> Standing:
    standing = Standing()
    charts = [{"name": "rate", "title": "Records", "unit": "/s", "lines": ["acknowledged"]}]
    standing.take([{"at": 100.0, "title": "quick", "again": "", "charts": charts}])
    return standing


def told(at: float, **figures: float) -> dict[str, Any]:
    return {"at": at, "now": f"at {at}", "figures": {name.replace("_", "."): value for name, value in figures.items()}}


def test_lines_become_points_bands_and_words() -> None:
    standing = begun()
    standing.take([{"at": 101.0, "begin": "1 acks=all"}, told(101.0, rate_acknowledged=5), told(102.5, lag_lag=3)])
    assert standing.charts[0].lines == ["acknowledged"]
    assert standing.points(RATE, "acknowledged") == [(101.5, 5.0)]
    assert standing.points(LAG, "lag") == [(102.5, 3.0)]
    assert standing.bands() == [("1 acks=all", 101.0, 102.5)], "a trial that goes on reaches to now"
    assert (standing.words, standing.finished) == ("at 102.5", None)
    standing.take([{"at": 104.0, "end": True}, {"at": 105.0, "finished": "done"}])
    assert standing.bands() == [("1 acks=all", 101.0, 104.0)]
    assert standing.finished == "done"


@pytest.mark.parametrize("end_after_s", [5.0, 4.2], ids=["later", "in the second of the last report"])
def test_a_line_is_interrupted_where_a_trial_ended(end_after_s: float) -> None:
    standing = begun()
    for start in (101.0, 111.0):
        standing.take([{"at": start, "begin": "trial"}, told(start, rate_acknowledged=1)])
        standing.take([told(start + 4, rate_acknowledged=2), {"at": start + end_after_s, "end": True}])
    ys = [point.y for point in standing.points(RATE, "acknowledged")]
    assert ys == [1.0, 2.0, None, 1.0, 2.0], "and not where a report was late"


def test_a_long_run_has_few_points_with_means_and_peaks() -> None:
    standing = begun()
    for second in range(4 * MOST_STRETCHES):
        at = 100.0 + second
        standing.take([told(at, rate_acknowledged=float(second % 4), lag_lag=float(second % 4))])
    assert standing.stretch_s == 4
    rates, lags = standing.points(RATE, "acknowledged"), standing.points(LAG, "lag")
    assert len(rates) == MOST_STRETCHES
    assert {point.y for point in rates} == {1.5}
    assert {point.y for point in lags} == {3.0}
    assert (rates[0].x, rates[-1].x) == (102.0, 100.0 + 4 * MOST_STRETCHES - 2)
