"""How the time of a question is divided between the search and the confirmation. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from highwater.common.errors import UsageError
from highwater.common.units import wait_text
from highwater.results.analysis.conclusions import SIGNIFICANCE
from highwater.results.analysis.statistics import LEAST_FOR_INTERVAL
from highwater.studies.advise.search import BLOCK_TRIALS, LEAST_BLOCKS, TWIN_BLOCKS

LEAST_SEARCH_TRIALS: Final = LEAST_BLOCKS * BLOCK_TRIALS + TWIN_BLOCKS
_CONFIRMATION_SHARE: Final = 0.4
_MOST_BLOCKS: Final = 15


@dataclass(frozen=True, slots=True)
class Budget:
    """search_trials: trials of the search, A/A twins included. trial_s: what one trial is expected to take."""

    trial_s: float
    search_trials: int
    search_s: float
    confirmation_s: float

    def confirmation_blocks(self, cells: int) -> int:
        """Blocks of a confirmation with so many cells and an A/A twin that there is time for."""
        return min(int(self.confirmation_s / ((cells + 1) * self.trial_s)), _MOST_BLOCKS)


def least_blocks(comparisons: int) -> int:
    """Blocks that so many comparisons with one cell need before they can be decided at all (Holm, both directions)."""
    return max(LEAST_FOR_INTERVAL, math.ceil(math.log2(2 * comparisons / SIGNIFICANCE)))


def divide(budget_s: int, trial_s: float, fixed_s: float, cells: int, where: str) -> Budget:
    """Divide the time. trial_s: of one trial. fixed_s: of both runs beside their trials. Raises UsageError.

    cells: the references and the finalists of the confirmation. where: file and line of the budget.
    """
    blocks = least_blocks(cells - 1)
    least_confirmation_s = blocks * (cells + 1) * trial_s
    least_s = fixed_s + LEAST_SEARCH_TRIALS * trial_s + least_confirmation_s
    if budget_s < least_s:
        raise UsageError(
            f"{where}: budget: {wait_text(budget_s)} is too little to decide: a search of {LEAST_SEARCH_TRIALS} trials "
            f"and a confirmation of {blocks} blocks with {cells + 1} trials each take about {wait_text(least_s)}; give "
            f"{math.ceil(least_s / 60)}m, or make the phases of the workload shorter"
        )
    left_s = budget_s - fixed_s
    confirmation_s = max(least_confirmation_s, min(left_s * _CONFIRMATION_SHARE, _MOST_BLOCKS * 2 * cells * trial_s))
    confirmation_s = min(confirmation_s, left_s - LEAST_SEARCH_TRIALS * trial_s)
    search_s = left_s - confirmation_s
    return Budget(trial_s, int(search_s / trial_s), search_s, confirmation_s)
