"""Every route with every role, in every spelling of its path and with every method."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from highwater.monitor.oidc.login import CALLBACK_PATH, OidcLogin
from highwater.monitor.users import Role
from highwater.monitor.web.app import OIDC_ROUTES, ROUTES
from highwater.monitor.web.guard import CALL, accept
from highwater.monitor.web.routing import Route
from tests.monitor.oidc.provider import SETTINGS, FakeProvider
from tests.monitor.web.pages import ORIGIN, Clock, Web, form_token, web_app

WHO = (None, *Role)
EVERY: Final = (*ROUTES, *OIDC_ROUTES)
ODD_SPELLINGS: Final[dict[str, Callable[[str], str]]] = {
    "two slashes at the start": lambda path: "/" + path,
    "two slashes inside": lambda path: path.replace("/", "//"),
    "a slash at the end": lambda path: path + "/",
    "another segment": lambda path: path + "/more",
    "another segment before": lambda path: "/more" + path,
    "a dot segment": lambda path: "/." + path,
    "a way up": lambda path: "/login/.." + path,
    "an escaped dot": lambda path: "/%2e" + path,
    "an escaped way up": lambda path: "/login/%2e%2e" + path,
    "an escaped slash": lambda path: path + "%2f",
    "an escaped letter": lambda path: path[:-1] + f"%{ord(path[-1]):02x}",
    "an escaped line end": lambda path: path + "%0a",
    "an escaped zero": lambda path: path + "%00",
    "a parameter": lambda path: path + ";a=b",
    "capitals": lambda path: path.upper(),
    "a backslash": lambda path: path.replace("/", "\\"),
}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    def oidc(clock: Clock) -> OidcLogin:
        return OidcLogin(SETTINGS, clock, clock, FakeProvider(clock))

    with web_app(tmp_path_factory.mktemp("web"), oidc=oidc) as made:
        yield made


@pytest.fixture(scope="module")
def browsers(web: Web) -> dict[Role | None, TestClient]:
    return {who: web.browser(who) for who in WHO}


def may(who: Role | None, route: Route) -> bool:
    return route.role is None or (who is not None and who >= route.role)


def ids(route: Route) -> str:
    return route.path


@pytest.mark.parametrize("who", WHO, ids=lambda who: who.title if who else "nobody")
@pytest.mark.parametrize("route", EVERY, ids=ids)
def test_a_page_is_for_those_who_have_its_role(
    web: Web, browsers: dict[Role | None, TestClient], route: Route, who: Role | None
) -> None:
    for method in ("GET", "HEAD"):
        answer = browsers[who].request(method, route.path)
        if route.get is None:
            assert answer.status_code == 405
        elif may(who, route):
            # Pages of one thing need its name: without it they say that it does not exist.
            assert answer.status_code in (200, 303, 404) or route.path in ("/readyz", CALLBACK_PATH)
            assert "No such page" not in answer.text
            assert "/login" not in answer.headers.get("location", "")
        elif who is None and not route.is_for_programs:
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/login")
        else:
            assert answer.status_code == (401 if who is None else 403)


@pytest.mark.parametrize("who", WHO, ids=lambda who: who.title if who else "nobody")
@pytest.mark.parametrize("route", EVERY, ids=ids)
def test_a_form_is_for_those_who_have_its_role(
    web: Web, browsers: dict[Role | None, TestClient], route: Route, who: Role | None
) -> None:
    """Without the form's token, so that nothing changes: the refusal then names the form, not the role."""
    answer = browsers[who].post(route.path, data={"name": "x"})
    if route.post is None:
        assert answer.status_code == 405
    elif may(who, route):
        assert answer.status_code == 403
        assert "not from this session" in answer.text
    else:
        assert answer.status_code == (401 if who is None else 403)
        assert "not from this session" not in answer.text


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "DELETE", "PATCH", "CONNECT", "PROPFIND"])
@pytest.mark.parametrize("who", WHO, ids=lambda who: who.title if who else "nobody")
def test_other_methods_are_refused_everywhere(
    browsers: dict[Role | None, TestClient], who: Role | None, method: str
) -> None:
    for route in EVERY:
        answer = browsers[who].request(method, route.path)
        assert answer.status_code == 405, route.path
        assert answer.headers["allow"] == ", ".join(route.methods)


@pytest.mark.parametrize("spelling", ODD_SPELLINGS)
@pytest.mark.parametrize("who", WHO, ids=lambda who: who.title if who else "nobody")
def test_another_spelling_of_a_path_is_no_page(
    browsers: dict[Role | None, TestClient], who: Role | None, spelling: str
) -> None:
    for route in EVERY:
        odd = ODD_SPELLINGS[spelling](route.path)
        if odd == route.path or odd.encode() in (each.path.encode() for each in EVERY):
            continue
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            status, body = raw_request(browsers[who], method, odd)
            assert status == 404, (method, odd)
            assert "No such page" in body or "no page here" in body


