"""Writes docs/modules.md, the list of all modules: `make docs`, or `python -m tests.modules_page`.

Each module is described by the first sentence of its docstring, and each folder by the one of its `__init__.py`. The
page needs Python's standard library alone, so that it can be made before anything is installed.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests import import_graph

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/modules.md"
PACKAGE: Final = "highwater"
# A handler's docstring begins with its API, and a test compares that line with the API table.
API: Final = re.compile(r"\w+: v\d+(-v\d+)? \(key \d+\)")
SENTENCE: Final = re.compile(r".*?\.(?=\s|$)")

HEAD: Final = """\
# All modules

`make docs` writes this page from the first sentence of each module: change the module, not the page.
[The architecture](architecture.md) describes the rooms, and what each of them may import.
"""


def rooms() -> list[Path]:
    """The folders that the page lists: what pip installs, then the playbooks."""
    return [ROOT / PACKAGE, *map(import_graph.place_of, import_graph.rooms()), ROOT / "playbooks"]


def modules(room: Path) -> Iterator[Path]:
    """The Python files below `room`, folder by folder; of the package itself those that are in no room."""
    for folder, folders, files in os.walk(room):
        folders[:] = [] if room == ROOT / PACKAGE else sorted(folders)
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".py"))


@cache
def first_line(module: Path) -> str:
    docstring = ast.get_docstring(ast.parse(module.read_text("utf-8"), str(module))) or ""
    return docstring.partition("\n")[0]


def first_sentence(module: Path) -> str | None:
    """The first sentence of the docstring of `module`, or None if there is none that ends in its first line."""
    found = SENTENCE.match(first_line(module))
    return found[0] if found else None


def is_api(module: Path) -> bool:
    return API.match(first_line(module)) is not None


def page() -> str:
    return "\n".join([HEAD, *(line for room in rooms() for line in _room(room))])


def _room(room: Path) -> Iterator[str]:
    by_folder: dict[Path, list[Path]] = {}
    for module in modules(room):
        by_folder.setdefault(module.parent, []).append(module)
    by_folder.setdefault(room, [])
    for folder in sorted(by_folder):
        level = "##" if folder == room else "###"
        yield f"{level} {folder.relative_to(ROOT)}/\n"
        yield from _folder(by_folder[folder])


def _folder(found: list[Path]) -> Iterator[str]:
    package = [module for module in found if module.name == "__init__.py"]
    apis = [module for module in found if is_api(module)]
    others = [module for module in found if module not in package and module not in apis]
    yield from (f"{first_sentence(module) or ''}\n" for module in package)
    yield from (f"- `{module.name}`: {first_sentence(module) or ''}" for module in others)
    if apis:
        yield "- a file for each API: " + ", ".join(f"`{module.name}`" for module in apis)
    if others or apis:
        yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
