"""The answer of a run as values: statements in words, and what decides the open ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

_COMMAND: Final = " highwater bench "

StatementKind = Literal["delivery", "best", "objective", "aim", "search"]
StatementState = Literal["good", "open", "bad", "plain"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence. State `open`: the trials do not decide it; `plain`: a figure, neither good nor bad."""

    text: str
    kind: StatementKind
    state: StatementState


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run says of its workload's question, the most important statement first."""

    statements: Sequence[Statement]
    next_step: str
    """A command, or an act in words, that decides what is open; empty if nothing is."""

    @property
    def command(self) -> str:
        """The command that `next_step` ends with, to paste; empty if it has none."""
        _, found, arguments = self.next_step.partition(_COMMAND)
        return f"{_COMMAND.lstrip()}{arguments}" if found else ""

    @property
    def sentence(self) -> str:
        """One line: the first statement of each kind."""
        first: dict[StatementKind, str] = {}
        for statement in self.statements:
            first.setdefault(statement.kind, statement.text)
        return " ".join(first.values())
