"""What the lab's hosts get Debian packages through: a forward proxy to the archive of their image, and to nothing else.

Files of the archive that never change are kept, so that three hosts fetch a package once, and the next lab not at all.
Hosts have no other way out, which shows that the playbooks need none. Started by `python -m tests.lab up`.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import threading
import urllib.parse
from collections import defaultdict
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

PORT: Final = 3142

_TIMEOUT_S: Final = 60.0
_NEVER_CHANGES: Final = ("/pool/", "/by-hash/")
_CONDITIONS: Final = ("If-Modified-Since", "Cache-Control")
_ANSWERED: Final = ("Content-Type", "Last-Modified", "ETag")


class Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], cache: Path, archives: Sequence[str]) -> None:
        self.cache = cache
        self.archives = frozenset(archives)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        super().__init__(address, Handler)

    def lock_of(self, name: str) -> threading.Lock:
        """Held by the one that fetches a file, while others wait to find it."""
        return self._locks[name]


class Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.scheme != "http" or url.hostname not in self.server.archives:
            archives = ", ".join(sorted(self.server.archives))
            self.send_error(403, f"hosts of the lab reach {archives} alone")
            return
        try:
            name = urllib.parse.unquote(url.path)
            if any(part in name for part in _NEVER_CHANGES) and ".." not in name:
                self._answer_from(self._kept(url, name))
            else:
                self._pass_on(url)
        except (OSError, http.client.HTTPException) as error:
            self.close_connection = True
            self.send_error(502, f"{url.hostname} cannot be reached: {error}")

    def _kept(self, url: urllib.parse.SplitResult, name: str) -> Path | int:
        """The file, fetched when it is not there yet; a status when the archive does not have it."""
        path = self.server.cache / str(url.hostname) / name.lstrip("/")
        with self.server.lock_of(str(path)):
            if path.exists():
                return path
            answer = _ask(url, {})
            if answer.status != 200:
                return answer.status
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
            with unfinished.open("wb") as file:
                shutil.copyfileobj(answer, file)
            wanted = answer.headers.get("Content-Length")
            if wanted is not None and unfinished.stat().st_size != int(wanted):
                unfinished.unlink()
                return 502
            unfinished.replace(path)
            return path

    def _answer_from(self, kept: Path | int) -> None:
        if isinstance(kept, int):
            self.send_error(kept)
            return
        with kept.open("rb") as file:
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def _pass_on(self, url: urllib.parse.SplitResult) -> None:
        asked = {name: value for name in _CONDITIONS if (value := self.headers.get(name)) is not None}
        answer = _ask(url, asked)
        body = answer.read()
        self.send_response(answer.status)
        for name in _ANSWERED:
            if (value := answer.headers.get(name)) is not None:
                self.send_header(name, value)
        if answer.status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if answer.status != 304:
            self.wfile.write(body)


def _ask(url: urllib.parse.SplitResult, headers: dict[str, str]) -> http.client.HTTPResponse:
    """By this machine's own proxy, where it has one."""
    whole = urllib.parse.urlunsplit(url)
    proxy = urllib.parse.urlsplit(os.environ.get("http_proxy", ""))
    if proxy.hostname:
        connection = http.client.HTTPConnection(proxy.hostname, proxy.port or 80, timeout=_TIMEOUT_S)
        connection.request("GET", whole, headers=headers)
    else:
        connection = http.client.HTTPConnection(str(url.hostname), url.port or 80, timeout=_TIMEOUT_S)
        connection.request("GET", url.path + (f"?{url.query}" if url.query else ""), headers=headers)
    return connection.getresponse()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.proxy", description=__doc__)
    parser.add_argument("--address", required=True, help="of the lab's bridge")
    parser.add_argument("--cache", required=True, type=Path)
    parser.add_argument("--archive", required=True, action="append", help="a host that may be reached")
    options = parser.parse_args()
    Proxy((options.address, PORT), options.cache, options.archive).serve_forever()


if __name__ == "__main__":
    main()
