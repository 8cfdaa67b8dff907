"""The shelves of docs/README.md, from which come the site's navigation and its llms.txt."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from highwater.common.errors import UsageError

INDEX: Final = "docs/README.md"
RESULTS: Final = "docs/results/README.md"
LINK: Final = re.compile(r"\[([^]]+)\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Entry:
    """path: from the root of the repository. words: what is to be found there."""

    title: str
    path: str
    words: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """groups: entries by the line above them, which is empty where there is none."""

    name: str
    groups: dict[str, list[Entry]] = field(default_factory=dict)

    @property
    def entries(self) -> list[Entry]:
        return [entry for group in self.groups.values() for entry in group]


def read_shelves(source: Path) -> list[Shelf]:
    """Raises UsageError with the line that is neither a shelf, a group, nor an entry."""
    shelves: list[Shelf] = []
    group = ""
    for number, line in enumerate((source / INDEX).read_text("utf-8").splitlines(), 1):
        if line.startswith("## "):
            shelves.append(Shelf(line.removeprefix("## ")))
            group = ""
        elif not shelves or not line:
            continue
        elif re.fullmatch(r"\w[^:]*:", line):
            group = line.removesuffix(":")
        elif line.startswith("- [") and (entries := list(_entries(line))):
            shelves[-1].groups.setdefault(group, []).extend(entries)
        else:
            raise UsageError(f"{INDEX}:{number}: {line!r} is no shelf, no group, and no link with words in one line")
    return shelves


def _entries(line: str) -> Iterator[Entry]:
    words = line.rpartition("): ")[2] if "): " in line else ""
    for title, target in LINK.findall(line if not words else line.removesuffix(words)):
        yield Entry(
            title[0].upper() + title[1:], posixpath.normpath(posixpath.join(posixpath.dirname(INDEX), target)), words
        )


def results_of(source: Path) -> list[str]:
    """The pages of measured results, in the order of their own index."""
    folder = posixpath.dirname(RESULTS)
    found = (target for _, target in LINK.findall((source / RESULTS).read_text("utf-8")))
    pages = (posixpath.normpath(posixpath.join(folder, target)) for target in found if target.endswith(".md"))
    return list(dict.fromkeys(path for path in pages if path.startswith(folder)))


def navigation(source: Path) -> list[object]:
    """The `nav` of MkDocs: a tab for the front page and one for each shelf."""
    tabs: list[object] = [
        {"Highwater": [{"What it is": "README.md"}, {"All pages": INDEX}, {"Changes": "CHANGELOG.md"}]}
    ]
    for shelf in read_shelves(source):
        pages: list[object] = []
        for group, entries in shelf.groups.items():
            items: list[object] = [
                {entry.title: [entry.path, *results_of(source)] if entry.path == RESULTS else entry.path}
                for entry in entries
            ]
            pages += [{group: items}] if group else items
        tabs.append({shelf.name: pages})
    return tabs


def llms_text(source: Path, prefix: str) -> str:
    """The pages by shelf in the format of llmstxt.org. `prefix` leads from the text to the Markdown files."""
    readme = (source / "README.md").read_text("utf-8")
    title, summary = re.findall(r"^# (.+?)\n\n(.+?)\n\n", readme, re.S)[0]
    lines = [f"# {title}", "", f"> {' '.join(summary.split())}"]
    for shelf in read_shelves(source):
        lines += ["", f"## {shelf.name}", ""]
        lines += [
            f"- [{each.title}]({prefix}{each.path})" + (f": {each.words}" if each.words else "")
            for each in shelf.entries
        ]
    return "\n".join(lines) + "\n"
