"""Questions over HTTP: a redirect is an answer like others, and nobody is asked where it points to."""

from __future__ import annotations

import http.server
import threading
from typing import Any

import pytest

from highwater.common.bounded_http import Question, exchange


@pytest.mark.parametrize("form", [None, {"grant_type": "client_credentials"}])
def test_a_redirect_is_not_followed(form: dict[str, str] | None) -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_GET  # noqa: N815 - the name that the library calls

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            answer = exchange(
                Question(f"http://127.0.0.1:{server.server_port}/token", form, "Basic secret"), None, 60, "test"
            )
        finally:
            server.shutdown()
            thread.join()
    assert (answer.status, asked) == (307, ["/token"])
