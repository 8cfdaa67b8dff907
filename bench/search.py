"""The search for the highest rate that a system sustains: which rate to try next, and what the tries so far say.

Pure: a history of probes in, the next probe or the answer out, so a search can be stopped and taken up anywhere.

    ramp      from the lowest rate, each time twice the last, until one fails
    bisect    between the highest that passed and the lowest that failed, on a logarithmic scale, down to the precision
    confirm   the highest rate that passed, in fresh trials; one that fails there makes the rate a failing one, and the
              bisection goes on below it

A rate passes when every trial of it passed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.results import SearchProbe, SearchStage

RAMP_FACTOR = 2


@dataclass(frozen=True, slots=True)
class SearchRange:
    """Where to search, how finely, and how often the answer must hold. Rates are whole records per second."""

    min_per_s: int
    max_per_s: int | None
    """None: up to whatever fails."""
    precision_ratio: float
    confirmations: int

    def __post_init__(self) -> None:
        if self.min_per_s < 1 or (self.max_per_s is not None and self.max_per_s < self.min_per_s):
            raise ValueError(f"no rates lie between {self.min_per_s}/s and {self.max_per_s}/s")
        if not 0 < self.precision_ratio < 1:
            raise ValueError(f"a precision of {self.precision_ratio:g} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class Bracket:
    """What the probes so far say; None where nothing is known yet."""

    last_passing_per_s: int | None
    first_failing_per_s: int | None
    confirmed: int
    """Fresh trials at the last passing rate that passed."""
    failure: SearchProbe | None
    """The trial that failed at `first_failing_per_s`."""


@dataclass(frozen=True, slots=True)
class NextProbe:
    stage: SearchStage
    rate_per_s: int


def bracket_of(history: Sequence[SearchProbe]) -> Bracket:
    failures = [probe for probe in history if not probe.passed]
    failure = min(failures, key=lambda probe: probe.rate_per_s, default=None)
    passing = [probe.rate_per_s for probe in history if failure is None or probe.rate_per_s < failure.rate_per_s]
    last_passing = max(passing, default=None)
    confirmed = sum(probe.stage == "confirm" and probe.rate_per_s == last_passing for probe in history)
    return Bracket(last_passing, failure.rate_per_s if failure else None, confirmed, failure)


def next_probe(wanted: SearchRange, history: Sequence[SearchProbe]) -> NextProbe | None:
    """The next trial; None when the search is over."""
    bracket = bracket_of(history)
    low, high = bracket.last_passing_per_s, bracket.first_failing_per_s
    if low is None:
        return NextProbe("ramp", wanted.min_per_s) if high is None else None
    if high is None:
        if wanted.max_per_s is None or low < wanted.max_per_s:
            rate_per_s = low * RAMP_FACTOR
            return NextProbe("ramp", rate_per_s if wanted.max_per_s is None else min(rate_per_s, wanted.max_per_s))
    elif high / low > 1 + wanted.precision_ratio and high - low > 1:
        middle = round(math.sqrt(low * high))
        return NextProbe("bisect", min(max(middle, low + 1), high - 1))
    if bracket.confirmed < wanted.confirmations:
        return NextProbe("confirm", low)
    return None


def probes_expected(wanted: SearchRange) -> int:
    """Roughly how many trials a search takes, for estimates of time: a ramp over ten doublings when it has no end."""
    doublings = 10 if wanted.max_per_s is None else math.ceil(math.log2(wanted.max_per_s / wanted.min_per_s))
    bisections = math.ceil(math.log2(math.log(RAMP_FACTOR) / math.log1p(wanted.precision_ratio)))
    return 1 + doublings + bisections + wanted.confirmations
