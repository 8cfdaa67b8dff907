"""Golden scripts of state machines: prose (`#`), steps, and below each, after `----`, what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_SEPARATOR: Final = "----"

Run = Callable[[str], Iterable[str]]
"""Takes a step, and tells the lines of its outcome."""


def outcome_of(text: str, run: Run) -> str:
    """The script with the outcome of each step as it is."""
    out: list[str] = []
    is_outcome = False
    for line in text.splitlines():
        if line == _SEPARATOR:
            is_outcome = True
        elif not line or line.startswith("#"):
            is_outcome = False
            out.append(line)
        elif not is_outcome:
            out += [line, _SEPARATOR, *run(line)]
    return "\n".join(out) + "\n"


def wanted_and_outcome(path: Path, run: Run) -> tuple[str, str]:
    """A script as it stands and as it comes out; with REWRITE_SCRIPTS set it is made to stand as it comes out."""
    text = path.read_text("utf-8")
    outcome = outcome_of(text, run)
    if os.environ.get("REWRITE_SCRIPTS"):
        path.write_text(outcome, "utf-8")
        text = outcome
    return text, outcome
