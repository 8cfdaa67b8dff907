"""The search: what it finds, in which order, and what it shows at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from highwater.monitor.figures.cluster import derive
from highwater.monitor.model import NO_LEADER
from highwater.monitor.users import Role
from highwater.monitor.web.search import search
from tests.monitor.clusters import broker, group, member, partition, snapshot, topic
from tests.monitor.web.pages import web_app

NAMES = ("orders", "Orders.dlq", "big-orders", *(f"t{number:02}" for number in range(30)))
SEEN = snapshot(
    brokers=[replace(broker(number), host=f"kafka{number}", port=9092) for number in range(3)],
    topics=[topic(name, partition(name, 0)) for name in NAMES],
    groups=[group("billing", {("orders", 0): 1}, replace(member("a"), client_id="invoices", host="10.1.2.3"))],
)
FIGURES = derive([SEEN])


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with web_app(tmp_path_factory.mktemp("web"), view=(SEEN, FIGURES)) as web:
        yield web.browser(Role.VIEWER)


def test_the_very_name_comes_first_then_what_begins_so() -> None:
    (topics,) = search("orders", SEEN, FIGURES)
    assert [each.name for each in topics.things] == ["orders", "Orders.dlq", "big-orders"]


@pytest.mark.parametrize(
    ("text", "title", "address"),
    [
        ("kafka2", "Brokers", "/broker?id=2"),
        ("INVOICES", "Clients", "/group?name=billing"),
        ("10.1.2", "Clients", "/group?name=billing"),
        ("bill", "Groups", "/group?name=billing"),
    ],
)
def test_each_kind_is_found_by_a_part_of_its_names(text: str, title: str, address: str) -> None:
    assert [(found.title, found.things[0].address) for found in search(text, SEEN, FIGURES)] == [(title, address)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("orders", "/topic?name=orders"),
        ("broker 1", "/broker?id=1"),
        ("kafka1:9092", "/broker?id=1"),
        (" invoices ", "/group?name=billing"),
    ],
)
def test_the_only_thing_with_this_very_name_is_shown_at_once(viewer: TestClient, text: str, address: str) -> None:
    answer = viewer.get("/search", params={"q": text})
    assert (answer.status_code, answer.headers["location"]) == (303, address)


def test_a_list_says_how_much_it_has_and_what_it_leaves_out(viewer: TestClient) -> None:
    page = viewer.get("/search", params={"q": "t"}).text
    assert "and 10 more: type more of the name" in page
    assert "Nothing has" in viewer.get("/search", params={"q": "nowhere"}).text
    empty = viewer.get("/search").text
    assert "Type a part of the name" in empty
    assert 'name="q" id="search"' in empty


def test_results_say_how_things_stand() -> None:
    offline = replace(partition("dark", 0), leader=NO_LEADER)
    seen = snapshot(brokers=[broker(0), replace(broker(1), is_alive=False)], topics=[topic("dark", offline)])
    states = {found.title: [thing.state for thing in found.things] for found in search("r", seen, derive([seen]))}
    assert states == {"Brokers": ["alive", "gone"], "Topics": ["1 offline"]}
