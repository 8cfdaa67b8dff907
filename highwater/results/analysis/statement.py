"""The answer of a run as values: statements in words, and what decides the open ones. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.results.analysis.evidence import Evidence

_MOST_FIGURES: Final = 3
# Names of cells, of percentiles and of intervals have digits that are no figures.
_NAMES: Final = re.compile(r"95 % interval|“[^“”]*”|\b[a-z]\w*(?:\.\d+)?", re.IGNORECASE)
_FIGURE: Final = re.compile(r"\d[\d.,]*")
_SPAN: Final = re.compile(r" \([−+\d][^()]*\)")
_COMMAND: Final = re.compile(r": (highwater .*)")

StatementKind = Literal["delivery", "best", "objective", "aim", "search"]
StatementState = Literal["good", "open", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence. State `open`: the trials do not decide it; `plain`: a figure, neither good nor bad.

    `short`: what the headline says of it, with three figures at most; if empty, the whole sentence.
    """

    text: str
    kind: StatementKind
    state: StatementState
    short: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run says of its workload's question, the most important statement first."""

    statements: Sequence[Statement]
    next_step: str
    """A command, or an act in words, that decides what is open; empty if nothing is."""
    evidence: Evidence | None = None
    """The trials that the first statement about figures rests on."""

    @property
    def command(self) -> str:
        """The command that `next_step` ends with, to paste; empty if it has none."""
        return command_of(self.next_step)

    @property
    def headline(self) -> Statement:
        """One sentence with three figures at most: what is bad, then what was asked, then that nothing is lost."""
        first: dict[StatementKind, Statement] = {}
        for statement in self.statements:
            first.setdefault(statement.kind, statement)
        ordered = sorted(first.values(), key=lambda one: (one.state != "bad", one.kind == "delivery"))
        text = joined(statement.short or statement.text for statement in ordered)
        asked = next((one for one in ordered if one.state == "bad" or one.kind != "delivery"), *ordered[:1])
        return Statement(text, asked.kind, asked.state)

    @property
    def sentence(self) -> str:
        """One line: the first statement of each kind."""
        first: dict[StatementKind, str] = {}
        for statement in self.statements:
            first.setdefault(statement.kind, statement.text)
        return " ".join(first.values())


def command_of(next_step: str) -> str:
    """The command that a next step ends with, to paste; empty if it has none."""
    found = _COMMAND.search(next_step)
    return found[1] if found else ""


def joined(clauses: Iterable[str]) -> str:
    """One sentence of the clauses; beyond three figures, clauses lose their intervals, and later ones are left out."""
    kept: list[str] = []
    for clause in clauses:
        text = clause.removesuffix(".")
        if kept and text[1:2].islower():
            text = text[0].lower() + text[1:]
        shorter = _SPAN.sub("", text)
        fits = (one for one in (text, shorter) if _figures("; ".join([*kept, one])) <= _MOST_FIGURES)
        kept += filter(None, [next(fits, "" if kept else shorter)])
    return f"{'; '.join(kept)}."


def _figures(text: str) -> int:
    return len(_FIGURE.findall(_NAMES.sub("", text)))
