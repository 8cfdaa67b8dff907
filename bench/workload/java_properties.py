"""The syntax of java.util.Properties, which Kafka's client files and OMB's drivers have.

Such text may hold passwords, and what a mistake makes of it may be part of one: no error shows a word of it.
"""

from __future__ import annotations

from typing import NamedTuple


class Property(NamedTuple):
    """value: as it is, the blanks at its end included."""

    line: int
    name: str
    value: str
    is_bare: bool
    """There is nothing but a name, which is more often a line gone astray."""


def parse_properties(text: str) -> list[Property]:
    """In their order, lines counted from 1. Raises ValueError, whose text shows nothing of it."""
    # Imported here: a host that only describes itself does without it.
    import javaproperties

    try:
        elements = list(javaproperties.parse(text))
    except javaproperties.InvalidUEscapeError:
        raise ValueError(
            "a \\u is not followed by four hexadecimal digits; a backslash of a value is written twice"
        ) from None
    properties, line = [], 1
    for element in elements:
        if isinstance(element, javaproperties.KeyValue):
            is_bare = not element.value and "=" not in element.source
            properties.append(Property(line, element.key, element.value, is_bare))
        line += len(element.source.splitlines())
    return properties
