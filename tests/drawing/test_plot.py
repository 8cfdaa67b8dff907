"""Drawing: nothing that matters is lost on the way from values to strokes."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from highwater.drawing import axes
from highwater.drawing.downsample import Point
from highwater.drawing.plot import (
    Band,
    Dot,
    DotGroup,
    DotRow,
    Level,
    Mark,
    Series,
    dot_panel,
    line_panel,
    path_data,
    spread_labels,
)
from tests.reports.parsing import parse_drawing

_SVG = "{http://www.w3.org/2000/svg}"


def drawn_points(path: str) -> list[tuple[float, float]]:
    """The way back: absolute points from relative steps, the way the page's script reads them."""
    found, x, y = [], 0.0, 0.0
    for command, rest in re.findall(r"([Mlh])([^Mlh]*)", path):
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", rest)]
        if command == "h":
            continue
        x, y = (numbers[0], numbers[1]) if command == "M" else (x + numbers[0], y + numbers[1])
        found.append((round(x, 1), round(y, 1)))
    return found


def test_a_lone_point_between_gaps_is_visible() -> None:
    assert path_data([Point(1, None), Point(2, 5), Point(3, None)]) == "M2 5h0"


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(0, 300)), min_size=1, max_size=300))
def test_relative_steps_never_add_up_rounding(points: list[tuple[float, float]]) -> None:
    back = drawn_points(path_data(Point(x, y) for x, y in points))
    assert back == [(round(round(x * 10) / 10, 1), round(round(y * 10) / 10, 1)) for x, y in points]


@given(st.lists(st.floats(0, 300), min_size=1, max_size=4))
def test_labels_at_line_ends_do_not_cover_each_other(wanted: list[float]) -> None:
    placed = spread_labels(wanted, 14, 20, 280)
    assert all(b - a >= 14 - 1e-6 for a, b in pairwise(sorted(placed)))
    assert all(20 - 1e-6 <= p <= 280 + 1e-6 for p in placed)
    assert sorted(range(len(wanted)), key=wanted.__getitem__) == sorted(range(len(placed)), key=placed.__getitem__)


def test_the_name_of_a_level_is_not_where_names_of_lines_are() -> None:
    series = [Series(slot, name, [Point(0, 5), Point(9, 6)]) for slot, name in enumerate(("p50", "p99"), start=1)]
    x, y = axes.linear("s", "", [0, 10]), axes.linear("ms", "ms", [0, 10])
    root = parse_drawing(line_panel("x", "t", "f", series, x, y, levels=[Level("p99 < 6 ms", 6)]))
    at = {str(text.text): float(str(text.get("x"))) for text in root.iter(f"{_SVG}text") if text.get("x")}
    assert at["p99 < 6 ms"] < 100 < at["p99"]


def test_series_differ_by_more_than_colour() -> None:
    axis = axes.linear("", "", [10.0])
    series = [Series(slot, f"cell {slot}", [Point(1, slot), Point(9, slot)], markers=True) for slot in (1, 2, 3, 4)]
    root = parse_drawing(line_panel("x", "title", "finding", series, axis, axis))
    lines = [p for p in root.iter(f"{_SVG}path") if p.get("data-name")]
    assert [p.get("class") for p in lines] == ["l s1 d1", "l s2 d2", "l s3 d3", "l s4 d4"]
    markers = [p.get("d", "") for p in root.iter(f"{_SVG}path") if "m" in (p.get("class") or "").split()]
    assert len({re.sub(r"M[\d.]+ [\d.]+", "", d)[:12] for d in markers}) == 4
    labels = [t.text for t in root.iter(f"{_SVG}text") if t.get("class") == "halo"]
    assert labels == ["cell 1", "cell 2", "cell 3", "cell 4"]


def test_warm_up_is_shaded_from_start_to_end() -> None:
    x, y = axes.seconds("s", 0, 20), axes.linear("", "", [10.0])
    series = [Series(1, "rate", [Point(0, 5), Point(20, 5)])]
    root = parse_drawing(line_panel("x", "t", "f", series, x, y, bands=[Band("warm-up", 0, 5)]))
    left, _, right, _ = (float(v) for v in (root.get("data-plot") or "").split())
    (band,) = [r for r in root.iter(f"{_SVG}rect") if r.get("class") == "band"]
    assert float(band.get("x", "")) == left
    assert abs(float(band.get("width", "")) - (right - left) / 4) < 0.11
    (label,) = [text for text in root.iter(f"{_SVG}text") if text.text == "warm-up"]
    assert float(label.get("y", "")) < float(band.get("y", "")), "above the plot, where no line is"


def test_every_trial_is_a_dot_and_an_unsound_one_a_cross() -> None:
    dots = [Dot(5.0, "trial 1", True), Dot(6.0, "trial 2", True), Dot(9.0, "trial 3: invalid", False)]
    panel = dot_panel("x", "t", "f", [DotRow("cell", [DotGroup(1, "p99", dots, 5.5)])], axes.linear("", "", [9.0]))
    root = parse_drawing(panel)
    marks = [p for p in root.iter(f"{_SVG}path") if p.find(f"{_SVG}title") is not None]
    assert [m.get("class") for m in marks] == ["m m1", "m m1", "m cross s0"]
    assert [m.findtext(f"{_SVG}title") for m in marks] == ["trial 1", "trial 2", "trial 3: invalid"]


def test_a_mark_is_a_link_to_its_words_where_it_happened() -> None:
    x, y = axes.seconds("s", 0, 20), axes.linear("", "", [10.0])
    marks = [Mark(5, "1", "a <leader> changed", "#m", "bad"), Mark(99, "2", "outside", "#n")]
    root = parse_drawing(line_panel("x", "t", "f", [Series(1, "rate", [Point(0, 5), Point(20, 5)])], x, y, marks=marks))
    left, top, right, _ = (float(v) for v in (root.get("data-plot") or "").split())
    (link,) = root.iter(f"{_SVG}a")
    assert (link.get("href"), link.get("aria-label"), link.get("class")) == ("#m", "a <leader> changed", "event bad")
    (line,) = link.iter(f"{_SVG}line")
    assert abs(float(line.get("x1", "")) - (left + (right - left) / 4)) < 0.11
    (flag,) = link.iter(f"{_SVG}rect")
    assert float(flag.get("y", "")) + float(flag.get("height", "")) < top, "above the plot, where no line is"
    assert root.get("role") == "group", "nothing within an img can be reached"


def test_a_series_of_the_right_axis_is_drawn_by_that_axis() -> None:
    x, y, right_y = axes.seconds("s", 0, 20), axes.linear("", "/s", [10.0]), axes.linear("", "ms", [1000.0])
    same = [
        Series(1, "rate", [Point(0, 5), Point(20, 5)]),
        Series(2, "time", [Point(0, 500), Point(20, 500)], on_right=True),
    ]
    root = parse_drawing(line_panel("x", "t", "f", same, x, y, right_y=right_y, end_labels=False))
    first, second = [p.get("d") for p in root.iter(f"{_SVG}path") if p.get("data-name")]
    assert first == second
    assert {"4", "400"} <= {text.text for text in root.iter(f"{_SVG}text")}


def test_a_long_label_is_cut_and_whole_in_its_title() -> None:
    label = "acks all " * 20
    panel = dot_panel("x", "t", "f", [DotRow(label, [])], axes.linear("", "", [9.0]))
    (text,) = [t for t in parse_drawing(panel).iter(f"{_SVG}text") if t.find(f"{_SVG}title") is not None]
    assert text.findtext(f"{_SVG}title") == label
    assert "".join(text.itertext()).endswith("…")
