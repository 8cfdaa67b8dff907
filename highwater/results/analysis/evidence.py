"""The values of the picture beside an answer: rows of trials, median, interval, on one axis. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from highwater.common.units import change_text, ratio_text, significant

Fate = Literal["usable", "disturbed", "invalid", "lost", "failed", "base", "estimate"]
"""What a trial is worth; `failed`: its rate was not sustained; `base`: it is of the side that is compared with.

`estimate`: the dot is no trial, and says what many trials say together.
"""
RowState = Literal["best", "open", "plain", "bad"]

# Beyond this ratio of the largest to the smallest value, an axis is logarithmic.
_WIDE: Final = 4.0
_WORDS: Final[Mapping[Fate, str]] = {
    "usable": "trial",
    "base": "trial of base",
    "disturbed": "disturbed trial",
    "invalid": "invalid trial, not counted",
    "lost": "trial that lost or damaged records",
    "failed": "trial whose rate was not sustained",
    "estimate": "estimated change",
}


@dataclass(frozen=True, slots=True)
class Dot:
    value: float
    fate: Fate
    name: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One cell, or one metric of a comparison. `figure`: the median in words; `note`: what is concluded of it."""

    label: str
    dots: Sequence[Dot]
    centre: float | None
    interval: tuple[float, float] | None
    figure: str
    note: str
    state: RowState = "plain"
    limits: Sequence[float] = ()
    """Values that an aim wants this row beyond."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A value that concerns all rows, such as an objective's bound."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All values are in `unit`. `left_out`: how many rows there would be beyond those that fit a first screen."""

    title: str
    unit: str
    rows: Sequence[EvidenceRow]
    limits: Sequence[Limit] = ()
    left_out: int = 0
    is_change: bool = False
    """Values are changes of head against base."""
    beyond: Sequence[str] = ()
    """The names of limits that are too far away to be drawn."""
    overlap: tuple[float, float] | None = None
    """The span of the cells that are not decided."""
    centre_words: str = "median"
    span_words: str = "95 % interval"
    """What a row's centre and its interval are; a span without words needs none."""

    @property
    def values(self) -> list[float]:
        """All that the axis must hold."""
        found = [limit.value for limit in self.limits]
        for row in self.rows:
            found += [*(dot.value for dot in row.dots), *(row.interval or ()), *row.limits]
            found += [row.centre] if row.centre is not None else []
        return found

    def text(self, value: float) -> str:
        if not self.is_change:
            return f"{significant(value)} {self.unit}"
        return change_text(1 + value / 100) if self.unit == "%" else ratio_text(value)

    def is_none(self, value: float) -> bool:
        """Whether it is the value of no change."""
        return self.is_change and math.isclose(value, 0.0 if self.unit == "%" else 1.0, abs_tol=1e-9)

    @property
    def marks(self) -> list[tuple[str, str]]:
        """What the marks of the drawing mean: a name, and words for people."""
        fates = dict.fromkeys(dot.fate for row in self.rows for dot in row.dots)
        found: list[tuple[str, str]] = [(name, words) for name, words in _WORDS.items() if name in fates]
        if self.is_change:
            found = [(name, "trial of head" if name == "usable" else words) for name, words in found]
        if any(row.centre is not None for row in self.rows):
            found.append(("centre", self.centre_words))
        if self.span_words and any(row.interval for row in self.rows):
            found.append(("interval", self.span_words))
        found += [("overlap", "not decided")] if self.overlap else []
        found += [("limit", limit.name) for limit in self.limits]
        return [*found, *([("limit", "aim")] if any(row.limits for row in self.rows) else [])]

    @property
    def notes(self) -> list[str]:
        """What a reader has to know of the drawing, and what it leaves out."""
        is_ranked = not self.is_change and any(row.state == "best" for row in self.rows)
        return [
            *(["decided by trials of the same block, so that dots may overlap"] if is_ranked else []),
            *(f"{name} lies outside of the picture" for name in self.beyond),
            *([f"{self.left_out} more in the tables"] if self.left_out else []),
        ]

    @property
    def is_logarithmic(self) -> bool:
        low, high = min(self.values), max(self.values)
        return low > 0 and high > _WIDE * low
