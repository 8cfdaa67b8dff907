"""The exceptions of the tuner, and `did you mean` for misspelt words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..common.nearest import did_you_mean

# Words here are short: `kafka` is still near to `apache-kafka`.
_LIKENESS_MIN: Final = 0.5


class TuningError(Exception):
    """Invalid input, or a host that cannot do what was asked. The text is one line: the problem and its remedy."""


class PartlyChangedError(TuningError):
    """A change failed, and rolling back the changes before it failed too. The journal stays for the next rollback."""


def nearest_match(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for a misspelt word, or nothing when no known word is close."""
    return did_you_mean(word, known, _LIKENESS_MIN)
