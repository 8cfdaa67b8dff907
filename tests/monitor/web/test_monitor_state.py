"""What pages say of the monitor itself: a paused history, a failed tick, its cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from starlette.testclient import TestClient

from highwater.monitor.history.writer import HistoryState
from highwater.monitor.state import Cost, MonitorState
from highwater.monitor.users import Role, Users
from highwater.monitor.web.app import make_app
from highwater.monitor.web.site import Settings
from tests.monitor.clusters import SMALL, UNIX_START_MS
from tests.monitor.web.pages import CHEAP, ORIGIN, PASSWORD, log_in, seen

STATE = MonitorState(
    started_ms=UNIX_START_MS,
    tick_s=15.0,
    ticks=7,
    cost=Cost(rss_bytes=64 << 20, cpu_s=2.5, cpu_share=0.015, tick_ms=120.0, requests=13),
    history=HistoryState("history.db"),
)


def pages_with(folder: Path, state: MonitorState, *paths: str) -> list[str]:
    users = Users(folder / "users.db", cost=CHEAP)
    users.add("admin", PASSWORD, Role.ADMIN)
    view = seen(SMALL)
    now_ms = view[0].taken_at_ms
    app = make_app(lambda: view, None, users, Settings(now_ms=lambda: now_ms), lambda: state)
    client = TestClient(app, ORIGIN, follow_redirects=False, client=("127.0.0.1", 50000))
    assert log_in(client, "admin").status_code == 303
    found = [client.get(path).text for path in paths]
    users.close()
    return found


def test_every_page_says_that_the_history_is_paused_and_why(tmp_path: Path) -> None:
    paused = HistoryState("history.db", paused_since_ms=UNIX_START_MS, reason="<b>database is locked", missed_ticks=3)
    for page in pages_with(tmp_path, replace(STATE, history=paused), "/", "/topics", "/about"):
        assert "History paused since 2026-" in page
        assert "&lt;b&gt;database is locked. 3 ticks are missing." in page


def test_a_tick_that_failed_and_a_damaged_file_are_told(tmp_path: Path) -> None:
    noted = replace(STATE, error="no snapshot", history=HistoryState("history.db", note="It was set aside as X."))
    (page,) = pages_with(tmp_path, noted, "/")
    assert "The newest tick failed: no snapshot" in page
    assert "It was set aside as X." in page


def test_about_says_what_the_monitor_costs(tmp_path: Path) -> None:
    about, overview = pages_with(tmp_path, STATE, "/about", "/")
    assert "64 MiB of memory; 2.5 s of CPU time since its start, 1.5 % of a core in the last tick" in about
    assert "13 requests" in about
    assert "paused" not in overview
