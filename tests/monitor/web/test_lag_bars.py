"""The lag of a group as bars: what is high, what is not known, and what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

from highwater.monitor.figures.cluster import derive
from highwater.monitor.figures.rows import GroupPartitionFigures, LagVerdict, Level
from highwater.monitor.users import Role
from highwater.monitor.web.lag_bars import lag_bars
from tests.monitor.clusters import group, partition, snapshot, topic
from tests.monitor.web.pages import web_app

ENDS = (100, 40, 0, 70)
SEEN = snapshot(
    topics=[topic("orders", *(partition("orders", number, end=end) for number, end in enumerate(ENDS)))],
    groups=[group("billing", {("orders", 0): 10, ("orders", 1): 40, ("orders", 2): 0})],
)
ROWS = derive([SEEN]).group_partitions["billing"]


def test_a_bar_is_as_high_as_the_lag_and_what_is_not_known_is_no_zero() -> None:
    unread, read = (row for row in ROWS if row.partition in (0, 1))
    none = read._replace(partition=3, lag=None)
    (bars,) = lag_bars([unread._replace(verdict=LagVerdict.STOP, level=Level.ERROR), read, none])
    assert bars.summary == "Most in partition 0: 90; 1 stopped; 1 not known."
    assert bars.drawing is not None
    heights = re.findall(r'class="bar( bad)?[^"]*".*? height="([0-9.]+)"', bars.drawing)
    assert [(bool(bad), float(height) > 0) for bad, height in heights] == [(True, True), (False, False)]
    assert bars.drawing.count("–</text>") == 1


def test_topics_with_the_most_lag_come_first_and_no_more_than_six() -> None:
    rows = [ROWS[0]._replace(topic=f"t{number}", lag=number) for number in range(9)]
    assert [each.topic for each in lag_bars(rows)] == ["t8", "t7", "t6", "t5", "t4", "t3"]


def test_a_topic_that_is_too_wide_or_not_known_has_words() -> None:
    def only(row: GroupPartitionFigures) -> tuple[str, bool]:
        (bars,) = lag_bars([row])
        return bars.summary, bars.drawing is None

    row = next(row for row in ROWS if row.lag)
    assert only(row._replace(partition=5000)) == (
        "Most in partition 5000: 90. There are too many partitions to draw.",
        True,
    )
    assert only(row._replace(lag=None)) == ("Not known: no partition has a commit.", True)


def test_the_page_of_a_group_draws_its_lag(tmp_path: Path) -> None:
    with web_app(tmp_path, view=(SEEN, derive([SEEN]))) as web:
        page = web.browser(Role.VIEWER).get("/group?name=billing").text
    assert "Most in partition 0: 90" in page
    assert 'class="bar' in page
