"""Spells in ASCII what the encoding of a terminal cannot show, such as the minus sign of a figure."""

from __future__ import annotations

import codecs
from typing import Final

PLAIN: Final[dict[str, str]] = {
    "−": "-",
    "–": "-",
    "±": "+-",
    "×": "x",
    "÷": "/",
    "≤": "<=",
    "≥": ">=",
    "→": "->",
    "…": "...",
    "µ": "u",
    "·": "-",
    "“": '"',
    "”": '"',
    "’": "'",
    "√": "sqrt",
    "Σ": "sum",
    "⌈": "ceil(",
    "⌉": ")",
    "↗": "up",
    "↘": "down",
    "▲": "^",
    "▼": "v",
    "✓": "+",
    "✕": "x",
    "✅": "+",
    "❌": "x",
    "⚠": "!",
    "\ufe0f": "",
    "\u00a0": " ",
    "●": "*",
    "○": "o",
    "◆": "#",
    "∙": ",",
    "┃": "|",
    "┊": ":",
    "─": "-",
    "├": "[",
    "┤": "]",
    "░": "~",
    "▁": "_",
    "▂": "_",
    "▃": ".",
    "▅": "-",
    "▇": "=",
}
_ERRORS: Final = "highwater.plain"


def show_all(stream: object) -> None:
    """Make a text stream of any encoding write every character: its own, its plain letters, or `?` for others."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        codecs.register_error(_ERRORS, _plain)
        reconfigure(errors=_ERRORS)


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "the handler is for streams that write"
    return "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end]), error.end
