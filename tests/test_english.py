"""Tests that docstrings, comments and help texts are plain English (docs/contributing.md, "Words").

`python -m tests.test_english ROOM` lists what breaks a rule in a room.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.import_graph import ROOT, place_of, rooms

PLACES: Final = {**{room: place_of(room) for room in rooms()}, "playbooks": ROOT / "playbooks"}
_PREPOSITIONS: Final = frozenset(("Of", "By", "In", "From", "With", "As", "At"))
_TELL: Final = re.compile(r"\b(?:tell|tells|telling|told)\b", re.IGNORECASE)
_QUOTED: Final = re.compile(r'"[^"]*"|`[^`]*`')
_FRAGMENT: Final = re.compile(r"(?:Of|By|In|From|As|At|Where|Who|What|Instead)\b|With (?!--)")
_ODD: Final = re.compile(
    r"\bgo(?:es)? on\b|(?<!there )(?<!answer )\b(?:is|are) no\b|in the place of|\d a mistake|wrong us|bad input",
    re.IGNORECASE,
)


@cache
def prose_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Return each docstring and each comment of a file with its line; docstrings of names too."""
    return tuple(_prose_of(path))


def _prose_of(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def elliptical(room: str) -> list[str]:
    """Return the docstrings that begin with a preposition, so that a reader has to find what they speak of."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {' '.join(words)[:120]}"
        for path in sorted(PLACES[room].rglob("*.py"))
        for line, text in prose_of(path)
        if len(words := text.split()) > 1 and words[0].rstrip(",") in _PREPOSITIONS
    ]


def telling(room: str) -> list[str]:
    """Return where a program tells or is told: it reports, returns, asks, warns, prints, learns."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {' '.join(text.split())[:120]}"
        for path in sorted(PLACES[room].rglob("*.py"))
        for line, text in prose_of(path)
        if _TELL.search(_QUOTED.sub("", text))
    ]


@pytest.mark.parametrize("room", PLACES)
def test_docstrings_have_a_subject(room: str) -> None:
    assert elliptical(room) == []


@pytest.mark.parametrize("room", PLACES)
def test_no_program_tells(room: str) -> None:
    assert telling(room) == []


def texts_of_options() -> list[tuple[str, str]]:
    """Return each option and argument with its help text, without the bounds of its value."""
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*) \| .* \| (.*) \|$", page, re.MULTILINE)
    return [(name, re.sub(r"\(at (?:least|most) .*\)$", "", text)) for name, text in rows]


def test_every_option_and_argument_is_explained() -> None:
    assert len(texts_of_options()) > 500
    assert [name for name, text in texts_of_options() if len(text.split()) < 2] == []


def test_help_texts_do_not_complete_the_name_of_their_option() -> None:
    assert [row for row in texts_of_options() if _FRAGMENT.match(row[1])] == []


def test_the_reference_of_commands_has_usual_phrases() -> None:
    lines = (ROOT / "docs/commands.md").read_text("utf-8").splitlines()
    assert [line for line in lines if _ODD.search(line)] == []


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for room in sys.argv[1:] for line in (*elliptical(room), *telling(room))))
