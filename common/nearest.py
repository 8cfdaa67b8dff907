"""What somebody meant who misspelt a name: the nearest of the known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_LIKENESS_MIN: Final = 0.6


def nearest(name: str, known: Iterable[str], likeness_min: float = _LIKENESS_MIN) -> str | None:
    """Return the known name that is most like `name`, from 0 to 1 by difflib's measure; None when none is."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness_min)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str], likeness_min: float = _LIKENESS_MIN) -> str:
    """Return a hint to end a message with, `; did you mean X?`; empty when no known name is near."""
    match = nearest(name, known, likeness_min)
    return f"; did you mean {match}?" if match else ""


def no_topic(name: str, known: Iterable[str] = (), *, may_be_hidden: bool = True) -> str:
    """The sentence for a topic that is not in a list: a list leaves out what its reader may not see."""
    hidden = ", or this user may not see it (that needs DESCRIBE on the topic)" if may_be_hidden else ""
    return f"there is no topic {name}{hidden}{did_you_mean(name, known)}"
