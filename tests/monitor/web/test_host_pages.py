"""The pages of hosts: the verdict first, what is not known in words, and brokers with what their hosts say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from starlette.testclient import TestClient

from highwater.common.ceilings import PRODUCE, Ceiling, Ceilings, HostClass
from highwater.monitor.figures.cluster import Figures, derive
from highwater.monitor.model import Host, Snapshot
from highwater.monitor.users import Role, Users
from highwater.monitor.web.app import make_app
from highwater.monitor.web.site import Settings
from tests.monitor.agents import DRIFT, GIB, TUNING, with_hosts
from tests.monitor.clusters import window
from tests.monitor.web.pages import CHEAP, ORIGIN, PASSWORD, Clock, log_in


def view(*ceilings: Ceilings) -> tuple[Snapshot, Figures]:
    """Two hosts that are well, one that drifted, and one that never answered."""
    snapshots = with_hosts(window(), "h1", "h2", "h3")
    made = []
    for each in snapshots:
        drifted = each.hosts["h3"]
        assert drifted.answer is not None
        tuning = replace(TUNING, drift=(DRIFT,))
        hosts = {**each.hosts, "h3": replace(drifted, answer=replace(drifted.answer, tuning=tuning))}
        silent = Host("h4", "h4", error="its agent cannot be reached: Connection refused")
        made.append(replace(each, hosts={**hosts, "h4": silent}))
    return made[-1], derive(made, ceilings)


def viewer(folder: Path, *ceilings: Ceilings) -> TestClient:
    clock = Clock()
    users = Users(folder / "users.db", clock, CHEAP)
    users.add("ada", PASSWORD, Role.VIEWER)
    seen = view(*ceilings)
    settings = Settings(monotonic_s=clock, now_ms=lambda: int(clock.now_s * 1000))
    client = TestClient(make_app(lambda: seen, None, users, settings), ORIGIN, follow_redirects=False)
    assert log_in(client, "ada").status_code == 303
    return client


def test_the_first_line_says_which_host_is_not_as_tuned(tmp_path: Path) -> None:
    client = viewer(tmp_path)
    page = client.get("/hosts").text
    assert "The tuning of 2 of 4 hosts is in place</bdi>" in page
    assert "h3: vm.dirty_ratio is 20, applied was 10; h4: Nothing is known" in page
    found = {row["host"]: row for row in client.get("/api/v1/hosts").json()["rows"]}
    assert found["h1"]["cpu"] == 0.5
    assert found["h1"]["tuned"] is True
    assert found["h3"]["tuned"] is False
    assert found["h4"]["cpu"] is None


def test_a_host_has_its_drift_its_disks_and_its_brokers(tmp_path: Path) -> None:
    client = viewer(tmp_path)
    page = client.get("/host", params={"name": "h3"}).text
    for text in ("somebody changed it since", "vm.dirty_ratio", "sda", "/var/lib/log", "90 %", "6.1.0"):
        assert text in page
    silent = client.get("/host", params={"name": "h4"}).text
    assert "Nothing is known about it: its agent cannot be reached: Connection refused." in silent
    # What an agent would say is not there to be denied.
    assert "the agent was given" not in silent
    (row,) = client.get("/api/v1/host/drift", params={"name": "h3"}).json()["rows"]
    assert (row["setting"], row["applied"], row["now"]) == ("vm.dirty_ratio", "10", "20")


def test_brokers_show_what_the_page_cache_served(tmp_path: Path) -> None:
    rows = viewer(tmp_path).get("/api/v1/brokers").json()["rows"]
    assert [row["host"] for row in rows] == ["h1", "h2", "h3"]
    assert all(abs(row["cache_served"] - 0.9) < 1e-9 for row in rows)
    assert rows[0]["unwritten"] == 1 << 29


MEASURED = Ceilings(
    HostClass("A processor", 2, 16 * GIB, "6.1.0", TUNING.fingerprint),
    (Ceiling(PRODUCE, 1e9, is_at_least=True, run="results/first"),),
    "2026-11-01T00:00:00Z",
)


def test_headroom_has_its_page_and_a_card_on_the_overview(tmp_path: Path) -> None:
    client = viewer(tmp_path, MEASURED)
    page = client.get("/headroom").text
    assert "has the least headroom</bdi>" in page
    assert "headroom = 1 − demand / measured ceiling" in page
    assert "≥ 954 MiB/s" in page
    rows = client.get("/api/v1/headroom").json()["rows"]
    assert len(rows) == 6 * 3
    produce = [row for row in rows if row["resource"] == "produce"]
    assert all(0.9 < row["headroom"] < 1 and row["run"] == "results/first" for row in produce)
    assert "Least headroom" in client.get("/").text


def test_headroom_is_grey_with_the_reason_on_another_kernel(tmp_path: Path) -> None:
    other = replace(MEASURED, host=replace(MEASURED.host, kernel="5.0"))
    client = viewer(tmp_path, other)
    rows = client.get("/api/v1/headroom", params={"q": "state:grey"}).json()["rows"]
    assert {row["why"] for row in rows} == {"the kernel is 6.1.0, the measurement was on 5.0"}
    assert len(rows) == 3
    page = client.get("/headroom").text
    assert "(3 grey, " in page


def test_without_ceilings_the_page_says_how_to_measure_them(tmp_path: Path) -> None:
    page = viewer(tmp_path).get("/headroom").text
    assert "highwater bench ceilings DIR --out ceilings.json" in page
    assert "no ceiling was measured: see ceilings in the file" in page
