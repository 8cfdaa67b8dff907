"""Exact values of settings in units that people know: 604800000 of retention.ms is a week."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from markupsafe import Markup

from highwater.common.units import size_text, wait_text
from highwater.monitor.web import cells

_WHOLE: Final = re.compile(r"-?\d{1,19}")
_NO_LIMIT: Final = 2**63 - 1
# Less than this is read as it is.
_LEAST: Final = 1000
_UNITS: Final[Mapping[str, Callable[[int], str]]] = {
    "ms": lambda value: wait_text(value / 1000),
    "seconds": wait_text,
    "minutes": lambda value: wait_text(60 * value),
    "hours": lambda value: wait_text(3600 * value),
    "bytes": size_text,
    "throttled.rate": lambda value: f"{size_text(value)}/s",
}
"""Words for a value by the end of its setting's name."""
_LEAST_OF: Final = {"seconds": 60, "minutes": 60, "hours": 24}


def in_words(name: str, value: str) -> str:
    """Return the value with its unit; empty where the value says it, or the name has none."""
    unit = next((end for end in _UNITS if name == end or name.endswith((f".{end}", f"_{end}"))), None)
    if unit is None or not _WHOLE.fullmatch(value):
        return ""
    number = int(value)
    if number == _NO_LIMIT or (number == -1 and "retention" in name):
        return "no limit"
    return _UNITS[unit](number) if number >= _LEAST_OF.get(unit, _LEAST) else ""


def setting_text(name: str, value: str) -> Markup:
    """The cell of a value as the cluster has it, and in words: whoever copies a value needs all of its digits."""
    return cells.with_note(cells.name_text(value), in_words(name, value))
