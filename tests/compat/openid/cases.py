"""The cases: people who log in by a provider that others wrote, and what goes wrong between it and the monitor."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

from highwater.common.ports import free_ports
from tests.compat.openid.own_cases import (
    our_brokers_get_tokens_for_each_other,
    our_commands_bench_and_monitor_get_tokens,
    our_pipelines_get_tokens,
)
from tests.compat.openid.providers import SECRET, oidc_provider, oidc_provider_mock
from tests.compat.openid.token_cases import (
    apache_kafkas_clients_get_their_own_tokens,
    kafka_python_brings_tokens,
    librdkafka_gets_its_own_tokens,
)

Start = Callable[[int, str, Path], AbstractContextManager[str]]
_CONFIG: Final = """
bootstrap_servers: 127.0.0.1:9
data: data
history: {{address: none}}
web:
  listen: 127.0.0.1:{port}
  local_users: {local}
  oidc:
    issuer: http://127.0.0.1:{provider}
    client_id: highwater
    client_secret: ${{OIDC_SECRET}}
    name: Somebody else
    scopes: [openid, profile{scope}]
    roles: {{claim: groups, viewer: [kafka-readers], admin: [kafka-admins]}}
"""
_MOST_FORMS: Final = 5
_READY_WITHIN_S: Final = 60


class Site:
    def __init__(self, base: str) -> None:
        self.base = base

    def browser(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.base, follow_redirects=True, timeout=30)

    def to_provider(self, browser: httpx2.Client, page: str = "/topics") -> httpx2.Response:
        """As a person who wants to see `page`: to the login, and by its link to the provider."""
        login = browser.get(page)
        link = re.search(r'href="(/oidc/login[^"]*)"', login.text)
        assert link, login.text
        return browser.get(urljoin(str(login.url), html.unescape(link[1])))

    def log_in(self, browser: httpx2.Client, name: str, page: str = "/topics") -> httpx2.Response:
        """Fill in what the provider asks until the browser is back; returns the page that it ends at."""
        answer = self.to_provider(browser, page)
        for _ in range(_MOST_FORMS):
            if str(answer.url).startswith(self.base):
                return answer
            form = re.search(r"<form[^>]*>.*?</form>", answer.text, re.DOTALL)
            assert form, answer.text
            to = re.search(r'action="([^"]+)"', form[0])
            fields = dict(re.findall(r'name="([^"]+)"[^>]*value="([^"]*)"', form[0]))
            typed = {field: name for field in ("login", "password", "sub") if f'name="{field}"' in form[0]}
            answer = browser.post(
                urljoin(str(answer.url), html.unescape(to[1]) if to else ""), data={**fields, **typed}
            )
        raise AssertionError(f"the provider does not send the browser back: {answer.url}")

    def account(self, browser: httpx2.Client) -> str:
        return browser.get("/account").text


@contextmanager
def serving(
    place: Path, port: int, provider: int, *, scope: str = "", local: bool = True, secret: str = SECRET
) -> Iterator[Site]:
    config = place / "monitor.yaml"
    config.write_text(_CONFIG.format(port=port, provider=provider, scope=scope, local=str(local).lower()))
    log = place / "monitor.log"
    command = [sys.executable, "-P", "-m", "highwater", "monitor", "serve", "-c", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "OIDC_SECRET": secret})
    try:
        ends_s = time.monotonic() + _READY_WITHIN_S
        while "login by http://" not in log.read_text("utf-8"):
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < ends_s, "the monitor does not serve"
            time.sleep(0.1)
        told = f"must allow the redirect to http://127.0.0.1:{port}/oidc/callback"
        assert told in log.read_text("utf-8")
        yield Site(f"http://127.0.0.1:{port}")
        assert secret not in log.read_text("utf-8")
        assert "Traceback" not in log.read_text("utf-8"), log.read_text("utf-8")
    finally:
        process.terminate()
        process.wait(60)


def _people_get_their_roles(start: Start, scope: str) -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-openid-") as name:
        place, (port, provider) = Path(name), free_ports(2)
        redirect = f"http://127.0.0.1:{port}/oidc/callback"
        with serving(place, port, provider, scope=scope) as site:
            with start(provider, redirect, place / "provider.log"):
                ada, ben, eve = site.browser(), site.browser(), site.browser()
                assert str(site.log_in(ada, "ada").url) == f"{site.base}/topics"
                assert "ada has the role admin" in site.account(ada)
                assert ada.get("/users").status_code == 200
                site.log_in(ben, "ben")
                assert "ben has the role viewer" in site.account(ben)
                assert ben.get("/users").status_code == 403
                refused = site.log_in(eve, "eve")
                assert refused.status_code == 403
                assert "eve has no role here" in refused.text
                assert str(eve.get("/topics").url).startswith(f"{site.base}/login")
                _a_code_works_once(site)
            assert "ada has the role admin" in site.account(ada), "sessions are the monitor's own"


def _a_code_works_once(site: Site) -> None:
    """The provider itself refuses it, with a state that is new."""
    first, second = site.browser(), site.browser()
    asked: list[str] = []
    first.event_hooks["request"].append(lambda request: asked.append(str(request.url)))
    site.log_in(first, "ben")
    (used,) = [parse_qs(urlsplit(url).query) for url in asked if "/oidc/callback?" in url]
    second.follow_redirects = False
    page = second.get("/oidc/login")
    state = parse_qs(urlsplit(page.headers["location"]).query)["state"][0]
    again = second.get("/oidc/callback", params={**used, "state": state})
    assert again.status_code == 400, again.text
    assert "used or too old" in again.text


def _turning_back(site: Site) -> None:
    browser = site.browser()
    asked = site.to_provider(browser)
    back = re.search(r'href="([^"]*/abort)"', asked.text)
    assert back, asked.text
    refused = browser.get(urljoin(str(asked.url), back[1]))
    assert refused.status_code == 403, refused.text
    assert "you cancelled it" in refused.text


def _turning_back_and_a_wrong_secret() -> None:
    with tempfile.TemporaryDirectory(prefix="highwater-openid-") as name:
        place, (port, provider) = Path(name), free_ports(2)
        redirect = f"http://127.0.0.1:{port}/oidc/callback"
        with (
            oidc_provider(provider, redirect, place / "provider.log"),
            serving(place, port, provider, scope=", groups", secret="another secret") as site,  # noqa: S106
        ):
            _turning_back(site)
            refused = site.log_in(site.browser(), "ada")
            assert refused.status_code == 502
            assert "see client_id and client_secret" in refused.text
            assert "another secret" not in refused.text


def _a_provider_that_was_away_and_new_keys() -> None:
    """The mock makes its key when it starts."""
    with tempfile.TemporaryDirectory(prefix="highwater-openid-") as name:
        place, (port, provider) = Path(name), free_ports(2)
        with serving(place, port, provider, local=False) as site:
            away = site.to_provider(site.browser())
            assert away.status_code == 502, away.text
            assert "cannot be reached" in away.text
            time.sleep(10)  # so long is a provider that was away not asked again
            with oidc_provider_mock(provider, "", place / "provider.log"):
                assert "ada has the role admin" in site.account(_logged_in(site, "ada"))
            time.sleep(31)  # keys are asked for twice a minute at most
            with oidc_provider_mock(provider, "", place / "provider.log"):
                assert "ben has the role viewer" in site.account(_logged_in(site, "ben"))
            page = site.browser().get("/login").text
            assert 'type="password"' not in page


def _logged_in(site: Site, name: str) -> httpx2.Client:
    browser = site.browser()
    site.log_in(browser, name)
    return browser


CASES: Final[dict[str, Callable[[], None]]] = {
    "oidc-provider: people get their roles": lambda: _people_get_their_roles(oidc_provider, ", groups"),
    "oidc-provider: turning back, and a wrong secret": _turning_back_and_a_wrong_secret,
    "oidc-provider: tokens for librdkafka": librdkafka_gets_its_own_tokens,
    "oidc-provider: tokens for kafka-python": kafka_python_brings_tokens,
    "oidc-provider: tokens for Apache Kafka's clients": apache_kafkas_clients_get_their_own_tokens,
    "oidc-provider: tokens for our commands, bench and monitor": our_commands_bench_and_monitor_get_tokens,
    "oidc-provider: tokens for our pipelines": our_pipelines_get_tokens,
    "oidc-provider: tokens for our brokers among each other": our_brokers_get_tokens_for_each_other,
    "oidc-provider-mock: people get their roles": lambda: _people_get_their_roles(oidc_provider_mock, ""),
    "oidc-provider-mock: away, back, and with new keys": _a_provider_that_was_away_and_new_keys,
}
