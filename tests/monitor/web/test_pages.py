"""What the pages show: hostile names, old and missing snapshots, tables as data, history."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from highwater.common.units import NONE
from highwater.monitor.alerts.keeper import AlertKeeper
from highwater.monitor.events import Event, EventKind
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.figures.findings import KAFKA
from highwater.monitor.figures.rows import Duration, Finding, FindingKind, LagVerdict, Level, Sentence
from highwater.monitor.history.database import open_history
from highwater.monitor.history.kinds import GROUP
from highwater.monitor.history.reader import HistoryReader
from highwater.monitor.history.rows import rows_of
from highwater.monitor.history.tick import Tick
from highwater.monitor.history.writer import TickWriter
from highwater.monitor.model import NO_LEADER, ConfigValue, Snapshot, SourceState, Topic
from highwater.monitor.users import Role
from highwater.monitor.web import cells, words
from highwater.monitor.web.alert_tables import alerts_table
from highwater.monitor.web.app import ROUTES
from highwater.monitor.web.cluster_pages import distribution, group_counts
from highwater.monitor.web.history_charts import METRICS
from highwater.monitor.web.routing import Route
from highwater.monitor.web.tables import as_csv, as_objects
from highwater.monitor.web.topic_tables import config_table, differs_from_default
from tests.monitor.clusters import HOSTILE_NAMES, LONGEST_TOPIC, SMALL, UNIX_START_MS, Shape, partition, window
from tests.monitor.web.pages import Web, seen, web_app

STYLE = Path(cells.__file__).parent / "static" / "monitor.css"
HOSTILE = Shape(brokers=4, topics=30, partitions=120, groups=40, hostile=True, ill=0.1)
ALLOWED_ELEMENTS = frozenset(
    """
    a bdi body br button code dd details div dl dt figcaption figure footer form h1 h2 h3 head header html input label
    li link main meta nav ol p pre script section span summary table tbody td th thead time title tr ul
    """.split()  # noqa: SIM905 - one word a string would be forty lines
)
DRAWN_ELEMENTS = frozenset(["circle", "desc", "g", "line", "path", "polyline", "rect", "svg", "text", "title"])


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web_app(tmp_path_factory.mktemp("web"), HOSTILE) as made:
        yield made


@pytest.fixture(scope="module")
def viewer(web: Web) -> TestClient:
    return web.browser(Role.VIEWER)


class Elements(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def every_page(web: Web) -> list[str]:
    snapshot, _ = seen(HOSTILE)
    plain = ["/", "/brokers", "/topics?rows=1000", "/groups?rows=1000", "/events", "/alerts", "/about", "/broker?id=0"]
    plain += ["/retries", "/clients", "/transactions", "/search", "/search?q=o"]
    plain += [f"/search?q={quote(HOSTILE_NAMES[0][:6], safe='')}"]
    topics = [f"/topic?name={quote(name, safe='')}" for name in list(snapshot.topics)[:6]]
    groups = [f"/group?name={quote(name, safe='')}" for name in snapshot.groups]
    hosts = ["/headroom", "/hosts", *(f"/host?name={quote(name, safe='')}" for name in snapshot.hosts)]
    return plain + topics + groups + hosts


def test_a_hostile_name_becomes_text_on_every_page(web: Web, viewer: TestClient) -> None:
    for path in every_page(web):
        answer = viewer.get(path)
        assert answer.status_code == 200, path
        elements = Elements(answer.text)
        unknown = {tag for tag, _ in elements.found} - ALLOWED_ELEMENTS - DRAWN_ELEMENTS
        assert not unknown, (path, unknown)
        for tag, attributes in elements.found:
            assert not any(key.startswith("on") or key == "style" for key in attributes), (path, tag, attributes)
            for key in ("href", "src", "action"):
                address = attributes.get(key) or ""
                assert address == "" or address.startswith(("/", "#")), (path, address)
                assert not address.startswith("//")
        assert not re.search(r"\b1 (members|partitions|topics|offsets|ticks|CPUs|hosts|bytes)\b", elements.text), path
        scripts = [attributes for tag, attributes in elements.found if tag == "script"]
        assert scripts == [{"src": "/static/monitor.js", "defer": None}]


def test_every_hostile_group_has_a_page_that_names_it_and_isolates_its_direction(viewer: TestClient) -> None:
    for name in HOSTILE_NAMES:
        page = viewer.get("/group", params={"name": name}).text
        shown = name.replace("\u202e", "\ufffd")
        assert " ".join(shown.split()) in " ".join(Elements(page).text.split())
        assert "\u202e" not in page
        heading = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
        assert heading is not None
        assert "<bdi" in heading[1]


def test_every_page_of_a_session_names_the_cluster(web: Web) -> None:
    admin = web.browser(Role.ADMIN)
    for path in ("/", "/users", "/account", "/zookeeper", "/topics"):
        assert "monitors <bdi>" in admin.get(path).text, path
    assert "monitors" not in web.browser().get("/login").text


def test_a_name_from_right_to_left_does_not_move_the_words_after_it() -> None:
    text = cells.prose("Group مجموعة-الفواتير, ..-__--..-1: Nobody reads: 1,353 <b>")
    assert text == (
        '<bdi dir="ltr" class="long">Group <bdi>مجموعة-الفواتير</bdi>, ..-__--..-1: Nobody reads: 1,353 &lt;b&gt;</bdi>'
    )


def test_only_a_long_name_may_be_broken_anywhere() -> None:
    assert cells.name_text("127.0.0.1:39029") == "<bdi>127.0.0.1:39029</bdi>"
    assert cells.name_text("t" * 249).startswith('<bdi class="long">')
    # Without this rule of the style the class would do nothing.
    assert "table bdi.long { white-space: normal; overflow-wrap: anywhere; }" in STYLE.read_text()


def test_a_long_topic_is_found_by_its_name_and_shown_whole(viewer: TestClient) -> None:
    assert LONGEST_TOPIC in viewer.get("/topics", params={"q": "ttttt"}).text
    assert viewer.get("/topic", params={"name": LONGEST_TOPIC}).status_code == 200


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/topic?name=nothing", "no topic"),
        ("/topic", "no topic"),
        ("/group?name=%3Cb%3E", "no group"),
        ("/broker?id=99", "no broker"),
        ("/broker?id=x", "no broker"),
        ("/host?name=%3Cb%3E", "no host"),
        ("/broker?id=%C2%B2", "no broker"),
    ],
)
def test_what_is_not_there_has_a_page_that_says_so(viewer: TestClient, path: str, sentence: str) -> None:
    answer = viewer.get(path)
    assert answer.status_code == 404
    assert sentence in answer.text
    assert "<b>" not in answer.text


def test_before_the_first_snapshot_every_page_says_so(tmp_path: Path) -> None:
    with web_app(tmp_path, shape=None) as web:
        viewer = web.browser(Role.VIEWER)
        assert "has not read the state of the cluster yet" in viewer.get("/").text
        assert viewer.get("/topics").status_code == 503
        assert web.browser().get("/healthz").text == "ok\n"
        assert web.browser().get("/readyz").status_code == 503
        assert viewer.get("/api/v1/topics").json()["error"].startswith("The monitor has not read")


def test_of_a_cluster_that_never_answered_the_overview_knows_nothing(tmp_path: Path) -> None:
    empty = replace(seen(SMALL)[0], brokers={}, topics={}, groups={})
    with web_app(tmp_path, view=(empty, derive([empty]))) as web:
        page = web.browser(Role.VIEWER).get("/").text
        for title in ("Brokers", "Partitions", "Groups"):
            assert f'<h2>{title}</h2><p class="figure">–</p>' in page
        assert "The cluster has no groups." not in page
        assert "all in sync" not in page


def test_the_overview_does_not_praise_groups_that_nobody_judged_yet(tmp_path: Path) -> None:
    with web_app(tmp_path) as web:
        verdicts = {row.verdict for row in seen(SMALL)[1].groups.values()}
        assert verdicts == {LagVerdict.OK, LagVerdict.UNKNOWN}
        page = web.browser(Role.VIEWER).get("/").text
        assert "None is seen to fall behind; " in page
        assert "All groups keep up." not in page


def test_a_page_of_many_says_first_how_many_need_a_look(viewer: TestClient) -> None:
    for path, noun in (("/topics", "topic"), ("/groups", "group"), ("/brokers", "broker")):
        lead = re.search(r'<h1>.*?</h1>\s*<p class="lead">(.*?)</p>', viewer.get(path).text)
        assert lead is not None
        assert re.search(
            rf"(\d+ of \d+ {noun}s needs? attention|All \d+ {noun}s are healthy|cannot be judged)", lead[1]
        ), lead[1]


def test_no_replica_on_a_broker_that_is_gone_is_in_sync() -> None:
    offline = partition("t", replicas=(0, 1), leader=NO_LEADER, isr=(1,))
    brokers, marks = distribution(Topic("t", "", False, (offline,)), alive={0}) or ([], [])
    assert (brokers, marks) == ([0, 1], [(0, ["out of sync", "out of sync"])])


def test_an_old_snapshot_says_since_when(web: Web, viewer: TestClient) -> None:
    taken_s = seen(HOSTILE)[0].taken_at_ms / 1000
    web.clock.now_s = taken_s + 29
    fresh = viewer.get("/topics")
    assert "No news since" not in fresh.text
    web.clock.now_s = taken_s + 31
    try:
        tagged = {"if-none-match": fresh.headers["etag"]}
        old = viewer.get("/topics", headers=tagged)
        assert old.status_code == 200
        assert "No news since" in old.text
        assert viewer.get("/api/v1/topics").json()["is_stale"] is True
        assert web.browser().get("/readyz").status_code == 503
        web.clock.now_s = taken_s
        assert web.browser().get("/readyz").status_code == 200
    finally:
        web.clock.now_s = UNIX_START_MS / 1000 + 60


def test_a_page_is_sent_again_only_with_another_snapshot(viewer: TestClient) -> None:
    for path in ("/", "/topics", "/api/v1/groups", "/csv/brokers"):
        tag = viewer.get(path).headers["etag"]
        again = viewer.get(path, headers={"if-none-match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert viewer.get(path, headers={"if-none-match": '"another"'}).status_code == 200


@pytest.mark.parametrize("route", [r for r in ROUTES if r.path.startswith("/api/")], ids=lambda route: route.path)
def test_every_table_is_the_same_as_json_and_as_csv(viewer: TestClient, route: Route) -> None:
    path = route.path
    if path == "/api/v1/cluster":
        assert viewer.get(path).json()["topics"] == 30
        return
    if path == "/api/v1/zookeeper":
        assert "names no ZooKeeper" in viewer.get(path).json()["error"]
        return
    hostile = {"name": HOSTILE_NAMES[0]}
    of = {"topic": {"name": "orders.region-00000.v1"}, "group": hostile, "host": hostile, "broker": {"id": "1"}}
    params = {**of.get(path.split("/")[3], {}), "rows": "1000"}
    rows = viewer.get(path, params=params).json()["rows"]
    text = viewer.get(path.replace("/api/v1/", "/csv/"), params=params)
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    assert text.headers["content-disposition"].startswith("attachment")
    written = list(csv.DictReader(io.StringIO(text.text)))
    assert len(written) == len(rows)
    for line, row in zip(written, rows, strict=True):
        assert {key: value.removeprefix("'") for key, value in line.items()} == {
            key: _as_csv(value) for key, value in row.items()
        }


def _as_csv(value: object) -> str:
    if value is None:
        return ""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value).removeprefix("'")


def test_a_table_links_to_the_data_that_it_shows(viewer: TestClient) -> None:
    page = viewer.get("/topics", params={"q": "orders", "sort": "-size"}).text
    assert 'href="/csv/topics?q=orders&amp;sort=-size"' in page
    rows = viewer.get("/api/v1/topics", params={"q": "orders", "sort": "-size"}).json()["rows"]
    sizes = [row["size"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert viewer.get("/api/v1/topics", params={"q": "size>x"}).status_code == 400
    assert viewer.get("/csv/topics", params={"q": "size>x"}).status_code == 400
    assert "size is a number" in viewer.get("/topics", params={"q": "size>x"}).text


def test_secrets_of_settings_are_not_shown() -> None:
    secret = ConfigValue("hunter2", "DYNAMIC_BROKER_CONFIG", default="hunter1", is_sensitive=True)
    table = config_table("broker/config", {"ssl.key.password": secret}, "")
    shown = [column.text(row) for row in table.rows for column in table.columns]
    for text in (*shown, as_csv(table, table.rows), str(as_objects(table, table.rows))):
        assert "hunter" not in text


def test_where_a_setting_comes_from_is_said_in_words_and_exactly_as_data() -> None:
    table = config_table("topic/config", {"min.insync.replicas": ConfigValue("2", "STATIC_BROKER_CONFIG")}, "")
    assert "file of the broker" in [column.text(row) for row in table.rows for column in table.columns]
    assert as_objects(table, table.rows)[0]["source"] == "STATIC_BROKER_CONFIG"


def test_tables_have_headers_and_pages_have_landmarks(viewer: TestClient) -> None:
    page = viewer.get("/topics?sort=-size").text
    assert 'aria-sort="descending"' in page
    assert '<th scope="col"' in page
    assert '<th scope="row"' in page
    for landmark in ("<header>", "<main ", "<nav ", '<html lang="en">', 'class="skip"', 'aria-current="page"'):
        assert landmark in page
    controls = [(tag, found) for tag, found in Elements(page).found if tag in ("input", "select")]
    assert all(found.get("type") == "hidden" or "id" in found or "aria-label" in found for _, found in controls)


def history_of(folder: Path, ticks: int) -> HistoryReader:
    database = open_history("sqlite", folder)
    writer = TickWriter(database)
    snapshot, figures = seen(HOSTILE)
    hostile = Event(
        UNIX_START_MS, EventKind.GROUP_REBALANCE, "group", HOSTILE_NAMES[0], f"group {HOSTILE_NAMES[0]} left"
    )
    for number in range(ticks):
        at_ms = snapshot.taken_at_ms - (ticks - number - 1) * 60_000
        writer.write(Tick(at_ms, rows_of(snapshot, figures), [hostile] if number == 0 else []))
    return HistoryReader(database)


def test_pages_draw_the_history_and_list_its_events(tmp_path: Path) -> None:
    with web_app(tmp_path, HOSTILE, history_of(tmp_path, 20)) as web:
        viewer = web.browser(Role.VIEWER)
        for path in (
            "/broker?id=1",
            "/host?name=h1",
            "/topic?name=orders.region-00000.v1",
            "/group?name=billing-00001",
        ):
            page = viewer.get(f"{path}&range=1h").text
            assert '<svg xmlns="http://www.w3.org/2000/svg" class="chart"' in page, path
            assert 'aria-current="true">1h' in page
            assert re.search(r"<figcaption>.* at the end, at most .*</figcaption>", page), path
        assert "&lt;script&gt;alert(1)&lt;/script&gt; left" in viewer.get("/events").text
        assert "&lt;script&gt;alert(1)&lt;/script&gt; left" in viewer.get("/").text
        assert re.search(r'class="spark".*</svg><p class="note">.* now</p>', viewer.get("/").text)
        assert viewer.get("/api/v1/events").json()["rows"][0]["kind"] == "group_rebalance"
        assert "group_rebalance" in viewer.get("/csv/events?q=kind:rebal").text


def alerting(folder: Path, snapshot: Snapshot, figures: Figures, finding: Finding) -> AlertKeeper:
    """A keeper that has seen the finding in each tick of the last ten minutes."""
    keeper = AlertKeeper(folder)
    for late_ms in range(0, 600_001, 15_000):
        found = replace(figures, findings=(finding,), at_ms=figures.at_ms + late_ms)
        keeper.told(snapshot, replace(found, taken_at_ms=figures.taken_at_ms - 600_000 + late_ms))
    return keeper


def test_the_page_of_one_thing_says_since_when_and_what_changed(tmp_path: Path) -> None:
    snapshot, figures = seen(SMALL)
    name = next(iter(snapshot.groups))
    stopped = figures.groups[name]._replace(verdict=LagVerdict.STOP, level=Level.ERROR)
    figures = replace(figures, groups={**figures.groups, name: stopped})
    keeper = alerting(
        tmp_path, snapshot, figures, Finding(FindingKind.LAG, Level.ERROR, f"group {name}", "It is stopped.")
    )
    began = words.clock_time(snapshot.taken_at_ms - 600_000)
    database = open_history("sqlite", tmp_path)
    event = Event(snapshot.taken_at_ms - 60_000, EventKind.GROUP_REBALANCE, "group", name, f"group {name} rebalanced")
    other = Event(snapshot.taken_at_ms - 50_000, EventKind.GROUP_GONE, "group", "x", "group x is gone")
    TickWriter(database).write(Tick(snapshot.taken_at_ms, {}, [event, other]))
    with web_app(tmp_path, view=(snapshot, figures), history=HistoryReader(database), alerts=keeper) as web:
        viewer = web.browser(Role.VIEWER)
        page = viewer.get("/group", params={"name": name}).text
        parts = (
            "<h1>Group ",
            f"stopped since {began}, 10 min<",
            f"group {name} rebalanced",
            'href="#commands"',
            '<section id="commands">',
        )
        order = [page.index(part) for part in parts]
        assert order == sorted(order)
        assert "group x is gone" not in page
        broker = viewer.get("/broker?id=1").text
        assert " since " not in broker
        assert "Nothing has happened in the last 24 hours." in broker


def test_a_group_with_an_open_alert_is_never_only_not_judged_yet(tmp_path: Path) -> None:
    snapshot, figures = seen(SMALL)
    name = next(iter(snapshot.groups))
    finding = Finding(FindingKind.LAG, Level.WARN, f"group {name}", "It falls behind.")
    keeper = alerting(tmp_path, snapshot, figures, finding)
    unjudged = {
        each: row._replace(verdict=LagVerdict.UNKNOWN, level=Level.UNKNOWN) for each, row in figures.groups.items()
    }
    restarted = replace(figures, groups=unjudged, findings=(), window_ms=10_000)
    began = words.clock_time(snapshot.taken_at_ms - 600_000)
    expected = f"falling behind since {began}; not judged again yet, watched for 10 s"
    with web_app(tmp_path, view=(snapshot, restarted), alerts=keeper) as web:
        viewer = web.browser(Role.VIEWER)
        for path in (f"/group?name={name}", "/"):
            assert expected in viewer.get(path).text
        other = next(each for each in unjudged if each != name)
        assert '<span class="state unknown">not judged yet</span></h1>' in viewer.get(f"/group?name={other}").text


def test_a_broker_that_is_gone_says_since_its_event_and_how_often(tmp_path: Path) -> None:
    snapshot, figures = seen(SMALL)
    node_id = next(iter(snapshot.brokers))
    finding = Finding(FindingKind.BROKER_GONE, Level.ERROR, f"broker {node_id}", "It is gone.")
    full = Finding(FindingKind.DISK_FULL, Level.WARN, f"broker {node_id}", "Its disk is full soon.")
    gone = replace(figures.brokers[node_id], is_alive=False, level=Level.ERROR, if_it_dies=None)
    figures = replace(figures, brokers={**figures.brokers, node_id: gone}, findings=(finding, full))
    keeper = alerting(tmp_path, snapshot, figures, finding)
    began_ms = snapshot.taken_at_ms - 600_000
    database = open_history("sqlite", tmp_path)
    ages_ms = (2 * 3_600_000, 1_200_000, 900_000, 600_000)
    went = [(snapshot.taken_at_ms - age_ms, str(node_id)) for age_ms in ages_ms] + [(began_ms, "77")]
    TickWriter(database).write(
        Tick(snapshot.taken_at_ms, {}, [Event(at, EventKind.BROKER_GONE, "broker", of, "gone") for at, of in went])
    )
    with web_app(tmp_path, view=(snapshot, figures), history=HistoryReader(database), alerts=keeper) as web:
        viewer = web.browser(Role.VIEWER)
        since = f"since {words.clock_time(began_ms)}, 10 min"
        page = viewer.get(f"/broker?id={node_id}").text
        assert f"gone {since}; the 3rd time in 1 h<" in page
        assert "If this broker dies" not in page, "it is dead"
        assert f"<h2>Directories, as of {words.clock_time(began_ms)}, before it went</h2>" in page
        assert ">Start it again. If it will not come back" in page
        assert f"S{since[1:]}." in viewer.get("/").text
    figures = replace(figures, findings=(full, finding))
    (tmp_path / "again").mkdir()
    with web_app(tmp_path / "again", view=(snapshot, figures), history=HistoryReader(database), alerts=keeper) as web:
        others = web.browser(Role.VIEWER).get("/").text.partition('<ul class="findings">')[2].partition("</ul>")[0]
        assert f'It is gone.</bdi> <span class="note">S{since[1:]}.</span>' in others


def test_a_page_of_one_topic_counts_what_a_cause_did_to_all(tmp_path: Path) -> None:
    """A part of the events would give a sentence whose figures are of different things."""
    snapshot, figures = seen(SMALL)
    at_ms = snapshot.taken_at_ms - 60_000
    names = list(snapshot.topics)[:2]
    moved = [
        Event(at_ms, EventKind.LEADER_CHANGE, "partition", f"{name}-{number}", f"{name}-{number}: …", "3", "1")
        for name in names
        for number in range(4)
    ]
    shrunk = Event(at_ms, EventKind.ISR_SHRINK, "cluster", "c", "30 partitions: …", "3", " (a-0 and 29 more)")
    gone = Event(at_ms, EventKind.BROKER_GONE, "broker", "3", "broker 3 is gone")
    database = open_history("sqlite", tmp_path)
    TickWriter(database).write(Tick(at_ms, rows_of(snapshot, figures), [gone, shrunk, *moved]))
    with web_app(tmp_path, view=(snapshot, figures), history=HistoryReader(database)) as web:
        page = web.browser(Role.VIEWER).get("/topic", params={"name": names[0]}).text
    whole = "broker 3 is gone: 8 partitions have new leaders, 30 have a copy less"
    assert page.count(f"{whole}</bdi></summary>") == 2, "among changes, and among the marks of charts"
    assert "4 partitions have" not in page


def test_the_overview_says_of_each_group_once_what_is_wrong(tmp_path: Path) -> None:
    snapshot, figures = seen(SMALL)
    rows = {
        name: row._replace(verdict=LagVerdict.STOP, level=Level.ERROR, reason=Sentence(str, (f"Nobody reads {name}.",)))
        for name, row in figures.groups.items()
    }
    findings = tuple(
        Finding(FindingKind.LAG, Level.ERROR, f"group {name}", f"Group {name} has stopped. Nobody reads {name}.")
        for name in rows
    )
    bad = replace(figures, groups=rows, findings=findings, sentence=findings[0].sentence, level=Level.ERROR)
    with web_app(tmp_path, view=(snapshot, bad)) as web:
        page = web.browser(Role.VIEWER).get("/").text
    assert len(rows) > 1
    assert [page.count(f"Nobody reads {name}.") for name in rows] == [1] * len(rows)
    assert "stopped</span>" in page
    assert f"{len(rows) - 1} more problem" in page
    listed = page.partition('<ul class="findings">')[2].partition("</ul>")[0]
    assert listed.count("<li>") == len(rows) - 1


def test_a_broker_without_an_answer_is_on_its_card(tmp_path: Path) -> None:
    snapshot, _ = seen(SMALL)
    silent = replace(snapshot, brokers={**snapshot.brokers, 0: replace(snapshot.brokers[0], error="it is silent")})
    with web_app(tmp_path, view=(silent, derive([silent]))) as web:
        assert "1 without an answer; " in web.browser(Role.VIEWER).get("/").text


def test_a_broker_that_refuses_connections_leads() -> None:
    snapshot, _ = seen(SMALL)
    refusing = replace(snapshot.brokers[0], error="broker h1:9092 cannot be reached: Connection refused")
    figures = derive([replace(snapshot, brokers={**snapshot.brokers, 0: refusing}, controller=None)])
    assert figures.level is Level.ERROR
    assert "does not answer: broker h1:9092 cannot be reached: Connection refused." in figures.sentence


def test_headroom_without_ceilings_does_not_say_that_brokers_are_unknown(tmp_path: Path) -> None:
    snapshot, figures = seen(SMALL)
    with web_app(tmp_path, view=(snapshot, replace(figures, headroom=()))) as web:
        assert "the monitor&#39;s file names neither" in web.browser(Role.VIEWER).get("/headroom").text


def test_the_time_to_catch_up_agrees_with_the_trend() -> None:
    (row, *_) = seen(SMALL)[1].groups.values()
    reads = row._replace(lag=170, never_catches_up=True, level=Level.OK, produced_per_s=12.0, consumed_per_s=9.1)
    assert (words.trend(12.0, 9.1), words.catch_up(reads)) == ("↗ +2.9/s", "never at these rates")
    assert words.catch_up(reads._replace(consumed_per_s=11.5)) == "lag stays as it is"
    assert words.catch_up(reads._replace(level=Level.UNKNOWN)) == NONE, "who was never seen to read may yet"


def test_charts_are_as_wide_as_the_time_that_the_history_has(tmp_path: Path) -> None:
    with web_app(tmp_path, HOSTILE, history_of(tmp_path, 11)) as web:
        viewer = web.browser(Role.VIEWER)
        for chosen in ("1h", "30d"):
            spans = re.findall(r'data-x="linear ([0-9]+) ([0-9]+) s"', viewer.get(f"/broker?id=1&range={chosen}").text)
            assert spans, chosen
            assert {int(to_s) - int(from_s) for from_s, to_s in spans} == {600}
        page = viewer.get("/").text
        assert "<h2>The last 10 min</h2>" in page
        drawn = re.findall(r'class="l s1" d="M([0-9.]+) ', page)
        assert drawn
        assert "0" in drawn
    (tmp_path / "new").mkdir()
    with web_app(tmp_path / "new", HOSTILE, history_of(tmp_path / "new", 1)) as web:
        assert "<h2>The last 1 min</h2>" in web.browser(Role.VIEWER).get("/").text


def test_events_of_one_cause_are_one_line_that_unfolds(tmp_path: Path) -> None:
    at_ms = UNIX_START_MS
    moved = [
        Event(at_ms, EventKind.LEADER_CHANGE, "partition", f"orders-{number}", f"orders-{number}: …", "3", "1")
        for number in range(17)
    ]
    gone = Event(at_ms, EventKind.BROKER_GONE, "broker", "3", "broker 3 is gone")
    database = open_history("sqlite", tmp_path)
    TickWriter(database).write(Tick(at_ms, {}, [gone, *moved]))
    with web_app(tmp_path, HOSTILE, HistoryReader(database)) as web:
        viewer = web.browser(Role.VIEWER)
        for path in ("/", "/events"):
            page = viewer.get(path).text
            assert page.count("broker 3 is gone: 17 partitions have new leaders</bdi></summary>") == 1, path
            assert page.count("orders-16: …") == 1, path
        assert "1–1 of 1" in viewer.get("/events").text
        # A filter and programs look for single events.
        assert "1–17 of 17" in viewer.get("/events?q=kind:leader").text
        assert len(viewer.get("/api/v1/events").json()["rows"]) == 18


def test_a_figure_of_a_silent_cluster_has_its_time_and_not_now(tmp_path: Path) -> None:
    snapshot, figures = seen(HOSTILE)
    as_of_ms = snapshot.taken_at_ms - 240_000
    silent = replace(snapshot, sources={KAFKA: SourceState(KAFKA, as_of_ms, "it refuses connections")})
    finding = Finding(FindingKind.SOURCE_SILENT, Level.ERROR, f"source {KAFKA}", "Source kafka does not answer.")
    view = silent, replace(figures, findings=(finding,))
    with web_app(tmp_path, HOSTILE, history_of(tmp_path, 20), view=view) as web:
        notes = re.findall(r'class="spark".*</svg><p class="note">(.*)</p>', web.browser(Role.VIEWER).get("/").text)
    assert notes
    assert all(note.endswith(f"last, {words.clock_time(as_of_ms)}") for note in notes)


def test_an_age_from_a_short_watch_is_not_known_and_a_gap_in_the_chart() -> None:
    ages = [
        (Duration(10_000, is_least=True), "not known yet: watched for 10 s", None),
        (Duration(1_800_000, is_least=True), "more than 30 min", 1800.0),
        (Duration(10_000), "10 s", 10.0),
    ]
    _, figures = seen(SMALL)
    row = next(iter(figures.groups.values()))
    (lag_s,) = (column for column in GROUP.columns if column.name == "lag_s")
    for age, text, stored in ages:
        assert words.age(age) == text
        assert lag_s.read(row._replace(lag_time=age)) == stored


def test_an_amount_has_the_unit_of_its_chart() -> None:
    assert words.amount(1536, "B/s") == "1.5 KiB/s"
    assert words.amount(61_260, "offsets") == "61,260 offsets"
    assert [words.amount(1, unit) for unit in ("partitions", "offsets/s", "s", "/s")] == [
        "1 partition",
        "1 offsets/s",
        "1 s",
        "1/s",
    ]


def test_a_mark_in_a_chart_leads_to_its_words_without_a_script(tmp_path: Path) -> None:
    with web_app(tmp_path, HOSTILE, history_of(tmp_path, 20)) as web:
        page = Elements(web.browser(Role.VIEWER).get(f"/group?name={quote(HOSTILE_NAMES[0], safe='')}").text)
        targets = [found["href"] for tag, found in page.found if tag == "a" and found.get("class") == "event"]
        assert len(targets) == len(METRICS["group"])
        ids = [found["id"] for _, found in page.found if "id" in found]
        assert all(target and target[1:] in ids for target in targets)
        assert f"group {HOSTILE_NAMES[0]} left" in page.text


def test_a_history_that_is_not_there_or_is_empty_has_words(tmp_path: Path, viewer: TestClient) -> None:
    assert "There is no history" in viewer.get("/broker?id=1").text
    assert "There is no history" in viewer.get("/events").text
    with web_app(tmp_path, HOSTILE, history_of(tmp_path, 0)) as web:
        browser = web.browser(Role.VIEWER)
        assert "The history has nothing for this time yet" in browser.get("/broker?id=1").text
        assert "Nothing has happened" in browser.get("/events").text


def test_a_history_that_fails_is_said_and_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    reader = history_of(tmp_path, 2)
    (tmp_path / "broken").mkdir()
    for file in tmp_path.glob("history*"):
        if file.is_file():
            file.write_bytes(b"not a database" * 1000)
    with web_app(tmp_path, HOSTILE, reader) as web:
        page = web.browser(Role.VIEWER).get("/topic?name=orders.region-00000.v1")
        assert page.status_code == 200
        assert "Partitions" in page.text


def test_alerts_that_are_open_and_what_opened_and_closed_are_shown(tmp_path: Path) -> None:
    keeper = AlertKeeper(tmp_path)
    snapshots = window(HOSTILE, ticks=30)
    for number in range(1, len(snapshots)):
        keeper.told(snapshots[number], derive(snapshots[max(0, number - 3) : number + 1]))
    assert keeper.open()
    with web_app(tmp_path, HOSTILE, alerts=keeper) as web:
        viewer = web.browser(Role.VIEWER)
        page = Elements(viewer.get("/alerts").text).text
        assert keeper.open()[0].sentence in page
        assert "opened" in page
        opened = viewer.get("/api/v1/alerts").json()["rows"]
        assert [row["subject"] for row in opened] == [alert.subject for alert in keeper.open()][:50]
        assert viewer.get("/api/v1/alerts/notices").json()["rows"][0]["change"] == "opened"
        assert viewer.get("/api/v1/findings").json()["rows"]
    figures = derive(snapshots[-4:])
    assert any(row.is_found for row in alerts_table(keeper.open(), figures).rows)
    assert not any(row.is_found for row in alerts_table(keeper.open(), replace(figures, findings=())).rows)


def test_without_a_keeper_of_alerts_the_page_shows_what_is_found(viewer: TestClient) -> None:
    page = viewer.get("/alerts").text
    assert "Found in the newest snapshot" in page
    assert "Opened and closed" not in page


@pytest.mark.parametrize(
    ("config", "differs"),
    [
        (ConfigValue("3", "STATIC_BROKER_CONFIG", default="3"), False),
        (ConfigValue("3", "STATIC_BROKER_CONFIG", default="1"), True),
        (ConfigValue("3", "STATIC_BROKER_CONFIG"), True),
        (ConfigValue("3", "DEFAULT_CONFIG", default="3"), False),
        (ConfigValue(None, "STATIC_BROKER_CONFIG", is_sensitive=True), True),
    ],
)
def test_a_setting_that_was_set_to_its_default_does_not_differ(config: ConfigValue, differs: bool) -> None:
    assert differs_from_default(config) is differs


def test_the_card_of_groups_counts_the_worst_first_and_those_of_open_alerts_apart() -> None:
    counts = {LagVerdict.OK: 3, LagVerdict.UNKNOWN: 2, LagVerdict.STOP: 1}
    assert group_counts(counts, 0) == ["1 stopped", "2 not judged yet", "3 OK"]
    assert group_counts(counts, 2) == ["2 with an open alert, not judged again yet", "1 stopped", "3 OK"]
