"""Actions on pages: where they exist, who may use them, what is confirmed, and what is written down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from starlette.testclient import TestClient

from highwater.kafka.client.settings import settings_of
from highwater.monitor.actions.acting import Actions, ChangedMeanwhileError
from highwater.monitor.actions.plan import ActionError, Outcome, Plan, PlannedChange
from highwater.monitor.events import Event, EventKind
from highwater.monitor.users import Role, User
from highwater.monitor.web.action_pages import FORMS
from highwater.monitor.web.app import ACTION_ROUTES
from tests.monitor.clusters import HOSTILE_NAMES, SMALL
from tests.monitor.web.pages import ORIGIN, Web, form_token, seen, web_app
from tests.monitor.web.test_guard import ODD_SPELLINGS, raw_request
from tests.monitor.web.test_pages import ALLOWED_ELEMENTS, Elements

KNOWN = ALLOWED_ELEMENTS | {"textarea", "select", "option", "nav"}


@dataclass
class MadeUpActions:
    """One that plans without a cluster."""

    error: str = ""
    failing: str = ""
    is_changed: bool = False
    is_needless: bool = False
    planned: list[Mapping[str, str]] = field(default_factory=list)
    done: list[Mapping[str, str]] = field(default_factory=list)

    def plan(self, user: User, name: str, form: Mapping[str, str]) -> Plan:
        self.planned.append(form)
        if self.error:
            raise ActionError(self.error)
        topic = form.get("topic", form.get("name", form.get("group", "orders")))
        moved = () if self.is_needless else (PlannedChange(f"{topic}-0", "broker 2", "broker 1"),)
        changes = (*moved, PlannedChange(f"{topic}-1", "broker 1", "broker 1", "stays"))
        return Plan(
            f"Elect leaders of topic {topic}",
            "topic",
            topic,
            f"highwater broker elect --topic {topic}",
            changes,
            form,
            None,
        )

    def carry_out(
        self, user: User, name: str, form: Mapping[str, str], digest: str, begins: Callable[[Plan], None]
    ) -> tuple[Plan, list[Outcome]]:
        made = self.plan(user, name, form)
        if self.is_changed or digest != made.digest:
            raise ChangedMeanwhileError(made)
        begins(made)
        self.done.append(form)
        return made, [Outcome("orders-0", self.failing)]


@dataclass
class Acting:
    web: Web
    actions: MadeUpActions
    events: list[Event]


@contextmanager
def acting(folder: Path, actions: MadeUpActions | None = None) -> Iterator[Acting]:
    made, events = actions or MadeUpActions(), list[Event]()
    with web_app(folder, actions=made, note=events.append) as web:
        yield Acting(web, made, events)


def post(browser: TestClient, path: str, **fields: str) -> httpx2.Response:
    token = form_token(browser.get(path).text)
    return browser.post(path, data={**fields, "form_token": token}, headers={"Origin": ORIGIN})


def confirmation(page: str) -> str:
    found = re.search(r'name="confirmed" value="([0-9a-f]{64})"', page)
    assert found, page
    return found[1]


def test_without_the_switch_there_is_no_action(tmp_path: Path) -> None:
    with web_app(tmp_path) as web:
        browser = web.browser(Role.ADMIN)
        for route in ACTION_ROUTES:
            for method in ("GET", "POST", "HEAD"):
                assert browser.request(method, route.path).status_code == 404, route.path
        topic = next(iter(seen(SMALL)[0].topics))
        page = browser.get(f"/topic?name={topic}").text
        assert "/actions/" not in page
        assert "highwater broker elect" in page


@pytest.mark.parametrize("who", [None, *Role], ids=lambda who: who.title if who else "nobody")
def test_an_action_is_for_operators(tmp_path: Path, who: Role | None) -> None:
    with acting(tmp_path) as made:
        browser = made.web.browser(who)
        for route in ACTION_ROUTES:
            is_allowed = who is not None and who >= Role.OPERATOR
            answer = browser.get(route.path)
            assert answer.status_code == (200 if is_allowed else 303 if who is None else 403), route.path
            assert "No such page" not in answer.text
            # Without the form's token nothing is planned or done, whoever asks.
            answer = browser.post(route.path, data={"topic": "orders"}, headers={"Origin": ORIGIN})
            assert answer.status_code == (403 if who is not None else 401)
            assert ("not from this session" in answer.text) == is_allowed
            for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
                assert browser.request(method, route.path).status_code == 405
            for spelling in ODD_SPELLINGS.values():
                odd = spelling(route.path)
                if odd != route.path:
                    assert raw_request(browser, "GET", odd)[0] == 404
        topic = next(iter(seen(SMALL)[0].topics))
        if who is not None:
            assert ("/actions/election" in browser.get(f"/topic?name={topic}").text) == (who >= Role.OPERATOR)
        assert made.actions.planned == made.actions.done == []


def test_another_site_cannot_act(tmp_path: Path) -> None:
    with acting(tmp_path) as made:
        browser = made.web.browser(Role.OPERATOR)
        token = form_token(browser.get("/actions/election").text)
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
            answer = browser.post("/actions/election", data={"topic": "a", "form_token": token}, headers=headers)
            assert answer.status_code == 403
        assert made.actions.planned == []


@pytest.mark.parametrize("name", FORMS)
def test_what_would_change_is_shown_then_confirmed_then_done_and_written_down(tmp_path: Path, name: str) -> None:
    with acting(tmp_path) as made:
        browser, path = made.web.browser(Role.OPERATOR), f"/actions/{name}"
        fields = {each.name: "orders" for each in FORMS[name].fields}
        shown = post(browser, path, **fields)
        assert shown.status_code == 200
        for words in ("broker 2", "→", "broker 1", "highwater broker elect --topic orders", "Confirm"):
            assert words in shown.text
        assert made.actions.done == []
        assert made.events == []
        done = post(browser, path, **fields, confirmed=confirmation(shown.text))
        assert done.status_code == 200
        assert "Done." in done.text
        assert made.actions.done == [fields]
        (event,) = made.events
        assert event.kind is EventKind.ACTION
        assert event.text == "operator (operator): elect leaders of topic orders: done"
        assert (event.before, event.entity, event.name) == ("orders-0: broker 2", "topic", "orders")
        assert event.after == "orders-0: broker 1; highwater broker elect --topic orders"
        entry = made.web.users.audit(1)[0]
        assert (entry.user, entry.action, entry.is_allowed) == ("operator", name, True)
        assert entry.target == "highwater broker elect --topic orders"


def test_where_nothing_would_change_this_is_said_first_and_no_command_shown(tmp_path: Path) -> None:
    with acting(tmp_path, MadeUpActions(is_needless=True)) as made:
        page = post(made.web.browser(Role.OPERATOR), "/actions/election", topic="orders", kind="preferred").text
        assert "There is nothing to change" in page.partition("<table")[0]
        assert "highwater broker elect" not in page
        assert 'name="confirmed"' not in page


def test_a_cluster_that_changed_is_shown_anew_and_nothing_is_done(tmp_path: Path) -> None:
    with acting(tmp_path) as made:
        browser = made.web.browser(Role.OPERATOR)
        made.actions.is_changed = True
        answer = post(browser, "/actions/election", topic="orders", confirmed="0" * 64)
        assert answer.status_code == 409
        assert "has changed since you looked: nothing was done" in answer.text
        confirmation(answer.text)
        assert made.actions.done == []
        assert made.events == []


def test_an_error_of_the_cluster_is_told_in_words_and_written_down(tmp_path: Path) -> None:
    with acting(tmp_path / "a", MadeUpActions(error="Group 'g' is in use.")) as made:
        answer = post(made.web.browser(Role.OPERATOR), "/actions/offsets", group="g", goal="latest")
        assert answer.status_code == 422
        assert "Group &#39;g&#39; is in use." in answer.text
        assert 'value="g"' in answer.text
        answer = post(made.web.browser(Role.OPERATOR), "/actions/offsets", group="g", confirmed="0" * 64)
        assert answer.status_code == 422
        assert not made.web.users.audit(1)[0].is_allowed
    with acting(tmp_path / "b", MadeUpActions(failing="INVALID_REPLICA_ASSIGNMENT (39): no")) as made:
        browser = made.web.browser(Role.OPERATOR)
        shown = post(browser, "/actions/election", topic="orders")
        answer = post(browser, "/actions/election", topic="orders", confirmed=confirmation(shown.text))
        assert answer.status_code == 422
        assert "INVALID_REPLICA_ASSIGNMENT (39): no" in answer.text
        assert "1 of 1 failed" in made.events[0].text
        assert [each.is_allowed for each in made.web.users.audit(2)] == [False, True]


def test_a_hostile_name_goes_through_the_forms_as_it_is(tmp_path: Path) -> None:
    with acting(tmp_path) as made:
        browser = made.web.browser(Role.OPERATOR)
        for name in HOSTILE_NAMES:
            page = browser.get(f"/actions/offsets?group={quote(name, safe='')}")
            fields = dict(each for each in fields_of(page.text) if each[0] == "group")
            assert fields == {"group": name}
            shown = post(browser, "/actions/offsets", group=name)
            assert dict(fields_of(shown.text))["group"] == name
            for text in (page.text, shown.text):
                elements = Elements(text)
                assert not {tag for tag, _ in elements.found} - KNOWN
                assert not any(key.startswith("on") for _, attributes in elements.found for key in attributes)


def fields_of(page: str) -> list[tuple[str, str]]:
    found = [attributes for tag, attributes in Elements(page).found if tag == "input"]
    return [(each.get("name") or "", each.get("value") or "") for each in found]


def test_the_core_asks_for_the_role_too() -> None:
    actions = Actions("127.0.0.1:1", settings_of({"bootstrap.servers": "127.0.0.1:1"}))
    viewer = User("ann", Role.VIEWER, is_disabled=False, changed_s=0)
    with pytest.raises(ActionError, match="needs the role operator, and ann has the role viewer"):
        actions.plan(viewer, "election", {})
    with pytest.raises(ActionError, match="needs the role operator"):
        actions.carry_out(viewer, "election", {}, "", lambda _: None)
