"""Below a base path everything works as at the root, and nothing leads out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from highwater.common.errors import UsageError
from highwater.monitor.config import MonitorConfig, with_options
from highwater.monitor.users import Role
from highwater.monitor.web.base_path import with_base_path
from highwater.monitor.web.site import Settings
from tests.monitor.web.pages import ORIGIN, PASSWORD, Web, form_token, web_app
from tests.monitor.web.test_pages import HOSTILE, every_page

BASE = "/tools/monitor"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web_app(tmp_path_factory.mktemp("web"), HOSTILE) as made:
        yield made


@pytest.fixture(scope="module")
def based(web: Web) -> TestClient:
    return TestClient(with_base_path(web.client.app, BASE), ORIGIN, follow_redirects=False)


def log_in(client: TestClient) -> httpx2.Response:
    page = client.get(f"{BASE}/login")
    return client.post(
        f"{BASE}/login",
        data={"name": Role.VIEWER.title, "password": PASSWORD, "form_token": form_token(page.text), "next": "/topics"},
    )


def test_a_login_leads_to_the_page_and_its_cookies_stay_below_the_path(based: TestClient) -> None:
    assert based.get(BASE).headers["location"] == f"{BASE}/login"
    assert based.get(f"{BASE}/topics?q=a").headers["location"] == f"{BASE}/login?next=/topics%3Fq%3Da"
    answer = log_in(based)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{BASE}/topics")
    cookies = [value for name, value in answer.headers.multi_items() if name == "set-cookie"]
    assert cookies
    assert all(re.search(rf"; path={BASE}(;|$)", cookie, re.IGNORECASE) for cookie in cookies)


def test_pages_are_those_of_the_root_with_other_addresses(web: Web, based: TestClient) -> None:
    log_in(based)
    viewer = web.browser(Role.VIEWER)
    for path in every_page(web):
        page, root = based.get(BASE + path), viewer.get(path)
        assert page.status_code == root.status_code == 200
        addresses = re.findall(r' (?:href|src|action)="([^"]*)"', page.text)
        assert addresses
        assert all(each.startswith((f"{BASE}/", "#")) for each in addresses), path
        without_tokens = re.sub(r'"[0-9a-f]{64}"', '""', page.text.replace(f'="{BASE}/', '="/'))
        assert without_tokens == re.sub(r'"[0-9a-f]{64}"', '""', root.text)
        assert int(page.headers["content-length"]) == len(page.content)


@pytest.mark.parametrize(
    "path", ["/", "/login", "/tools", "/tools/monitors/login", f"/{BASE}/login", "/tools%2fmonitor/"]
)
def test_what_is_not_below_the_path_does_not_exist(based: TestClient, path: str) -> None:
    answer = based.get(path)
    assert answer.status_code == 404
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_files_and_tables_for_programs_are_below_it_too(based: TestClient) -> None:
    assert based.get(f"{BASE}/static/monitor.js").status_code == 200
    assert based.get(f"{BASE}/healthz").text == "ok\n"
    log_in(based)
    assert based.get(f"{BASE}/api/v1/cluster").json()["topics"] == 30


def test_a_cookie_for_a_part_of_a_host_has_another_prefix() -> None:
    root = Settings(is_tls=True)
    assert root.session_cookie.startswith("__Host-")
    assert replace(root, base_path=BASE).session_cookie.startswith("__Secure-")


def test_options_take_a_path_and_nothing_else(tmp_path: Path) -> None:
    config = MonitorConfig("127.0.0.1:9092")
    for text, path in (("/monitor", "/monitor"), ("/a/b-c/", "/a/b-c"), ("/", "")):
        assert with_options(config, base_path=text).web.base_path == path
    for text in ("monitor", "//host", "/a//b", "/../x", "https://x/y", "/a b", "/a?b"):
        with pytest.raises(UsageError, match=r"^--base-path: .* is no path such as /monitor"):
            with_options(config, base_path=text)
