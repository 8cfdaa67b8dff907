"""Login, its throttle, the session's life, the first login, and the account."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from highwater.monitor.users import ABSOLUTE_S, IDLE_S, SET_UP_S, Role, Users
from highwater.monitor.web.app import make_app
from highwater.monitor.web.request_checks import own_path
from highwater.monitor.web.site import Settings, bind_problem
from tests.monitor.web.pages import CHEAP, ORIGIN, PASSWORD, Clock, Web, form_token, log_in, web_app


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with web_app(tmp_path) as made:
        yield made


def is_logged_in(client: TestClient) -> bool:
    return client.get("/account").status_code == 200


def test_a_login_leads_to_the_page_that_was_asked_for(web: Web) -> None:
    browser = web.browser()
    asked = browser.get("/account?a=b c&d=%3Ce%3E")
    assert asked.headers["location"] == "/login?next=/account%3Fa%3Db%2520c%26d%3D%253Ce%253E"
    wanted = "/account?a=b%20c&d=%3Ce%3E"
    assert f'value="{wanted.replace("&", "&amp;")}"' in browser.get(asked.headers["location"]).text
    assert log_in(browser, "viewer", next=wanted).headers["location"] == wanted


@pytest.mark.parametrize(
    "elsewhere",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "evil", "", "/\t/evil", "/\n/e", "///e"],
)
def test_a_login_leads_to_no_other_site(elsewhere: str) -> None:
    assert own_path(elsewhere) == "/"


def test_the_cookie_is_for_this_host_and_not_for_scripts(web: Web) -> None:
    cookie = log_in(web.browser(), "viewer").headers["set-cookie"]
    assert cookie.startswith("highwater=")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie


def test_under_tls_the_cookie_has_the_prefix_that_binds_it_to_the_host(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.db", cost=CHEAP)
    users.add("ada", PASSWORD, Role.VIEWER)
    app = make_app(lambda: None, None, users, Settings(is_tls=True))
    browser = TestClient(app, "https://localhost", follow_redirects=False)
    answer = log_in(browser, "ada")
    assert answer.headers["set-cookie"].startswith("__Host-highwater=")
    assert "Secure" in answer.headers["set-cookie"]
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
    assert is_logged_in(browser)
    users.close()


def test_a_login_makes_a_new_session_whatever_cookie_was_there(web: Web) -> None:
    """Session fixation: the cookie that somebody planted before the login is worth nothing after it."""
    browser = web.browser()
    browser.cookies.set("highwater", "planted", domain="localhost.local")
    log_in(browser, "viewer")
    assert web.users.session("planted") is None
    first = [each.id for each in web.users.sessions()]
    again = web.browser(Role.VIEWER)
    token = again.cookies["highwater"]
    form = form_token(again.get("/account").text)
    fields = {"name": "admin", "password": PASSWORD, "form_token": form}
    assert again.post("/login", data=fields).status_code == 303
    assert again.cookies["highwater"] != token
    assert web.users.session(token) is None
    assert {each.user.name for each in web.users.sessions() if each.id not in first} == {"admin"}


def test_a_session_cookie_that_is_there_twice_counts_as_none(web: Web) -> None:
    browser = web.browser(Role.ADMIN)
    token = browser.cookies["highwater"]
    twice = {"cookie": f"highwater={token}; highwater={token}"}
    assert web.browser().get("/account", headers={"cookie": f"highwater={token}"}).status_code == 200
    assert web.browser().get("/account", headers=twice).status_code == 303


def test_after_a_logout_the_cookie_is_worth_nothing(web: Web) -> None:
    browser = web.browser(Role.VIEWER)
    token = browser.cookies["highwater"]
    browser.post("/logout", data={"form_token": form_token(browser.get("/account").text)})
    assert not is_logged_in(browser)
    assert web.browser().get("/account", headers={"cookie": f"highwater={token}"}).status_code == 303


def test_a_session_ends_after_half_an_hour_without_use(web: Web) -> None:
    browser = web.browser(Role.VIEWER)
    for _ in range(3):
        web.clock.now_s += IDLE_S - 1
        assert is_logged_in(browser)
    web.clock.now_s += IDLE_S + 1
    assert not is_logged_in(browser)


def test_a_page_that_reads_itself_again_keeps_no_session_alive(web: Web) -> None:
    browser = web.browser(Role.VIEWER)
    statuses = []
    for _ in range(4):
        web.clock.now_s += IDLE_S / 3 + 1
        statuses.append(browser.get("/account", headers={"x-live": "1"}).status_code)
    assert statuses == [200, 200, 401, 401]


def test_a_session_ends_after_twelve_hours_in_any_case(web: Web) -> None:
    browser = web.browser(Role.VIEWER)
    ended = web.clock.now_s + ABSOLUTE_S
    while web.clock.now_s + 600 < ended:
        web.clock.now_s += 600
        assert is_logged_in(browser)
    web.clock.now_s = ended + 1
    assert not is_logged_in(browser)


def test_a_clock_that_goes_back_ends_sessions_instead_of_making_them_longer(web: Web) -> None:
    browser = web.browser(Role.VIEWER)
    web.clock.now_s -= 7200
    assert not is_logged_in(browser)


def test_a_wrong_password_and_an_unknown_name_look_alike(web: Web) -> None:
    wrong, unknown = log_in(web.browser(), "viewer", "wrong"), log_in(web.browser(), "nobody", "wrong")
    assert (wrong.status_code, unknown.status_code) == (401, 401)
    assert "The name or the password is wrong" in wrong.text
    tokens = [form_token(answer.text) for answer in (wrong, unknown)]
    assert wrong.text.replace(tokens[0], "") == unknown.text.replace(tokens[1], "")


def test_an_unknown_name_costs_a_password_check(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def never(password: str, phc: str) -> bool:
        checked.append(phc)
        return False

    monkeypatch.setattr("highwater.monitor.users.matches", never)
    for name in ("viewer", "nobody"):
        assert web.users.password_is(name, "x") is None
    assert len(checked) == 2
    assert {phc.split("$")[2] for phc in checked} == {"ln=4,r=8,p=1"}


def test_an_account_has_to_wait_after_five_failures_and_twice_as_long_after_each_more(web: Web) -> None:
    addresses = iter(f"10.0.0.{n}" for n in range(1, 250))
    for _ in range(5):
        assert log_in(web.browser(address=next(addresses)), "viewer", "wrong").status_code == 401
    for wait_s in (1, 2, 4, 8, 16, 32, 60, 60):
        web.clock.now_s += wait_s - 0.5
        refused = log_in(web.browser(address=next(addresses)), "viewer")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) == 1
        web.clock.now_s += 0.5
        assert log_in(web.browser(address=next(addresses)), "viewer", "wrong").status_code == 401
    web.clock.now_s += 60
    assert log_in(web.browser(address=next(addresses)), "viewer").status_code == 303
    assert log_in(web.browser(address=next(addresses)), "viewer", "wrong").status_code == 401


def test_an_unknown_account_has_to_wait_alike(web: Web) -> None:
    statuses = [log_in(web.browser(address=f"10.0.0.{n}"), "nobody", "wrong").status_code for n in range(7)]
    assert statuses == [401] * 5 + [429] * 2


def test_an_address_has_to_wait_after_twenty_failures_whatever_the_account(web: Web) -> None:
    statuses = [log_in(web.browser(address="10.1.1.1"), f"name{n}", "wrong").status_code for n in range(22)]
    assert statuses == [401] * 20 + [429] * 2
    assert log_in(web.browser(address="10.1.1.1"), "viewer").status_code == 429
    assert log_in(web.browser(address="10.1.1.2"), "viewer").status_code == 303


def test_addresses_of_one_ipv6_network_count_as_one(web: Web) -> None:
    statuses = [log_in(web.browser(address=f"2001:db8::{n:x}"), f"name{n}", "wrong").status_code for n in range(21)]
    assert statuses == [401] * 20 + [429]


def test_a_host_that_many_people_log_in_from_does_not_have_to_wait(web: Web) -> None:
    assert [log_in(web.browser(address="10.1.1.1"), "viewer").status_code for _ in range(30)] == [303] * 30


def test_logins_are_written_down_without_what_was_typed(web: Web) -> None:
    log_in(web.browser(address="10.0.0.9"), "viewer", "a wrong password")
    log_in(web.browser(), "my secret password", "x")
    log_in(web.browser(), "viewer")
    newest = [(each.user, each.action, each.is_allowed) for each in web.users.audit(3)]
    assert newest == [("viewer", "login", True), ("(unknown)", "login", False), ("viewer", "login", False)]
    assert web.users.audit(3)[2].address == "10.0.0.9"


def test_no_secret_is_in_the_log_or_in_the_file(web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser = web.browser(Role.ADMIN)
    token = browser.cookies["highwater"]
    log_in(web.browser(), "viewer", "a wrong password")
    assert PASSWORD not in caplog.text
    assert token not in caplog.text
    written = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    for secret in (PASSWORD, token, "a wrong password", form_token(browser.get("/account").text)):
        assert secret.encode() not in written
    assert (tmp_path / "users.db").stat().st_mode & 0o777 == 0o600


def test_a_user_ends_own_sessions_and_no_others(web: Web) -> None:
    one, two, other = web.browser(Role.VIEWER), web.browser(Role.VIEWER), web.browser(Role.ADMIN)
    ids = {each.user.name: each.id for each in web.users.sessions()}
    token = form_token(one.get("/account").text)
    one.post("/account/sessions/end", data={"form_token": token, "id": ids["admin"]})
    assert is_logged_in(other)
    for session in [each for each in web.users.sessions() if each.user.name == "viewer"]:
        one.post("/account/sessions/end", data={"form_token": token, "id": session.id})
    assert not (is_logged_in(one) and is_logged_in(two))


def test_a_new_password_ends_all_sessions_and_needs_the_old_one(web: Web) -> None:
    one, two = web.browser(Role.VIEWER), web.browser(Role.VIEWER)
    token, new = form_token(one.get("/account").text), "another horse battery"
    fields = {"form_token": token, "new": new, "again": new}
    assert one.post("/account/password", data={**fields, "password": "wrong"}).status_code == 422
    assert one.post("/account/password", data={**fields, "password": PASSWORD, "again": "x"}).status_code == 422
    short = {"form_token": token, "new": "short", "again": "short", "password": PASSWORD}
    assert "needs at least 12" in one.post("/account/password", data=short).text
    assert is_logged_in(two)
    assert one.post("/account/password", data={**fields, "password": PASSWORD}).status_code == 303
    assert not is_logged_in(one)
    assert not is_logged_in(two)
    assert log_in(web.browser(), "viewer").status_code == 401
    assert log_in(web.browser(), "viewer", new).status_code == 303


def admin_form(web: Web) -> tuple[TestClient, str]:
    browser = web.browser(Role.ADMIN)
    return browser, form_token(browser.get("/users").text)


def test_an_admin_adds_changes_disables_and_removes_users(web: Web) -> None:
    browser, token = admin_form(web)
    new = {"form_token": token, "name": "ada", "password": PASSWORD, "role": "viewer"}
    assert browser.post("/users/add", data=new).status_code == 303
    assert "already" in browser.post("/users/add", data=new).text
    ada = web.browser()
    log_in(ada, "ada")
    browser.post("/users/role", data={"form_token": token, "name": "ada", "role": "operator"})
    assert not is_logged_in(ada)
    log_in(ada, "ada")
    assert is_logged_in(ada)
    browser.post("/users/disable", data={"form_token": token, "name": "ada", "disabled": "yes"})
    assert not is_logged_in(ada)
    assert log_in(web.browser(), "ada").status_code == 401
    browser.post("/users/disable", data={"form_token": token, "name": "ada", "disabled": "no"})
    browser.post("/users/password", data={"form_token": token, "name": "ada", "password": "another password"})
    assert log_in(ada, "ada", "another password").status_code == 303
    ids = [each.id for each in web.users.sessions() if each.user.name == "ada"]
    browser.post("/users/sessions/end", data={"form_token": token, "id": ids[0]})
    assert not is_logged_in(ada)
    browser.post("/users/remove", data={"form_token": token, "name": "ada"})
    assert "ada" not in [user.name for user in web.users.users()]
    assert ("admin", "remove user", "ada") in [(e.user, e.action, e.target) for e in web.users.audit()]


@pytest.mark.parametrize(
    ("path", "fields", "sentence"),
    [
        ("/users/role", {"name": "admin", "role": "viewer"}, "There would be no admin left"),
        ("/users/disable", {"name": "admin", "disabled": "yes"}, "There would be no admin left"),
        ("/users/remove", {"name": "admin"}, "There would be no admin left"),
        ("/users/remove", {"name": "nobody"}, "There is no user"),
        ("/users/role", {"name": "viewer", "role": "king"}, "There is no role"),
        ("/users/add", {"name": "<b>", "password": PASSWORD, "role": "viewer"}, "1 to 64 letters"),
        ("/users/add", {"name": "ada", "password": "aaaaaaaaaaaaaa", "role": "viewer"}, "repeats a few"),
        ("/users/sessions/end", {"id": "none"}, "ended already"),
    ],
)
def test_wrong_changes_of_users_are_refused_in_words(
    web: Web, path: str, fields: dict[str, str], sentence: str
) -> None:
    browser, token = admin_form(web)
    before = web.users.users()
    answer = browser.post(path, data={"form_token": token, **fields})
    assert answer.status_code == 422
    assert sentence in answer.text
    assert web.users.users() == before
    assert not web.users.audit(1)[0].is_allowed


def first_use(folder: Path) -> tuple[Users, Clock, TestClient]:
    clock = Clock()
    users = Users(folder / "users.db", clock, CHEAP)
    client = TestClient(
        make_app(lambda: None, None, users, Settings(monotonic_s=clock)),
        ORIGIN,
        follow_redirects=False,
        client=("127.0.0.1", 1),
    )
    return users, clock, client


def set_up(client: TestClient, token: str, name: str = "ada", again: str = PASSWORD) -> int:
    form = form_token(client.get(f"/setup?token={token}").text)
    fields = {"form_token": form, "token": token, "name": name, "password": PASSWORD, "again": again}
    return client.post("/setup", data=fields).status_code


def test_the_first_user_is_made_once_by_the_link_and_is_an_admin(tmp_path: Path) -> None:
    users, _, client = first_use(tmp_path)
    assert "There is no user yet" in client.get("/login").text
    token = users.offer_set_up()
    assert set_up(client, token, again="different") == 422
    assert set_up(client, token, name="a b") == 422
    assert set_up(client, token) == 303
    assert "The user was created. Log in" in client.get("/login?after=set-up").text
    assert "after" not in client.get("/login?after=%3Cb%3E").text.partition("<main")[2].partition("</h1>")[2]
    assert [(user.name, user.role) for user in users.users()] == [("ada", Role.ADMIN)]
    assert set_up(client, token, name="eve") == 403
    assert [user.name for user in users.users()] == ["ada"]
    assert client.get(f"/setup?token={token}").status_code == 404
    assert log_in(client, "ada").status_code == 303
    users.close()


def test_a_set_up_link_is_refused_when_it_is_old_wrong_or_used_from_elsewhere(tmp_path: Path) -> None:
    users, clock, client = first_use(tmp_path)
    token = users.offer_set_up()
    assert client.get("/setup?token=guess").status_code == 404
    assert client.get("/setup").status_code == 404
    elsewhere = TestClient(client.app, ORIGIN, client=("10.0.0.1", 1))
    assert elsewhere.get(f"/setup?token={token}").status_code == 404
    clock.now_s += SET_UP_S + 1
    assert client.get(f"/setup?token={token}").status_code == 404
    assert users.users() == []
    users.close()


@pytest.mark.parametrize(
    ("host", "is_tls", "is_behind_proxy", "has_users", "is_refused"),
    [
        ("127.0.0.1", False, False, False, False),
        ("::1", False, False, False, False),
        ("0.0.0.0", False, False, True, True),
        ("0.0.0.0", True, False, False, True),
        ("0.0.0.0", True, False, True, False),
        ("10.0.0.1", False, True, True, False),
    ],
)
def test_other_hosts_reach_the_monitor_only_with_tls_and_users(
    host: str, is_tls: bool, is_behind_proxy: bool, has_users: bool, is_refused: bool
) -> None:
    assert bool(bind_problem(host, is_tls, is_behind_proxy, has_users)) is is_refused


def test_a_full_disk_at_login_has_words_and_locks_nobody_out(tmp_path: Path) -> None:
    with web_app(tmp_path) as web:
        viewer = web.browser(Role.VIEWER)
        disk = web.users._connection
        disk.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (pages,) = disk.execute("PRAGMA page_count").fetchone()
        disk.execute(f"PRAGMA max_page_count = {pages}")
        agent = {"User-Agent": "x" * 200}
        answers = [log_in_as(web.browser(), "viewer", agent) for _ in range(60)]
        refused = next(answer for answer in answers if answer.status_code != 303)
        assert refused.status_code == 503
        assert "cannot write its file of users" in refused.text
        assert "free space" in refused.text
        assert viewer.get("/topics").status_code == 200, "who is logged in can look for the reason"
        disk.execute("PRAGMA max_page_count = 100000")
        assert log_in(web.browser(), "viewer").status_code == 303


def log_in_as(browser: TestClient, name: str, headers: dict[str, str]) -> httpx2.Response:
    token = form_token(browser.get("/login").text)
    fields = {"name": name, "password": PASSWORD, "form_token": token}
    return browser.post("/login", data=fields, headers=headers)
