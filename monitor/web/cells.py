"""Cells of tables that are more than a number: links to names of anybody's choice, and states."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

from highwater.common.units import NONE, count_text
from highwater.drawing.svg import readable
from highwater.monitor.causes import Happening
from highwater.monitor.figures.rows import LagVerdict, Level
from highwater.monitor.web.words import LEVEL_CLASSES, LEVEL_WORDS, VERDICT_WORDS, clock_time

_SHORT: Final = 24
_MOST_NAMES: Final = 3
# Letters that are written from right to left, with what may be within a name of them.
_LEFTWARD: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
_LEFTWARD_NAME: Final = re.compile(f"[{_LEFTWARD}](?:[^{_LEFTWARD},;:()]{{0,3}}[{_LEFTWARD}])*[\\w.-]*")
# Marks that turn the direction of text: with them, a name can look like another one.
_TURNS: Final = dict.fromkeys((0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")


def visible(text: str) -> str:
    """`text` with a sign in the place of each character that a reader could not see."""
    return readable(text).translate(_TURNS)


def name_text(name: str) -> Markup:
    """A name by itself in the direction of its letters, so that it cannot turn the text around it."""
    shown = visible(name) or "(empty)"
    return Markup(f"<bdi{_long(shown)}>{escape(shown)}</bdi>")


def prose(text: str) -> Markup:
    """A sentence with names in it: one that is written from right to left does not move what stands beside it."""
    shown = visible(text)
    parts, end = [], 0
    for found in _LEFTWARD_NAME.finditer(shown):
        parts.append(escape(shown[end : found.start()]) + Markup(f"<bdi>{escape(found[0])}</bdi>"))
        end = found.end()
    return Markup(f'<bdi dir="ltr"{_long(shown)}>{Markup("").join(parts)}{escape(shown[end:])}</bdi>')


def _long(shown: str) -> str:
    """The class of a text that a table may break anywhere: a column would be as wide as its longest word."""
    return ' class="long"' if len(shown) > _SHORT else ""


def exact(text: str) -> Markup:
    """For the value of a field: what a form sends back must be the very name, also with signs that nobody sees."""
    return Markup(escape(text))


def lines_text(text: str) -> Markup:
    """Text of several lines, as `name_text`: every line is by itself in the direction of its letters."""
    return Markup("\n").join(Markup(f"<bdi>{escape(visible(line))}</bdi>") for line in text.split("\n"))


def link(path: str, key: str, name: str, text: str = "") -> Markup:
    """To the page of one thing: `path?key=name`."""
    address = f"{path}?{key}={quote(name, safe='')}"
    return Markup(f'<a href="{escape(address)}">{name_text(text or name)}</a>')


def topic_link(name: str) -> Markup:
    return link("/topic", "name", name)


def group_link(name: str) -> Markup:
    return link("/group", "name", name)


def broker_link(node_id: int) -> Markup:
    return link("/broker", "id", str(node_id))


def host_link(name: str) -> Markup:
    return link("/host", "name", name)


def happening(of: Happening) -> Markup:
    """The sentence of a cause, which unfolds to its events."""
    if not of.parts:
        return prose(of.line.text)
    events = Markup("").join(
        Markup(f"<li><time>{clock_time(each.at_ms)}</time> {prose(each.text)}</li>") for each in of.parts
    )
    return Markup(
        f'<details id="{escape(of.anchor)}"><summary>{prose(of.line.text)}</summary>'
        f'<ul class="events">{events}</ul></details>'
    )


def state(level: Level, text: str = "") -> Markup:
    """A sign, a colour and a word, so that none of them stands alone."""
    shown = visible(text) or LEVEL_WORDS[level]
    return Markup(f'<span class="state {LEVEL_CLASSES[level]}">{escape(shown)}</span>')


def verdict(value: LagVerdict, level: Level) -> Markup:
    return state(level, VERDICT_WORDS[value])


def with_note(shown: str, note: str) -> Markup:
    """`shown` with a smaller line beneath it; without it if `note` is empty."""
    return escape(shown) + Markup(f'<br><span class="note">{prose(note)}</span>' if note else "")


def below(shown: str, second: str) -> Markup:
    """Two lines."""
    return escape(shown) + Markup("<br>") + escape(second)


def few(names: Sequence[str], link_of: Callable[[str], Markup]) -> str:
    """Links to the first names, and how many more there are."""
    if not names:
        return NONE
    more = f" and {count_text(len(names) - _MOST_NAMES)} more" if len(names) > _MOST_NAMES else ""
    return joined([link_of(name) for name in names[:_MOST_NAMES]]) + more


def joined(parts: list[Markup], separator: str = ", ") -> Markup:
    return Markup(separator).join(parts)
