"""The alerts of a running monitor: from figures to a web server, and over a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.monitor.alerts.delivery import Deliverer
from highwater.monitor.alerts.keeper import FILE, AlertKeeper
from highwater.monitor.alerts.targets import Webhook
from highwater.monitor.figures.cluster import derive
from highwater.monitor.model import NO_LEADER, Snapshot
from tests.monitor.alerts.receivers import web_server
from tests.monitor.clusters import partition, snapshot, topic
from tests.waiting import wait_until


def tick(number: int, *, is_offline: bool) -> Snapshot:
    leader = NO_LEADER if is_offline else 0
    return snapshot(number=number, topics=[topic("orders", partition("orders", leader=leader, end=10))])


def tell(keeper: AlertKeeper, first: int, last: int, *, is_offline: bool) -> None:
    for number in range(first, last):
        one = tick(number, is_offline=is_offline)
        keeper.told(one, derive([one]))


def test_an_alert_is_delivered_when_it_opens_and_when_it_closes(tmp_path: Path) -> None:
    with web_server() as server:
        deliverer = Deliverer([Webhook("chat", f"http://127.0.0.1:{server.port}/")])
        keeper = AlertKeeper(tmp_path, deliverer, "https://monitor.example/alerts")
        tell(keeper, 0, 10, is_offline=True)
        assert [alert.sentence for alert in keeper.open()] == [
            "1 partition has no leader: clients cannot read or write there (topic orders)."
        ]
        tell(keeper, 10, 30, is_offline=False)
        wait_until(lambda: len(server.requests) == 2, "two messages", within_s=60)
        deliverer.stop()
        first, second = (json.loads(body) for _, _, body in server.requests)
    assert first["text"].startswith("synthetic: error opened: 1 partition has no leader")
    assert "CLOSED" in second["text"]
    assert second["address"] == "https://monitor.example/alerts"
    assert keeper.open() == ()
    assert [notice.change.value for notice in keeper.recent()] == ["closed", "opened"]
    assert [state.sent for state in keeper.targets()] == [2]


def test_open_alerts_survive_a_restart_and_are_not_told_again(tmp_path: Path) -> None:
    tell(AlertKeeper(tmp_path), 0, 10, is_offline=True)
    again = AlertKeeper(tmp_path)
    assert (len(again.open()), again.error) == (1, "")
    tell(again, 0, 10, is_offline=True)
    assert again.recent() == ()
    tell(again, 10, 30, is_offline=False)
    assert AlertKeeper(tmp_path).open() == ()


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    tell(AlertKeeper(tmp_path), 0, 10, is_offline=True)
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damaged", [b"", b"{", b"\xff\xfe\x00", b'{"version": 9, "alerts": []}'])
def test_a_damaged_file_is_set_aside(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / FILE).write_bytes(damaged)
    keeper = AlertKeeper(tmp_path)
    assert keeper.error.endswith("it was moved to alerts.json.damaged, and alerts start afresh")
    assert (tmp_path / "alerts.json.damaged").read_bytes() == damaged
    tell(keeper, 0, 10, is_offline=True)
    assert (len(AlertKeeper(tmp_path).open()), keeper.error) == (1, "")


def test_a_folder_that_cannot_be_written_stops_no_alert(tmp_path: Path) -> None:
    keeper = AlertKeeper(tmp_path / "gone")
    tell(keeper, 0, 10, is_offline=True)
    assert len(keeper.open()) == 1
    reason = "No such file or directory; open alerts will not survive a restart"
    assert keeper.error == f"{tmp_path / 'gone' / FILE}: {reason}"
