"""Which settings carry the load at all: valid trials where others have none, by an exact sign test over blocks. Pure.

A load that the settings in use cannot carry has no figures to compare: its trials are not valid. That the trials of a
candidate are is then the reason to advise it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.bench.results import TrialSummary
from highwater.bench.results.advice import Validity

_SURE: Final = 0.05


@dataclass(frozen=True)
class Fates:
    """The measured trials of one variant, A/A twins excluded, also those that are not valid."""

    trials: Sequence[TrialSummary]

    @property
    def valid_by_block(self) -> dict[int, bool]:
        return {trial.block: trial.verdict.state != "invalid" for trial in self.trials}

    def validity(self) -> Validity:
        reasons = [trial.verdict.reasons[0] for trial in self.trials if trial.verdict.state == "invalid"]
        most = Counter(reason.check for reason in reasons).most_common(1)
        check = most[0][0] if most else ""
        text = next((reason.text for reason in reasons if reason.check == check), "")
        return Validity(trials=len(self.trials), not_valid=len(reasons), check=check, text=text)


def fates_of(summaries: Iterable[TrialSummary], cell: str) -> Fates:
    return Fates([summary for summary in summaries if summary.role == "measure" and summary.cell == cell])


def surely_carries(candidate: Fates, reference: Fates) -> bool:
    """Whether the candidate has valid trials in blocks where the reference has none, more often than by chance.

    The sign test of McNemar, exact and two-sided at 5 %: blocks in which both are valid, or neither is, say nothing.
    """
    ours, theirs = candidate.valid_by_block, reference.valid_by_block
    both = ours.keys() & theirs.keys()
    won = sum(ours[block] and not theirs[block] for block in both)
    lost = sum(theirs[block] and not ours[block] for block in both)
    told = won + lost
    return won > lost and 2 * sum(math.comb(told, k) for k in range(lost + 1)) / 2**told < _SURE


def mostly_valid(validity: Validity) -> bool:
    """Whether figures of these trials may be advised: those of a few that went well are no figures of the load."""
    return 2 * validity.not_valid < validity.trials
