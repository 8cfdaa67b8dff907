"""The message viewer's page: where it exists, for whom, hostile records as text, and the audit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from highwater.monitor.actions.plan import ActionError
from highwater.monitor.messages.reading import BEGINNING, NEWEST, OFFSET, Page, Start, WantedRecords
from highwater.monitor.messages.records import Bytes, Message
from highwater.monitor.users import Role, User
from highwater.monitor.web.app import MESSAGE_ROUTES
from tests.monitor.clusters import HOSTILE_NAMES, SMALL, UNIX_START_MS
from tests.monitor.web.pages import ORIGIN, form_token, seen, web_app
from tests.monitor.web.test_actions import KNOWN, fields_of
from tests.monitor.web.test_pages import Elements

PATH = "/messages"


def field_of(data: bytes) -> Bytes:
    return Bytes(data, len(data))


HOSTILE = tuple(
    Message(offset, UNIX_START_MS, False, field_of(name.encode()), field_of(json.dumps({name: name}).encode()),
            ((name, field_of(name.encode())), ("null", None)), 3, 7)
    for offset, name in enumerate((*HOSTILE_NAMES, "</pre><script>alert(1)</script>", "\x1b[31mred\x00"))
)  # fmt: skip


@dataclass
class MadeUpReader:
    error: str = ""
    partitions: tuple[int, ...] = (0,)
    reads: list[tuple[str, WantedRecords]] = field(default_factory=list)

    def read(self, user: User, wanted: WantedRecords) -> list[Page]:
        self.reads.append((user.name, wanted))
        if self.error:
            raise ActionError(self.error)
        notes = ("2 records of aborted transactions are left out.",)
        return [Page(number, HOSTILE, 0, 14, 0, 100, notes) for number in self.partitions]


def post(browser: TestClient, **fields: str) -> httpx2.Response:
    token = form_token(browser.get(PATH).text)
    return browser.post(PATH, data={**fields, "form_token": token}, headers={"Origin": ORIGIN})


def test_without_the_switch_there_is_no_viewer(tmp_path: Path) -> None:
    with web_app(tmp_path) as web:
        browser = web.browser(Role.ADMIN)
        (route,) = MESSAGE_ROUTES
        assert [browser.request(method, route.path).status_code for method in ("GET", "POST")] == [404, 404]
        topic = next(iter(seen(SMALL)[0].topics))
        assert PATH not in browser.get(f"/topic?name={topic}").text


@pytest.mark.parametrize("who", [None, *Role], ids=lambda who: who.title if who else "nobody")
def test_records_are_for_operators(tmp_path: Path, who: Role | None) -> None:
    reader = MadeUpReader()
    with web_app(tmp_path, messages=reader) as web:
        browser, is_allowed = web.browser(who), who is not None and who >= Role.OPERATOR
        assert browser.get(PATH).status_code == (200 if is_allowed else 303 if who is None else 403)
        answer = browser.post(PATH, data={"topic": "orders"}, headers={"Origin": ORIGIN})
        assert answer.status_code == (403 if who is not None else 401)
        assert browser.get(f"{PATH}?topic=orders&value=1").status_code == browser.get(PATH).status_code
        topic = next(iter(seen(SMALL)[0].topics))
        if who is not None:
            assert (f"{PATH}?topic=" in browser.get(f"/topic?name={topic}").text) == is_allowed
    assert reader.reads == []


def test_hostile_records_become_text_in_every_form(tmp_path: Path) -> None:
    with web_app(tmp_path, messages=MadeUpReader()) as web:
        browser = web.browser(Role.OPERATOR)
        for form in ("as it fits", "json", "text", "hex", "nonsense"):
            answer = post(browser, topic="orders", **{"as": form})
            assert answer.status_code == 200
            elements = Elements(answer.text)
            assert not {tag for tag, _ in elements.found} - KNOWN
            assert not any(key.startswith("on") for _, attributes in elements.found for key in attributes)
            assert [attributes for tag, attributes in elements.found if tag == "script"] == [
                {"src": "/static/monitor.js", "defer": None}
            ]
            for sign in ("\u202e", "\x1b", "\x00"):
                assert sign not in answer.text
            assert "3 more headers" in answer.text
            assert "Offsets 0 to 13</h2>" in answer.text
            assert "The partition has offsets 0 to 99; the next record gets offset 100." in answer.text
            assert "2 records of aborted transactions are left out." in answer.text
            assert "data-tick-s" not in answer.text


def test_a_read_is_audited_before_it_begins_also_if_it_fails(tmp_path: Path) -> None:
    reader = MadeUpReader(error="There is no topic 'x'.")
    with web_app(tmp_path, messages=reader) as web:
        browser = web.browser(Role.OPERATOR)
        answer = post(browser, topic="x", partition="3", start=OFFSET, value="12", count="50", isolation="all records")
        assert answer.status_code == 422
        assert "There is no topic &#39;x&#39;." in answer.text
        assert reader.reads == [("operator", WantedRecords("x", 3, Start(OFFSET, 12), 50, is_committed=False))]
        entry = web.users.audit(1)[0]
        assert (entry.user, entry.action, entry.target) == (
            "operator",
            "read messages",
            "x-3 from offset 12, 50 at most",
        )


def test_one_can_go_on_from_where_a_page_ends(tmp_path: Path) -> None:
    reader = MadeUpReader()
    with web_app(tmp_path, messages=reader) as web:
        browser = web.browser(Role.OPERATOR)
        page = post(browser, topic="orders", partition="0", start=NEWEST, count="10").text
        following = dict(fields_of(page.partition("Offsets ")[2]))
        assert (following["start"], following["value"], following["topic"]) == (OFFSET, "14", "orders")
        following.pop("form_token")
        assert post(browser, **following).status_code == 200
        assert [wanted.start for _, wanted in reader.reads] == [Start(NEWEST, 10), Start(OFFSET, 14)]


def test_a_key_is_searched_in_all_partitions_and_stays_out_of_the_audit(tmp_path: Path) -> None:
    reader = MadeUpReader(partitions=(0, 1))
    with web_app(tmp_path, messages=reader) as web:
        browser = web.browser(Role.OPERATOR)
        page = post(browser, topic="orders", key="ada@example.org", start=BEGINNING).text
        wanted = WantedRecords("orders", None, Start(BEGINNING, 10), 10, is_committed=True, key=b"ada@example.org")
        assert reader.reads == [("operator", wanted)]
        assert f"{2 * len(HOSTILE)} records with this key</h2>" in page
        assert "28 offsets of 2 partitions searched. In 2 partitions there is more to search." in page
        assert "Go on in partition 1 from offset 14" in page
        assert web.users.audit(1)[0].target == "orders-all partitions from the beginning, 10 at most of one key"
        following = dict(fields_of(page.partition("Go on in partition 0")[2]))
        following.pop("form_token")
        assert post(browser, **following).status_code == 200
        on = WantedRecords("orders", 1, Start(OFFSET, 14), 10, is_committed=True, key=b"ada@example.org")
        assert reader.reads[-1] == ("operator", on)


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": ""}, {"topic": "a", "partition": "-1"}, {"topic": "a", "partition": "²"},
        {"topic": "a", "count": "1000000"}, {"topic": "a", "start": "rm"},
        {"topic": "a", "start": "offset", "value": "-1"},
        {"topic": "a", "start": "offset", "value": "9" * 40}, {"topic": "a", "start": "time", "value": "soon"},
        {"topic": "x" * 5000}, {"topic": "a", "key": "k" * 1001},
    ],
)  # fmt: skip
def test_what_is_not_understood_is_told_and_nothing_is_read(tmp_path: Path, fields: dict[str, str]) -> None:
    reader = MadeUpReader()
    with web_app(tmp_path, messages=reader) as web:
        answer = post(web.browser(Role.OPERATOR), **fields)
        assert answer.status_code == 422
        assert 'class="problem"' in answer.text
    assert reader.reads == []
