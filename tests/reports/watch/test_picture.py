"""The page of a run that goes on: its sentence, its charts on one time axis, and nothing from elsewhere."""

from __future__ import annotations

import re
from dataclasses import asdict

from highwater.common.live_figures import Chart
from highwater.reports.watch.picture import NARROW, WIDE, picture, sentence, shell
from highwater.reports.watch.standing import Standing

CHARTS = [
    Chart("rate", "Records", "/s", ["acknowledged"], reference="offered"),
    Chart("disk", "Disks", "B/s", ["written"]),
    Chart("empty", "Nothing", "", ["never"]),
]
NOON_S = 1_800_000_000.0
AGAIN = "highwater bench run a.yaml --resume 'results/<a>'"


def standing() -> Standing:
    found = Standing()
    found.take([{"at": NOON_S, "title": "<b>quick</b>", "again": AGAIN, "charts": [asdict(chart) for chart in CHARTS]}])
    for trial in range(2):
        at = NOON_S + 40 * trial
        found.take([{"at": at, "begin": f"{trial + 1} acks=all"}])
        for second in range(30):
            figures = {"rate.acknowledged": 123456.0, "rate.offered": 200000.0, "disk.written": 3 * 2.0**20}
            words = f"Trial {trial + 1} of 2 <acks>: 84 MiB/s; about 3 min left."
            found.take([{"at": at + second, "now": words, "figures": figures}])
        found.take([{"at": at + 30, "end": True}])
    return found


def test_the_first_line_says_how_the_run_stands_and_names_are_escaped() -> None:
    html = picture(standing(), "running", NOON_S + 71, WIDE)
    assert re.search(r"<h1[^>]*>Trial 2 of 2 &lt;acks&gt;: 84\N{NO-BREAK SPACE}MiB/s; about", html)
    assert "&lt;b&gt;quick&lt;/b&gt;" in html
    assert "<b>quick" not in html


def test_charts_share_one_time_axis_whose_labels_are_below_the_last() -> None:
    html = picture(standing(), "running", NOON_S + 71, WIDE)
    plots = [text.split(" ") for text in re.findall(r'data-plot="([^"]+)"', html)]
    assert len(plots) == 2, "a chart without a figure is left out"
    assert len({(left, right) for left, _, right, _ in plots}) == 1
    assert len(set(re.findall(r'data-x="([^"]+)"', html))) == 1
    assert html.count("UTC</text>") == 1
    assert html.index("UTC</text>") > html.index("Disks")
    assert html.count('class="band"') == 4, "two trials in two charts"
    assert html.count("1 acks=all") == 1, "and their names once"


def test_the_newest_figures_are_told_with_their_units() -> None:
    run = standing()
    assert "acknowledged <b></b>" in picture(run, "running", NOON_S + 71, WIDE), "between trials they are of the past"
    figures = {"rate.acknowledged": 123456.0, "disk.written": 3 * 2.0**20}
    run.take([{"at": NOON_S + 72, "begin": "3"}, {"at": NOON_S + 73, "now": "x", "figures": figures}])
    html = picture(run, "running", NOON_S + 73, WIDE)
    assert "acknowledged <b>123,456/s</b>" in html
    assert "written <b>3 MiB/s</b>" in html
    assert "Disks, MiB/s" in html


def test_on_a_telephone_bands_have_numbers_alone() -> None:
    html = picture(standing(), "running", NOON_S + 400, NARROW)
    assert 'width="350"' in html
    assert re.findall(r'class="faint"[^>]*>([^<]*)<', html) == ["1", "2"]


def test_a_run_that_died_says_since_when() -> None:
    words = sentence(standing(), "died", NOON_S + 190)
    assert words == (
        "The run died 2 min ago: its process ended after 08:01:10 UTC, before the run was over. "
        "Before: Trial 2 of 2 <acks>: 84 MiB/s."
    )
    html = picture(standing(), "died", NOON_S + 190, WIDE)
    assert 'class="headline bad"' in html
    assert "<code>highwater bench run a.yaml --resume &#39;results/&lt;a&gt;&#39;</code>" in html
    assert "--resume" not in picture(standing(), "running", NOON_S + 71, WIDE)


def test_a_run_that_tells_nothing_for_long_is_said_to() -> None:
    assert "written nothing" not in picture(standing(), "running", NOON_S + 75, WIDE)
    assert "The run has written nothing for 1 min 10 s." in picture(standing(), "running", NOON_S + 140, WIDE)


def test_before_the_first_figure_there_is_a_sentence_alone() -> None:
    assert "<figure>" not in picture(Standing(), "running", NOON_S, WIDE)
    assert "The run begins." in picture(Standing(), "running", NOON_S, WIDE)


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = shell()
    assert "connect-src &#39;self&#39;" in page
    assert "unsafe" not in page
    assert not re.search(r"(?:src|href)=", page)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