def raw_request(client: TestClient, method: str, raw_path: str) -> tuple[int, str]:
    """Past the client's own clean-up of paths: the scope is what uvicorn makes of the bytes of the request line."""
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    headers = [(b"host", b"localhost:8080"), (b"cookie", cookie.encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote_to_bytes(raw_path).decode("utf-8", "surrogateescape"),
        "raw_path": raw_path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 50000),
        "server": ("localhost", 8080),
    }
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    status = sent[0]["status"]
    assert isinstance(status, int)
    body = b"".join(part["body"] for part in sent[1:] if isinstance(part["body"], bytes))
    return status, body.decode()


def test_a_proxys_prefix_opens_nothing(web: Web) -> None:
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "scheme": "http", "path": "/x/users", "root_path": "/x", "query_string": b"",
        "headers": [(b"host", b"localhost")], "client": None, "server": ("localhost", 80),
    }  # fmt: skip
    asyncio.run(web.client.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 404


def test_an_endpoint_takes_no_request_that_the_guard_gave_to_another_route() -> None:
    """So that a router that finds another route than the guard opens nothing."""
    one, other = ROUTES[0], ROUTES[1]
    assert accept({}, one) is None
    assert accept({CALL: "yes"}, one) is None
    assert accept({CALL: object()}, other) is None


def test_every_route_that_changes_something_needs_a_login_but_those_before_it() -> None:
    public = {route.path for route in EVERY if route.role is None}
    files = {"/static/chart.css", "/static/icon.svg", "/static/monitor.css", "/static/monitor.js"}
    assert public == {"/login", "/setup", "/healthz", "/readyz", "/oidc/login", "/oidc/callback"} | files
    assert all(route.role is Role.ADMIN for route in ROUTES if route.path.startswith("/users"))


@pytest.mark.parametrize(
    "path", ["/login", "/static/monitor.css", "/nowhere", "/users", "/api/v1/nothing", "/static/monitor.js"]
)
def test_every_answer_has_the_headers(web: Web, browsers: dict[Role | None, TestClient], path: str) -> None:
    for who in WHO:
        headers = browsers[who].get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == ("no-cache" if path.startswith("/static/") else "no-store")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io:8080", "[::2]:8080"])
def test_another_host_name_is_refused(web: Web, host: str) -> None:
    """A site whose name was made to point to this address gets nothing, not even the login."""
    assert web.browser().get("/login", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"])
def test_own_host_names_are_accepted(web: Web, host: str) -> None:
    assert web.browser().get("/login", headers={"host": host}).status_code == 200


def test_a_refusal_by_role_is_written_down(web: Web) -> None:
    web.browser(Role.VIEWER).get("/users")
    entry = web.users.audit(1)[0]
    assert (entry.user, entry.action, entry.is_allowed) == ("viewer", "GET /users", False)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"origin": ORIGIN}, 303),
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "same-origin", "origin": "null"}, 303),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://localhost:8080"}, 403),
        ({"origin": "http://localhost:8081"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": ORIGIN}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://evil.example"}, 403),
    ],
)
def test_forms_of_other_sites_are_refused_even_with_a_right_token(
    web: Web, headers: dict[str, str], status: int
) -> None:
    browser = web.browser(Role.VIEWER)
    token = form_token(browser.get("/account").text)
    answer = browser.post("/logout", data={"form_token": token}, headers=headers)
    assert answer.status_code == status
    assert (browser.get("/account").status_code == 200) is (status == 403)


def test_a_form_needs_the_token_of_its_own_session(web: Web) -> None:
    mine, other = web.browser(Role.ADMIN), web.browser(Role.ADMIN)
    foreign = form_token(other.get("/account").text)
    visitors = form_token(web.browser().get("/login").text)
    for token in (foreign, visitors, "", "0" * 64, "ü" * 64):
        assert mine.post("/logout", data={"form_token": token}).status_code == 403
    assert mine.get("/account").status_code == 200


def test_a_login_form_needs_the_browser_that_asked_for_it(web: Web) -> None:
    """Or somebody could log a stranger's browser in as himself, and read what the stranger does."""
    token = form_token(web.browser().get("/login").text)
    fields = {"name": "viewer", "password": "correct horse battery", "form_token": token}
    assert web.browser().post("/login", data=fields).status_code == 403


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"form_token=x", "text/plain", 415),
        (b'{"form_token": "x"}', "application/json", 415),
        (b"form_token=x", "multipart/form-data; boundary=x", 415),
        (b"a" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"\xff=1", "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a=1" for _ in range(60)), "application/x-www-form-urlencoded", 400),
    ],
)
def test_other_bodies_than_small_forms_are_refused(web: Web, body: bytes, content_type: str, status: int) -> None:
    answer = web.browser(Role.ADMIN).post("/logout", content=body, headers={"content-type": content_type})
    assert answer.status_code == status


def test_a_query_that_is_not_well_formed_is_refused(web: Web) -> None:
    assert web.browser(Role.VIEWER).get("/account?a=%ff").status_code == 400


def test_a_websocket_is_refused(web: Web) -> None:
    with pytest.raises(WebSocketDisconnect), web.browser(Role.ADMIN).websocket_connect("/users"):
        pass
