"""Files of Java properties: read and written by the rules of java.util.Properties.

Such text may hold passwords, and what a mistake makes of it may be part of one: no error shows a word of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from .errors import UsageError

_BLANKS: Final = " \t\f"
_UNESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


class Property(NamedTuple):
    """line: from 1; of a continued line, its first. value: as it is, the blanks at its end included."""

    line: int
    name: str
    value: str
    source: str
    """The line in the file, continued lines joined, without the blanks in front."""

    @property
    def is_bare(self) -> bool:
        """Whether there is only a name, which is more often a line that lost its beginning."""
        return not self.value and "=" not in self.source


class MalformedEscape(ValueError):  # noqa: N818 - it names what is malformed
    """A `\\u` without four hexadecimal digits."""

    def __init__(self, line: int) -> None:
        super().__init__("a \\u is not followed by four hexadecimal digits")
        self.line = line


def parse_properties(text: str) -> list[Property]:
    """The properties in their order; a name that comes twice is there twice. Raises MalformedEscape."""
    properties = []
    for number, line in _logical_lines(text):
        position = 0
        while position < len(line) and line[position] not in "=:" + _BLANKS:
            position += 2 if line[position] == "\\" else 1
        name, value = line[:position], line[position:].lstrip(_BLANKS)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANKS)
        properties.append(Property(number, _unescape(name, number), _unescape(value, number), line))
    return properties


def read_properties(path: Path) -> list[Property]:
    """Read a file as java.util.Properties reads a stream. Raises UsageError that names file and line."""
    try:
        return parse_properties(path.read_bytes().decode("iso-8859-1"))
    except OSError as error:
        raise UsageError(f"cannot read the configuration file {path}: {error.strerror}") from None
    except MalformedEscape as error:
        raise UsageError(f"{path}:{error.line}: \\u needs four hexadecimal digits") from None


def format_properties(properties: Mapping[str, str]) -> str:
    """Lines of `name=value`, in ASCII, so that readers of ISO 8859-1 and of UTF-8 read the same."""
    return "".join(f"{_escaped_name(name)}={_escaped_value(value)}\n" for name, value in properties.items())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without blanks in front, comments and empty ones left out, continued ones joined."""
    pending = ""
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if first == 0 and (not line or line[0] in "#!"):
            continue
        first = first or number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        if pending + line:
            yield first, pending + line
        pending, first = "", 0
    if pending:
        yield first, pending


def _unescape(text: str, line: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if not escaped.startswith("u"):
            return _UNESCAPED.get(escaped, escaped)
        if len(escaped) != 5:
            raise MalformedEscape(line)
        return chr(int(escaped[1:], 16))

    if "\\" not in text:
        return text
    unescaped = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text, flags=re.DOTALL)
    # Java's characters are of UTF-16: two escapes may be one character.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escaped_name(name: str) -> str:
    return re.sub(r"[ :=]|^[#!]", r"\\\g<0>", _escaped(name))


def _escaped_value(value: str) -> str:
    return re.sub(r"^ ", r"\\ ", _escaped(value))


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(character) or _in_ascii(character) for character in text)


def _in_ascii(character: str) -> str:
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
