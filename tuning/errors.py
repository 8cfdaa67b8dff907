"""The exceptions of the tuner, and `did you mean` for misspelt words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TuningError(Exception):
    """Invalid input, or a host that cannot do what was asked. The text is one line: the problem and its remedy."""


class PartlyChangedError(TuningError):
    """A change failed, and rolling back the changes before it failed too. The journal stays for the next rollback."""


def nearest_match(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for a misspelt word, or nothing when no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
