"""What is asked of a registry, against one that answers from a list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from highwater.pipeline.errors import SettingsError
from highwater.pipeline.registry.client import RegistrySettings, latest


@contextmanager
def registry(versions: list[dict[str, Any]]) -> Iterator[RegistrySettings]:
    """The last of the versions is the newest one of the subject `orders`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.path.startswith("/subjects/orders/versions/latest")
            body = json.dumps(versions[-1] if is_known else {"error_code": 40401, "message": "not found"}).encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield RegistrySettings((("url", f"http://127.0.0.1:{server.server_address[1]}"),))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def version(number: int) -> dict[str, Any]:
    return {"subject": "orders", "version": number, "id": number, "schema": '"long"'}


def test_the_newest_schema_is_asked_for_each_time() -> None:
    versions = [version(1)]
    with registry(versions) as settings:
        assert latest(settings, "orders").schema_id == 1
        versions.append(version(2))
        assert latest(settings, "orders").schema_id == 2
        with pytest.raises(SettingsError, match=r"has no subject others$"):
            latest(settings, "others")
