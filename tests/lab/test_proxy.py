"""The way of the lab's hosts to the archive: what never changes is fetched once, and nothing else is reached."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.lab.proxy import Proxy
from tests.serving import ANY_PORT, serving


class Archive(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if "missing" in self.path:
            self.send_error(404)
            return
        body = f"{self.path} {len(self.asked)}".encode()
        self.send_response(304 if self.headers.get("If-Modified-Since") else 200)
        if "cut-short" in self.path:
            self.send_header("Content-Length", str(len(body) + 1))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def asked() -> list[str]:
    """What was asked of the archive."""
    return []


@pytest.fixture
def ports(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Of the proxy and of the archive."""
    monkeypatch.delenv("http_proxy", raising=False)
    handler = type("Handler", (Archive,), {"asked": asked})
    with (
        serving(ThreadingHTTPServer(ANY_PORT, handler)) as archive,
        serving(Proxy(ANY_PORT, tmp_path, ["127.0.0.1"])) as proxy,
    ):
        yield proxy, archive


def get(proxy: int, url: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=30)
    try:
        connection.request("GET", url, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_package_is_fetched_once_and_a_list_every_time(ports: tuple[int, int], asked: list[str]) -> None:
    proxy, archive = ports
    package, lists = f"http://127.0.0.1:{archive}/pool/a_1%2b2.deb", f"http://127.0.0.1:{archive}/dists/InRelease"
    assert get(proxy, package) == get(proxy, package) == (200, "/pool/a_1%2b2.deb 1")
    assert [get(proxy, lists)[1], get(proxy, lists)[1]] == ["/dists/InRelease 2", "/dists/InRelease 3"]
    assert get(proxy, lists, **{"If-Modified-Since": "Thu, 01 Jan 2026 00:00:00 GMT"}) == (304, "")
    assert asked == ["/pool/a_1%2b2.deb", *["/dists/InRelease"] * 3]


def test_what_is_not_there_or_came_in_part_is_not_kept(ports: tuple[int, int], asked: list[str]) -> None:
    proxy, archive = ports
    for name, status in (("missing", 404), ("cut-short", 502)):
        url = f"http://127.0.0.1:{archive}/pool/{name}.deb"
        assert [get(proxy, url)[0], get(proxy, url)[0]] == [status, status]
    assert len(asked) == 4


def test_nothing_but_the_archive_is_reached(ports: tuple[int, int], asked: list[str]) -> None:
    proxy, archive = ports
    for url in (f"http://localhost:{archive}/pool/x", f"https://127.0.0.1:{archive}/pool/x", "/pool/x"):
        assert get(proxy, url)[0] == 403
    assert asked == []


def test_an_archive_that_cannot_be_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    with serving(ThreadingHTTPServer(ANY_PORT, Archive)) as port:
        pass
    with serving(Proxy(ANY_PORT, tmp_path, ["127.0.0.1"])) as proxy:
        status, body = get(proxy, f"http://127.0.0.1:{port}/pool/x")
    assert status == 502
    assert "127.0.0.1 cannot be reached" in body
