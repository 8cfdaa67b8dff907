"""The files that become pages: the documentation, and whatever its links lead to, however far.

A page keeps its place in the repository, so that links lead to the same page on a code forge and on the site.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.site.shelves import INDEX

_FIRST: Final = ("README.md", "CHANGELOG.md", INDEX, "playbooks/README.md")
# What a reader saves or looks at; all other files are shown as pages with their text.
_AS_THEY_ARE: Final = frozenset({".png", ".svg", ".jpg", ".json", ".jsonl", ".csv"})
_LEXERS: Final = {"": "bash", ".yml": "yaml", ".j2": "jinja", ".properties": "ini", ".txt": "text"}
_FENCED: Final = re.compile(r"(^```.*?^```[ \t]*$)", re.M | re.S)
_ROW: Final = re.compile(r"^\|.*$", re.M)
_CODE: Final = re.compile(r"`[^`\n]+`")
_LINK: Final = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def stage(source: Path, place: Path) -> list[str]:
    """Write the pages of a clone into `place`, and return which files of the clone became one."""
    names = _files(source)
    folders = {posixpath.dirname(name) for name in names}
    folders |= {str(parent) for folder in folders for parent in Path(folder).parents}
    waiting = [*_FIRST, *(name for name in names if name.startswith("docs/") and name.endswith(".md"))]
    seen: set[str] = set()

    def follow(page: str, target: str) -> str:
        """The link in its new words; what it leads to becomes a page, too."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if path in names:
            waiting.append(path)
        elif path in folders:
            readme = f"{path}/README.md"
            waiting.append(readme if readme in names else f"{path}/")
        else:
            return target  # Strict MkDocs names the page and the link.
        return posixpath.relpath(place_of(waiting[-1]), posixpath.dirname(place_of(page)) or ".")

    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        to = place / place_of(name)
        to.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            to.write_text(_rewritten(_listing(name, names), name, follow), "utf-8")
        elif name.endswith(".md"):
            to.write_text(_rewritten((source / name).read_text("utf-8"), name, follow), "utf-8")
        elif Path(name).suffix in _AS_THEY_ARE:
            shutil.copyfile(source / name, to)
        else:
            to.write_text(_shown(name, (source / name).read_text("utf-8")), "utf-8")
    return sorted(name for name in seen if name in names)


def place_of(name: str) -> str:
    """Where a file, or a folder whose name ends with a slash, has its page; no name begins with a dot there."""
    seen = "/".join(part.lstrip(".") for part in name.split("/"))
    if name.endswith("/"):
        return f"{seen}README.md"
    return seen if Path(name).suffix in _AS_THEY_ARE | {".md"} else f"{seen}.md"


def _files(source: Path) -> set[str]:
    """What is in the repository, or would be after `git add`."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if name and (source / name).is_file()}


def _rewritten(text: str, page: str, follow: Callable[[str, str], str]) -> str:
    def one(found: re.Match[str]) -> str:
        target = found[2]
        return found[0] if "://" in target else f"{found[1]}{follow(page, target)}{found[3]}"

    def row(found: re.Match[str]) -> str:
        """Code in a table: a code forge wants `\\|` there, and Python-Markdown shows the backslash."""
        return _CODE.sub(lambda code: code[0].replace("\\|", "|"), found[0])

    return "".join(
        part if part.startswith("```") else _ROW.sub(row, _LINK.sub(one, part)) for part in _FENCED.split(text)
    )


def _listing(name: str, names: set[str]) -> str:
    """A page for a folder that links lead to, and that has none. Code is named there and not shown."""
    inside = [path.removeprefix(name) for path in sorted(names) if path.startswith(name)]
    shown = dict.fromkeys(path.partition("/")[0] + "/" * ("/" in path) for path in inside)
    is_code = any(path.endswith(".py") for path in inside)
    lines = [f"- `{path}`" if is_code else f"- [{path}]({path})" for path in shown]
    return f"# {name}\n\n" + "\n".join(lines) + "\n"


def _shown(name: str, text: str) -> str:
    suffix = Path(name).suffix
    lexer = _LEXERS.get(suffix, suffix.removeprefix("."))
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"^ *(`+)", text, re.M))])
    head = "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n"
    return f"{head}# {name}\n\n{fence}{lexer}\n{text.rstrip()}\n{fence}\n"
