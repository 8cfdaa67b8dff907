"""Units of columns: how their values are compared and aligned, and how a page writes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from highwater.common.units import NONE
from highwater.monitor.web import cells, words
from highwater.monitor.web.filters import ValueKind


@dataclass(frozen=True, slots=True)
class Unit:
    kind: ValueKind
    words: Callable[[Any], str]
    """The text or Markup of a value on a page."""
    is_prose: bool = False
    """The column is wide, and its text may have several lines."""


TEXT: Final = Unit(ValueKind.TEXT, lambda value: NONE if value is None else value)
NAME: Final = Unit(ValueKind.TEXT, cells.name_text)
NAME_IF_ANY: Final = Unit(ValueKind.TEXT, lambda value: cells.name_text(value or NONE))
TOPIC: Final = Unit(ValueKind.TEXT, cells.topic_link)
GROUP: Final = Unit(ValueKind.TEXT, cells.group_link)
HOST: Final = Unit(ValueKind.TEXT, cells.host_link)
SUBJECT: Final = Unit(ValueKind.TEXT, lambda value: cells.prose(value or "the cluster"))
PROSE: Final = Unit(ValueKind.TEXT, cells.prose, is_prose=True)
PROSE_IF_ANY: Final = Unit(ValueKind.TEXT, lambda value: cells.prose(value or "none"), is_prose=True)
BROKER: Final = Unit(ValueKind.NUMBER, lambda value: NONE if value is None else cells.broker_link(value))
ID: Final = Unit(ValueKind.NUMBER, str)
"""A number without commas between thousands."""
COUNT: Final = Unit(ValueKind.NUMBER, words.count)
COUNT_AND_NAMES: Final = Unit(ValueKind.NUMBER, words.count, is_prose=True)
PER_S: Final = Unit(ValueKind.NUMBER, words.rate)
SHARE: Final = Unit(ValueKind.NUMBER, words.share)
"""A part of 1, as a percentage."""
PERCENT: Final = Unit(ValueKind.NUMBER, words.percent)
FACTOR: Final = Unit(ValueKind.NUMBER, words.factor)
TIME: Final = Unit(ValueKind.NUMBER, words.clock_time)
"""Unix time in milliseconds."""
BYTES: Final = Unit(ValueKind.BYTES, words.size)
BYTES_PER_S: Final = Unit(ValueKind.BYTES, words.size_rate)
MILLISECONDS: Final = Unit(ValueKind.MILLISECONDS, words.time_ms)
YES_NO: Final = Unit(ValueKind.YES_NO, words.yes_no)
