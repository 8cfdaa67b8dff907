"""Each command that a message names can be given: its verbs and its options exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from highwater.cli import app
from highwater.common.nearest import nearest
from tests.import_graph import ROOT, place_of, rooms

PLACES: Final = (*(place_of(room) for room in rooms()), ROOT / "workloads")
_SOMETHING: Final = "VALUE"
_COMMAND: Final = re.compile(r"\bhighwater((?: [a-z][a-z-]*)+)((?: (?:--[a-z][a-z-]*|[A-Z][A-Z:_]*))*)")


def texts(path: Path) -> Iterator[str]:
    if path.suffix != ".py":
        yield from path.read_text("utf-8").splitlines()
        return
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else _SOMETHING for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named() -> Iterator[tuple[str, str]]:
    for place in PLACES:
        for path in sorted(place.rglob("*")):
            if path.suffix in (".py", ".yaml"):
                for text in texts(path):
                    for found in _COMMAND.finditer(" ".join(text.split())):
                        yield path.relative_to(ROOT).as_posix(), found[0]


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(app)


def fault(root: Any, line: str) -> str:
    """What is wrong with a command; empty for none."""
    command, words = root, line.split()[1:]
    while words and hasattr(command, "get_command"):
        inner = command.get_command(None, words[0])
        if inner is None:
            # Else it is a word of the sentence: "a trace, which highwater capture makes".
            is_misspelt = command is not root and nearest(words[0], command.list_commands(None)) is not None
            return f"{words[0]} is no command of {command.name}" if is_misspelt else ""
        command, words = inner, words[1:]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    takes_arguments = any(parameter.param_type_name == "argument" for parameter in command.params)
    for word in words:
        if word.startswith("--") and word not in (*options, "--help"):
            return f"{command.name} has no {word}"
    if words and re.fullmatch("list|show|describe|delete|create", words[0]) and not takes_arguments:
        return f"{command.name} takes no {words[0]}"
    return ""


def test_every_command_in_a_message_can_be_given(root: Any) -> None:
    lines = list(named())
    assert len(lines) > 100
    faults = sorted({f"{place}: {line}: {text}" for place, line in lines if (text := fault(root, line))})
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("highwater broker topics list", "topics takes no list"),
        ("highwater broker topcs", "topcs is no command of broker"),
        ("highwater bench run FILE --trails", "run has no --trails"),
        ("highwater bench run FILE --trials", ""),
    ],
)
def test_a_command_that_cannot_be_given_is_found(root: Any, line: str, text: str) -> None:
    assert fault(root, line) == text
