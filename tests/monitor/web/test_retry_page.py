"""The page of retries and dead letters: its answer, its rows, the commands that come next, hostile names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from highwater.monitor.figures.cluster import derive
from highwater.monitor.users import Role
from tests.monitor.clusters import HOSTILE_NAMES, group, partition, snapshot, topic
from tests.monitor.web.pages import web_app

TOPICS = {"orders": 10, "orders.billing.retry": 9, "orders.billing.retry.10s": 6, "dlq.orders.billing": 4}
COMMITS = {
    "billing": {"orders": 10, "orders.billing.retry": 7},
    "mover": {"orders.billing.retry.10s": 5},
}


def page(folder: Path, topics: Mapping[str, int], commits: Mapping[str, Mapping[str, int]], path: str) -> str:
    groups = [group(name, {(read, 0): offset for read, offset in offsets.items()}) for name, offsets in commits.items()]
    seen = snapshot(topics=[topic(name, partition(name, end=end)) for name, end in topics.items()], groups=groups)
    with web_app(folder, view=(seen, derive([seen]))) as web:
        answer = web.browser(Role.VIEWER).get(path)
    assert answer.status_code == 200
    return answer.text


def test_the_answer_comes_first_and_commands_last(tmp_path: Path) -> None:
    text = page(tmp_path, TOPICS, COMMITS, "/retries")
    assert "At most 4 dead letters, none new; 3 of retries to go." in text
    assert 'href="/group?name=billing"' in text
    assert "highwater broker dlq show dlq.orders.billing -b " in text
    assert "--to orders.billing.retry --dry-run" in text


def test_a_mover_that_does_not_run_is_named(tmp_path: Path) -> None:
    text = page(tmp_path, TOPICS, {"billing": COMMITS["billing"]}, "/retries")
    said = "orders.billing: records wait in orders.billing.retry.10s, and no mover reads it: start one."
    assert f"{said} At most 4 dead letters in all." in text
    assert text.index("highwater broker delay run -b ") < text.index("highwater broker dlq show")


def test_no_retries(tmp_path: Path) -> None:
    assert "No group retries records here" in page(tmp_path, {"orders": 1}, {}, "/retries")


def test_rows_are_data_too(tmp_path: Path) -> None:
    line = page(tmp_path, TOPICS, COMMITS, "/csv/retries").splitlines()[1]
    assert line.startswith("orders,billing,ok,1,2,4,")


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = HOSTILE_NAMES[0]
    text = page(tmp_path, {"orders": 1, f"dlq.orders.{name}": 2, f"dlq.{name}": 2}, {name: {"orders": 1}}, "/retries")
    assert name not in text
    assert "&lt;script&gt;" in text
