"""The search for the highest sustained rate: which rate to try next; pure.

Pure: a history of probes in, the next probe or the answer out, so a search can be stopped and resumed anywhere.

    ramp      from the lowest rate on, each rate twice the last one, until one fails
    bisect    between the highest passing and the lowest failing rate, on a logarithmic scale, down to the precision
    confirm   the highest passing rate in fresh trials; if one fails, the rate counts as failing, and the bisection
              continues below it

While ramping or bisecting, a rate counts as failing only when a second trial fails, too: all later rates are lower, so
one disturbance of the host could otherwise end the search far too low. One failure is enough in the confirmation, and
when the system lost records or died.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from highwater.results.analysis_file import SearchProbe, SearchStage

RAMP_FACTOR = 2
_TARGET_AT_FAULT = ("delivery.", "trial.")


@dataclass(frozen=True, slots=True)
class SearchRange:
    """The range of rates, the precision, and the number of confirmations. Rates are whole records per second."""

    min_per_s: int
    max_per_s: int | None
    """None = no upper limit."""
    precision_ratio: float
    confirmations: int

    def __post_init__(self) -> None:
        if self.min_per_s < 1 or (self.max_per_s is not None and self.max_per_s < self.min_per_s):
            raise ValueError(f"no rates lie between {self.min_per_s}/s and {self.max_per_s}/s")
        if not 0 < self.precision_ratio < 1:
            raise ValueError(f"a precision of {self.precision_ratio:g} is not between 0 and 1")


@dataclass(frozen=True, slots=True)
class Bracket:
    """The bracket from the probes so far; None where unknown."""

    last_passing_per_s: int | None
    first_failing_per_s: int | None
    confirmed: int
    """How many confirmation trials at the last passing rate have passed."""
    failure: SearchProbe | None
    """The last trial that failed at `first_failing_per_s`."""


@dataclass(frozen=True, slots=True)
class NextProbe:
    stage: SearchStage
    rate_per_s: int


def bracket_of(history: Sequence[SearchProbe]) -> Bracket:
    failures: defaultdict[int, list[SearchProbe]] = defaultdict(list)
    for probe in history:
        if not probe.passed:
            failures[probe.rate_per_s].append(probe)
    failing = min((rate_per_s for rate_per_s, failed in failures.items() if _believed(failed)), default=None)
    passing = [p.rate_per_s for p in history if p.passed and (failing is None or p.rate_per_s < failing)]
    last_passing = max(passing, default=None)
    confirmed = sum(probe.stage == "confirm" and probe.rate_per_s == last_passing for probe in history)
    return Bracket(last_passing, failing, confirmed, failures[failing][-1] if failing is not None else None)


def target_at_fault(probe: SearchProbe) -> bool:
    """Whether the system lost records or died: a fault and not just a rate that is too high."""
    return probe.limit is not None and probe.limit.startswith(_TARGET_AT_FAULT)


def _believed(failed: Sequence[SearchProbe]) -> bool:
    """Whether a rate counts as failing. failed: its failed trials."""
    return len(failed) > 1 or failed[0].stage == "confirm" or target_at_fault(failed[0])


def next_probe(wanted: SearchRange, history: Sequence[SearchProbe]) -> NextProbe | None:
    """The next trial; None when the search is over."""
    bracket = bracket_of(history)
    low, high = bracket.last_passing_per_s, bracket.first_failing_per_s
    last = history[-1] if history else None
    if last is not None and not last.passed and (high is None or last.rate_per_s < high):
        return NextProbe(last.stage, last.rate_per_s)
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
    """An estimate of the number of trials of a search; a ramp without an end counts as ten doublings."""
    doublings = 10 if wanted.max_per_s is None else math.ceil(math.log2(wanted.max_per_s / wanted.min_per_s))
    bisections = math.ceil(math.log2(math.log(RAMP_FACTOR) / math.log1p(wanted.precision_ratio)))
    # About half of the bisections fail, and each of these and the end of the ramp are tried twice.
    return 2 + doublings + bisections + bisections // 2 + wanted.confirmations
