"""The explorer: what an address asks for, series that are added and removed, times, values as data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from highwater.monitor.events import Event, EventKind
from highwater.monitor.history.database import open_history
from highwater.monitor.history.kinds import KINDS
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.history.tick import EntityKey, Tick
from highwater.monitor.history.writer import TickWriter
from highwater.monitor.users import Role
from highwater.monitor.web.explorer import Chosen, read_time, read_view, time_text
from highwater.monitor.web.history_charts import METRICS
from tests.monitor.clusters import HOSTILE_NAMES
from tests.monitor.history.ticks import START_MS, values_of
from tests.monitor.web.pages import web_app
from tests.monitor.web.test_pages import HOSTILE, Elements, history_of

NOW_MS = 1_790_000_000_000
BYTES = "s1=broker:size_bytes:1"


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[TestClient]:
    with web_app(tmp_path, HOSTILE, history_of(tmp_path, 20)) as web:
        yield web.browser(Role.VIEWER)


def links(page: str) -> dict[str, str]:
    """Addresses by the text of their links."""
    found: dict[str, str] = {}

    class Links(Elements):
        address = ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            super().handle_starttag(tag, attrs)
            self.address = (dict(attrs).get("href") or "") if tag == "a" else self.address

        def handle_endtag(self, tag: str) -> None:
            self.address = "" if tag == "a" else self.address

        def handle_data(self, data: str) -> None:
            super().handle_data(data)
            if self.address:
                found.setdefault(data.strip(), self.address)

    Links(page)
    return found


def lines_in(page: str) -> int:
    return sum(tag == "path" and "data-name" in found for tag, found in Elements(page).found)


def test_a_view_is_what_its_address_says() -> None:
    view = read_view({"s1": "broker:bytes_in.rate:1", "s3": "group:lag:a:b", "range": "2y"}, NOW_MS)
    assert view.series == (Chosen("broker", "bytes_in.rate", "1"), Chosen("group", "lag", "a:b"))
    assert view.span == (NOW_MS - 730 * 86_400_000, NOW_MS)
    assert not view.problem
    assert read_view(view.query(), NOW_MS) == view


@given(st.integers(0, 4_000_000_000), st.integers(10, 10**8))
def test_times_of_an_address_are_read_as_they_are_written(begin_s: int, length_s: int) -> None:
    begin_ms = 1000 * begin_s
    end_ms = min(begin_ms + 1000 * length_s, 4_102_444_800_000)
    query = {"from": time_text(begin_ms), "to": time_text(end_ms)}
    assert read_view(query, NOW_MS).span == (begin_ms, end_ms)
    assert read_time(str(begin_ms)) == begin_ms


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"s1": "broker:bytes_inn:1"}, "bytes_in"),
        ({"s1": "brocker:lag:1"}, "broker"),
        ({"s1": "group:verdict.rate:a"}, "no metric"),
        ({"s1": ":::"}, "no kind"),
        ({"from": "yesterday", "to": "2026-11-26T02:30:00"}, "A time is written as"),
        ({"from": "9" * 30}, "A time is written as"),
        ({"from": "-5", "to": "99"}, "A time is written as"),
        ({"from": "2026-11-26T02:30:00", "to": "2026-11-26T02:30:00"}, "must be 10 seconds before"),
        (
            {"s1": "broker:size_bytes:1", "s2": "broker:leaders:1", "s3": "broker:cpu_s.rate:1"},
            "two axes",
        ),
    ],
)
def test_what_is_wrong_in_an_address_has_a_sentence(query: dict[str, str], words: str) -> None:
    view = read_view(query, NOW_MS)
    assert words in view.problem
    assert view.span[0] < view.span[1]


def test_a_chart_has_the_series_of_its_address_on_two_axes(viewer: TestClient) -> None:
    page = viewer.get(f"/explorer?{BYTES}&s2=broker:leaders:1&s3=broker:size_bytes:2").text
    assert lines_in(page) == 3
    assert "size of its replicas" in page
    assert "Own axis" not in links(page), "there are two already"
    removed = viewer.get(links(page)["Remove"]).text
    assert lines_in(removed) == 2
    same = viewer.get(f"/explorer?{BYTES}&s2=broker:size_bytes:2").text
    apart = viewer.get(links(same)["Own axis"]).text
    assert lines_in(apart) == 2
    assert "Same axis" in links(apart)


def test_a_series_is_added_by_its_whole_name_or_chosen_among_names(viewer: TestClient) -> None:
    added = viewer.get(f"/explorer?{BYTES}&kind=group&metric=lag&name={quote(HOSTILE_NAMES[0], safe='')}")
    assert added.status_code == 303
    page = viewer.get(added.headers["location"]).text
    assert f"group:lag:{HOSTILE_NAMES[0]}" in [found.get("value") for _, found in Elements(page).found]
    found = viewer.get("/explorer?kind=group&metric=lag&name=SCRIPT").text
    assert HOSTILE_NAMES[0] in links(found)
    chosen = viewer.get(links(found)[HOSTILE_NAMES[0]]).text
    assert "<script>" not in chosen
    assert "whose name contains this" in viewer.get("/explorer?kind=group&metric=lag&name=nobody").text


def test_zoom_and_moves_are_links(viewer: TestClient) -> None:
    page = viewer.get(f"/explorer?{BYTES}&range=1h").text
    for name in ("Zoom in", "Zoom out", "Earlier", "6h"):
        answer = viewer.get(links(page)[name])
        assert answer.status_code == 200
        assert 'class="problem"' not in answer.text
    assert "Later" not in links(page), "nothing is later than now"
    assert "Later" in links(viewer.get(links(page)["Earlier"]).text)


def test_values_of_a_chart_are_data_too(viewer: TestClient) -> None:
    rows = viewer.get(f"/api/v1/explorer?{BYTES}").json()["rows"]
    assert {row["metric"] for row in rows} == {"size_bytes"}
    assert viewer.get(f"/csv/explorer?{BYTES}").text.count("\r\n") == len(rows) + 1
    address = links(viewer.get(f"/explorer?{BYTES}&s2=broker:leaders:1").text)["CSV"]
    assert "leaders" in viewer.get(address).text


def test_charts_of_pages_lead_to_the_explorer(viewer: TestClient) -> None:
    page = viewer.get(links(viewer.get("/broker?id=1").text)["Zoom"])
    assert page.status_code == 200
    assert 'class="problem"' not in page.text


def test_without_a_history_the_explorer_says_so(tmp_path: Path) -> None:
    with web_app(tmp_path, HOSTILE) as web:
        assert "There is no history" in web.browser(Role.VIEWER).get(f"/explorer?{BYTES}").text


def test_every_chart_of_a_page_is_a_series_of_the_explorer() -> None:
    for kind, metrics in METRICS.items():
        for metric in metrics:
            assert Chosen.parse(f"{kind}:{metric.name}:x").meaning


def test_a_groups_partition_is_marked_with_the_events_of_both(tmp_path: Path) -> None:
    database = open_history("sqlite", tmp_path)
    told = [
        Event(START_MS, EventKind.GROUP_REBALANCE, "group", "a/b", "the group rebalanced"),
        Event(START_MS, EventKind.LEADER_CHANGE, "partition", "orders-3", "the leader changed"),
        Event(START_MS, EventKind.LEADER_CHANGE, "partition", "orders-4", "another leader changed"),
    ]
    row = {EntityKey("group_partition", "a/b/orders-3", ""): values_of(KINDS["group_partition"], lag=7)}
    TickWriter(database).write(Tick(START_MS, {"group_partition": row}, told))
    query = f"s1=group_partition:lag:a/b/orders-3&from={START_MS - 60_000}&to={START_MS + 60_000}"
    with web_app(tmp_path, HOSTILE, HistoryReader(database)) as web:
        page = Elements(web.browser(Role.VIEWER).get(f"/explorer?{query}").text).text
    assert "the group rebalanced" in page
    assert "the leader changed" in page
    assert "another leader changed" not in page


def test_a_young_history_is_shown_whole_and_an_old_one_by_the_hour() -> None:
    now, minute = 10_000_000, 60_000
    young = read_view({}, now, now - 5 * minute)
    assert (young.span, young.range, young.times) == ((now - 5 * minute, now), "all", {"range": "all"})
    assert read_view({"range": "1h"}, now, now - 5 * minute).span == (now - 60 * minute, now), "as it was asked"
    assert read_view({}, now, now - 90 * minute).range == "1h"
    assert read_view({"range": "all"}, now, now - 90 * minute).span == (now - 90 * minute, now)
    assert read_view({"range": "all"}, now).range == "1h", "without a history there is no all"
