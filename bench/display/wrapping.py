"""Breaks sentences for a terminal: between words, and never between a number and its unit."""

from __future__ import annotations

import re
import textwrap
from typing import Final

_BEFORE_A_UNIT: Final = re.compile(r"(?<=\d) (?=[%a-zµA-Z])")
# textwrap breaks at ASCII blanks only.
_UNBREAKABLE: Final = "\u00a0"


def wrapped(text: str, width: int) -> str:
    """`text` in lines of at most `width` characters; a longer word has a line of its own."""
    joined = _BEFORE_A_UNIT.sub(_UNBREAKABLE, text)
    lines = textwrap.wrap(joined, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(_UNBREAKABLE, " ")
