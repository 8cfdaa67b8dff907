from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

import highwater
from highwater.common.plain_letters import PLAIN, show_all

_ROOMS = Path(highwater.__file__).parent
# They are looked for, or written into pages and messages, which are UTF-8.
_NEVER_PRINTED = (
    "monitor/web/cells.py",
    "monitor/alerts/message.py",
    "monitor/history/kinds.py",
    "drawing/svg.py",
)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252", "utf-8"])
def test_a_figure_is_the_same_in_every_encoding(encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    show_all(stream)
    stream.write("−50 % … 1.5×, 20 → 40, 日")
    stream.flush()
    stream.seek(0)
    shown = stream.read()
    if encoding == "utf-8":
        assert shown == "−50 % … 1.5×, 20 → 40, 日"
    else:
        assert shown.replace("×", "x").replace("…", "...") == "-50 % ... 1.5x, 20 -> 40, ?"


def test_every_letter_that_is_printed_has_plain_letters() -> None:
    unknown = {
        (place, letter)
        for place, text in _texts()
        for letter in text
        if not letter.isascii() and letter not in PLAIN and place not in _NEVER_PRINTED
    }
    assert not unknown


def _texts() -> Iterator[tuple[str, str]]:
    """The strings of the product without docstrings."""
    for path in sorted(path for room in _ROOMS.iterdir() for path in room.rglob("*.py")):
        place = path.relative_to(_ROOMS).as_posix()
        tree = ast.parse(path.read_bytes())
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
                yield place, node.value
