"""The exceptions of this room, and the nearest match that its messages offer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TuningError(Exception):
    """Bad input, or a host that cannot do what was asked. The text is one line: the offending thing and the way out."""


class PartlyChangedError(TuningError):
    """A change failed and what was done before it could not all be taken back. The journal holds the way back."""


def nearest_match(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for a misspelt word, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
