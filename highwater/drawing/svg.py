"""SVG and XML elements from Python values: everything escaped, every number written alike."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

# XML 1.0 does not allow these characters, even as references: a name with one would make the whole drawing invalid.
_NOT_XML: Final = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF), "\N{REPLACEMENT CHARACTER}")

STYLE: Final = Path(__file__).with_name("chart.css")
"""The look of the drawings of this room, for a page that has the colours as variables."""

Attribute = str | float | int | None


def coordinate(value: float) -> str:
    """A length in user units with one decimal: no screen draws a tenth of a pixel."""
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def readable(text: str) -> str:
    """`text` without the characters that XML does not allow."""
    return text.translate(_NOT_XML)


def element(name: str, *children: str | Markup | Iterable[Markup], **attributes: Attribute) -> Markup:
    """One element. Keywords become attributes: `class_` is class, `stroke_width` is stroke-width, None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(_child(child) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def _attribute(value: str | float) -> str:
    return str(escape(readable(value))) if isinstance(value, str) else coordinate(value)


def _child(child: str | Markup | Iterable[Markup]) -> str:
    if isinstance(child, Markup):
        return str(child)
    if isinstance(child, str):
        return str(escape(readable(child)))
    return "".join(child)
