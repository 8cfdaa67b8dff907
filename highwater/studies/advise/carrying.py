"""Which settings carry the load at all, by a sign test of usable trials over blocks. Pure.

A load that the settings in use cannot carry has no figures to compare: its trials are invalid. That the trials of a
candidate can be used is then the reason to advise it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.results.advice import Usability
from highwater.results.analysis.conclusions import usable
from highwater.results.models import TrialSummary

_SURE: Final = 0.05


@dataclass(frozen=True)
class Fates:
    """The trials of one variant, one in each block, A/A twins excluded. A block without a trial: it failed."""

    trials: Sequence[TrialSummary]
    blocks: int
    """Blocks of the whole run."""

    @property
    def usable_blocks(self) -> set[int]:
        return {trial.block for trial in usable(self.trials)}

    def usability(self) -> Usability:
        reasons = [trial.verdict.reasons[0] for trial in self.trials if trial.verdict.state == "invalid"]
        most = Counter(reason.check for reason in reasons).most_common(1)
        check = most[0][0] if most else ""
        text = next((reason.text for reason in reasons if reason.check == check), "")
        return Usability(trials=self.blocks, usable=len(self.usable_blocks), check=check, text=text)


def surely_carries(candidate: Fates, reference: Fates, comparisons: int) -> bool:
    """Whether most trials of the candidate are usable, most of the reference are not, and chance does not explain it.

    The sign test of McNemar, exact and two-sided at 5 %: blocks in which both are usable, or neither is, say nothing.
    comparisons: how many are made with the reference (Bonferroni's correction).
    """
    if not mostly_usable(candidate.usability()) or mostly_usable(reference.usability()):
        return False
    won = len(candidate.usable_blocks - reference.usable_blocks)
    lost = len(reference.usable_blocks - candidate.usable_blocks)
    told = won + lost
    p_value = 2 * sum(math.comb(told, k) for k in range(lost + 1)) / 2**told
    return won > lost and p_value * comparisons < _SURE


def mostly_usable(usability: Usability) -> bool:
    """Whether figures of these trials may be advised: those of a few that went well are no figures of the load."""
    return 2 * usability.usable > usability.trials
