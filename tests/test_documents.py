"""What documents promise: their links lead somewhere, and their commands, options and make targets exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from highwater.cli import app
from tests import commands_page

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "playbooks").rglob("*.md"),
        *(ROOT / "schemas").rglob("*.md"),
        *(ROOT / "tests").rglob("*.md"),
    ]
)
WRITTEN_BY_HAND = [path for path in DOCUMENTS if not path.is_relative_to(ROOT / "docs/results")]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of the headings of `page`, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    broken = []
    for target in targets:
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def commands(page: Path) -> Iterator[str]:
    """Calls of `highwater` in the code blocks of `page`, in one line each."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        for part in re.split(r" \| |; | && | > ", line.partition(" # ")[0]):
            found = re.match(r"(?:\$ )?(?:\.venv/bin/)?highwater (.+)", part.strip())
            if found:
                yield found[1]


def test_commands_are_found() -> None:
    found = [call for page in WRITTEN_BY_HAND for call in commands(page)]
    assert len(found) > 100
    assert unknown("bench run FILE --out DIR --master local") == []
    assert unknown("bench runs FILE") == ["runs"]
    assert unknown("bench run FILE --ouput DIR") == ["--ouput"]


def unknown(call: str) -> list[str]:
    """The words of `call` that should be a command or an option, and are none."""
    words = shlex.split(call.split("   ")[0].replace("…", ""))
    command = typer.main.get_command(app)
    options: set[str] = set()
    for before, word in pairwise(["", *words]):
        if isinstance(command, TyperGroup) and not word.startswith("-") and not before.startswith("-"):
            found = command.get_command(typer.Context(command), word.split("|")[0])
            if found is None:
                return [word]
            command = found
            options |= {option for parameter in command.params for option in parameter.opts}
    asked = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return sorted(asked - options - {"--help", "--version"})


@pytest.mark.parametrize("page", WRITTEN_BY_HAND, ids=name_of)
def test_commands_and_options_exist(page: Path) -> None:
    wrong = [(call, words) for call in commands(page) if (words := unknown(call))]
    assert wrong == []


@pytest.mark.parametrize("page", WRITTEN_BY_HAND, ids=name_of)
def test_make_targets_exist(page: Path) -> None:
    text = "\n".join(re.findall(r"`[^`\n]+`|^```.*?^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL))
    asked = {target for call in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", text) for target in call.split()[:1]}
    assert asked - TARGETS == set()


def test_the_reference_of_commands_is_as_the_program_says() -> None:
    assert commands_page.PAGE.read_text("utf-8") == commands_page.page(), "docs/commands.md is stale; run: make docs"


def test_the_list_of_pages_has_each_page_once() -> None:
    listed = re.findall(r"\]\(([a-z-]+\.md)\)", (ROOT / "docs/README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")
