"""The documentation as an archive of web pages, which need neither a server nor another host."""

from __future__ import annotations

import functools
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from highwater.common.errors import UsageError
from tools.release.archives import rewrite_tar
from tools.release.building import Build
from tools.release.places import Place
from tools.site.browser import chromium, running_browser
from tools.site.building import NAME, build_version, unpack, write_front
from tools.site.checking import faults_of, searched

_WORDS: Final = ("fsync", "exactly once", "log.retention")
# Long pages, wide tables, long words in code.
_WIDE: Final = ("index", "docs/commands", "docs/security", "docs/tuning-knobs", "docs/results/broker-versus-kafka")
_NARROW_PX: Final = 390


def site_archive(build: Build) -> list[Path]:
    """One version; `make site` puts several beside each other."""
    folder = build.scratch / NAME
    build_version(build, folder)
    write_front(folder)
    if faults := faults_of(folder):
        raise UsageError(f"{len(faults)} faults of the documentation, first {faults[0]}")
    path = build.out / f"{NAME}-{build.version}.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(folder, NAME)
    rewrite_tar(path, build.epoch_s)
    return [path]


def try_site(artefact: Path, chosen: tuple[Place, ...]) -> list[str]:
    """Unpack it, and look at it as files and from a server. Raises UsageError with what is not right."""
    if not chosen:
        return []
    with TemporaryDirectory(prefix="highwater-tried-") as name:
        folder = Path(name)
        unpack(artefact, folder)
        if faults := faults_of(folder):
            raise UsageError(f"{len(faults)} faults, first {faults[0]}")
        (version,) = (row["version"] for row in json.loads((folder / "versions.json").read_text("utf-8")))
        pages = sorted((folder / version).rglob("*.html"))
        entries = searched(folder / version / "search/search_index.js")
        with served(folder) as port:
            _ask_for(port, [path.relative_to(folder) for path in (folder / "index.html", folder / "llms.txt", *pages)])
            found = f"version {version}: {len(pages)} pages, {len(entries)} entries of the search, no broken link"
            if chromium() is None:
                return [found, "not looked at with a browser: there is no chromium here"]
            tops = (f"http://127.0.0.1:{port}/", f"file://{folder}/")
            return [found, *(_looked_at(f"{top}{version}/") for top in tops)]


def _ask_for(port: int, paths: list[Path]) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    for path in paths:
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        response.read()
        if response.status != HTTPStatus.OK:
            raise UsageError(f"{path}: a server answers {response.status}")


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """The port of a server of these files on the loopback interface."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Requests are not written down."""


def _looked_at(top: str) -> str:
    """What a browser shows. Raises UsageError for a request elsewhere, a search that finds nothing, a page too wide."""
    with running_browser() as browser:
        for words in _WORDS:
            browser.open(f"{top}index.html?q={words.replace(' ', '%20')}")
            browser.wait("document.querySelector('.md-search-result__link') !== null")
        for scheme in ("light", "dark"):
            browser.size(_NARROW_PX, scheme)
            for page in _WIDE:
                browser.open(f"{top}{page}.html")
                if (width := browser.value("document.documentElement.scrollWidth")) > _NARROW_PX:
                    raise UsageError(f"{page}.html is {width} px wide where {_NARROW_PX} px are shown")
        browser.wait("document.querySelector('select.version') !== null")
        beside = top.rsplit("/", 2)[0]
        if elsewhere := [each for each in browser.fetched if not each.startswith((beside, "data:", "blob:"))]:
            raise UsageError(f"{elsewhere[0]} was fetched")
        return (
            f"{top.split('/')[0]} in Chromium: {', '.join(_WORDS)} found; "
            f"{len(browser.fetched)} requests, none elsewhere; {len(_WIDE)} pages fit {_NARROW_PX} px in light and dark"
        )
