"""How small a change a number of trials can show, from what trials of the same thing differed by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from highwater.results.analysis.statistics import (
    CONFIDENCE,
    LEAST_FOR_INTERVAL,
    RatioEstimate,
    a_a_centre_bound,
    smallest_detectable_ratio,
    student_t_quantile,
)

MOST_TRIALS: Final = 1000


def detectable_ratio(ratios: Sequence[float], trials: int) -> float | None:
    """The change (0.04 = 4 %) between two cells that so many trials of each show four times in five.

    ratios: of A/A pairs. As in `conclusions`, the whole interval of a change must be beyond what A/A pairs differ by.
    None with fewer than three pairs, or too few trials for an interval.
    """
    bound = a_a_centre_bound(ratios, trials)
    if bound is None or trials < LEAST_FOR_INTERVAL:
        return None
    # The bound is the interval that the pairs predict; of fewer trials than pairs, Student's t makes it wider.
    by_pairs, by_trials = (student_t_quantile(0.5 + CONFIDENCE / 2, n) for n in (len(ratios), trials - 1))
    reach = (1 + bound) ** max(1.0, by_trials / by_pairs)
    return smallest_detectable_ratio(RatioEstimate(1.0, 1 / reach, reach, trials), bound)


def trials_to_detect(ratios: Sequence[float], change_ratio: float) -> int | None:
    """The fewest trials of each cell that show such a change four times in five; None above MOST_TRIALS."""
    fewest, most = LEAST_FOR_INTERVAL, MOST_TRIALS
    if not _shows(ratios, most, change_ratio):
        return None
    while fewest < most:
        middle = (fewest + most) // 2
        fewest, most = (fewest, middle) if _shows(ratios, middle, change_ratio) else (middle + 1, most)
    return fewest


def _shows(ratios: Sequence[float], trials: int, change_ratio: float) -> bool:
    found = detectable_ratio(ratios, trials)
    return found is not None and found <= change_ratio
