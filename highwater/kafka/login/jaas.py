"""JAAS login entries: `module required option="value" …;` (KIP-85), alone or in a section of a file.

No message has any of the text, which holds passwords.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r'\s*(?:"((?:\\.|[^"\\])*)"|([^\s=;"]+)|([=;]))')
_STRING_OR_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*"?)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SECTION: Final = re.compile(r'\s*([\w.-]+)\s*\{((?:"(?:\\.|[^"\\])*"|[^"{}])*)\}\s*;')
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
            raise ValueError(f"after {tokens[1]} come options as name=value, and number {len(options) + 1} is not so")
        options[part[0]] = part[2]
    return LoginEntry(tokens[0].rpartition(".")[2], options)


def parse_login_text(text: str, section: str) -> LoginEntry:
    """Parse one entry, or the entry in this section of a JAAS file. Raises ValueError, which says what is expected."""
    text = _STRING_OR_COMMENT.sub(lambda found: found[1] or " ", text)
    if _SECTION.match(text) is None:
        return parse_login_entry(text)
    sections: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        found = _SECTION.match(text, position)
        if found is None:
            raise ValueError(f"after {len(sections)} sections comes what is none; write them as: {section} {{ … }};")
        sections[found[1]] = found[2]
        position = found.end()
    if section not in sections:
        raise ValueError(f"it has no section {section}: write one as {section} {{ … }};")
    return parse_login_entry(sections[section])


def _tokens(text: str) -> list[str]:
    tokens = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"from character {position + 1} on it is not understood; is a quote missing?")
        quoted, word, mark = found.groups()
        tokens.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else word or mark)
        position = found.end()
    return tokens
