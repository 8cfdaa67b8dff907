"""The page of clients: its answer, its picture, its rows, and the command where nothing is pushed."""

from __future__ import annotations

from pathlib import Path

from highwater.monitor.figures.cluster import derive
from highwater.monitor.model import ClientPush
from highwater.monitor.users import Role
from tests.monitor.clusters import HOSTILE_NAMES, push, snapshot, with_clients
from tests.monitor.web.pages import web_app

PUSHES = (
    push("orders", produce_ms=2.5, produce_max_ms=40.0, queue_ms=5.0),
    push("billing", group="g", fetch_ms=500.0, fetch_max_ms=510.0, rebalance_max_ms=3000.0),
)


def page(folder: Path, *pushes: ClientPush, path: str = "/clients") -> str:
    seen = snapshot()
    if pushes:
        seen = with_clients(seen, *pushes)
    with web_app(folder, view=(seen, derive([seen]))) as web:
        answer = web.browser(Role.VIEWER).get(path)
    assert answer.status_code == 200
    return answer.text


def test_the_answer_comes_first(tmp_path: Path) -> None:
    text = page(tmp_path, *PUSHES)
    said = '(250 µs in the broker)</bdi> <span class="rest"><bdi dir="ltr" class="long">fetching takes 500 ms (5 ms'
    assert said in text
    assert text.index(said) < text.index("<svg") < text.index("<table")
    assert "1 is orders: 2.5 ms. The broker itself takes 250 µs." in text
    assert 'href="/explorer?s1=client%3Aproduce_ms%3Aorders+%28librdkafka%29&amp;range=24h"' in text
    assert 'href="/group?name=g"' in text
    assert "2 pushes read since the monitor started; 1 record passed over." in text


def test_without_pushes_there_is_a_command(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert "What clients feel is not known</bdi>" in text
    assert "none pushes what it measures to a broker of this cluster." in text
    assert "highwater broker configs -b " in text
    assert "--alter --entity-type client-metrics --entity-name all --add-config " in text
    assert "<svg" not in text


def test_errors_are_said_first(tmp_path: Path) -> None:
    text = page(tmp_path, *PUSHES, push("shop", errors_per_s=2.0), push("mail", errors_per_s=0.5))
    assert "shop cannot send records, 2/s, and 1 other client." in text


def test_one_client(tmp_path: Path) -> None:
    assert "As 1 client feels it, producing takes 2.5 ms" in page(tmp_path, PUSHES[0])


def test_clients_that_do_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, push("idle"))
    assert "As 1 client feels it, none of them produced or fetched in its last interval." in text


def test_rows_are_data_too(tmp_path: Path) -> None:
    lines = page(tmp_path, *PUSHES, path="/csv/clients").splitlines()
    assert lines[1].startswith("orders,2.5,40.0,5.0,,,,,,,,1,,librdkafka,")


def test_hostile_names_are_text(tmp_path: Path) -> None:
    name = HOSTILE_NAMES[0]
    text = page(tmp_path, push(name, group=name, produce_ms=1.0, errors_per_s=1.0))
    assert name not in text
    assert "&lt;script&gt;" in text
