"""Checks of a built site, from its files alone: links, anchors, the search index, nothing from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself, in contrast to links, which a reader follows.
_FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}


@dataclass(slots=True)
class _Page(HTMLParser):
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif (name := _FETCHED.get(tag)) and name in given:
            self.fetched.append(given[name])


def faults_of(folder: Path) -> list[str]:
    """A line for each link, anchor or entry of the search index that leads nowhere, and for each fetch from outside."""
    pages = {path: _read(path) for path in sorted(folder.rglob("*.html"))}
    return (
        [
            f"{path.relative_to(folder)}: {fault}"
            for path, page in pages.items()
            for fault in (*_broken(path, page, pages), *_from_outside(page))
        ]
        + [
            f"{path.relative_to(folder)}: a style is fetched from {address}"
            for path in sorted(folder.rglob("*.css"))
            for address in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", path.read_text("utf-8"))
        ]
        + [fault for index in sorted(folder.rglob("search_index.js")) for fault in _lost(index, pages)]
    )


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


def _broken(path: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for link in dict.fromkeys((*page.links, *page.fetched)):
        if not urlsplit(link).scheme and not link.startswith("//") and not _leads(path, link, pages):
            yield f"{link} leads nowhere"


def _leads(path: Path, link: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors


def _from_outside(page: _Page) -> Iterator[str]:
    for address in page.fetched:
        if urlsplit(address).netloc:
            yield f"{address} is fetched from outside"


def _lost(index: Path, pages: dict[Path, _Page]) -> Iterator[str]:
    top = index.parents[1]
    for entry in searched(index):
        if not _leads(top / "index.html", entry["location"] or "index.html", pages):
            yield f"{index.parents[1].name}: the search leads to {entry['location']}, which is not there"


def searched(index: Path) -> list[dict[str, str]]:
    """The entries of a search index: location, title, text."""
    entries: list[dict[str, str]] = json.loads(index.read_text("utf-8").partition("=")[2])["docs"]
    return entries
