"""JAAS login entries in `sasl.jaas.config`: `module required option="value" …;` (KIP-85)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|([^\s=;"]+)|([=;]))')
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


class LoginEntry(NamedTuple):
    module: str
    """Its class name, without the package."""
    options: Mapping[str, str]


def parse_login_entry(text: str) -> LoginEntry:
    """Parse one entry. Raises ValueError, which says what is expected."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[1].lower() not in _FLAGS:
        raise ValueError("write it as: module required option=value …;")
    if tokens[-1] != ";":
        raise ValueError("it does not end with a semicolon")
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for position in range(0, len(rest), 3):
        part = rest[position : position + 3]
        if len(part) != 3 or part[1] != "=":
            raise ValueError(f"after {tokens[1]} come options as name=value, and here stands {part[0]!r}")
        options[part[0]] = part[2]
    return LoginEntry(tokens[0].rpartition(".")[2], options)


def _tokens(text: str) -> list[str]:
    tokens = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"{text[position : position + 10]!r}… is not understood; is a quote missing?")
        quoted, word, mark = found.groups()
        tokens.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else word or mark)
        position = found.end()
    return tokens
