"""What trials can show is known from A/A pairs: more trials show smaller changes, and the fewest are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from highwater.results.analysis.expecting import MOST_TRIALS, detectable_ratio, trials_to_detect
from highwater.results.analysis.statistics import a_a_centre_bound, paired_ratio_ci


def ratios(spread: float, pairs: int = 12) -> list[float]:
    return [float(ratio) for ratio in np.exp(np.random.default_rng(5).normal(0, spread, pairs))]


def test_more_trials_show_smaller_changes() -> None:
    found = [detectable_ratio(ratios(0.03), trials) for trials in (5, 7, 14, 100)]
    known = [value for value in found if value is not None]
    assert len(known) == 4
    assert known == sorted(known, reverse=True)
    assert 0.05 < known[1] < 0.12


@pytest.mark.parametrize("change", [0.02, 0.05, 0.2])
def test_the_fewest_trials_are_found(change: float) -> None:
    of_pairs = ratios(0.03)
    fewest = trials_to_detect(of_pairs, change)
    assert fewest is not None
    shown = detectable_ratio(of_pairs, fewest)
    assert shown is not None
    assert shown <= change
    before = detectable_ratio(of_pairs, fewest - 1)
    assert before is None or before > change


def test_a_change_that_is_expected_to_be_shown_is_shown_four_times_in_five() -> None:
    """Of loads with this noise, whose true change is the one that is promised."""
    random = np.random.default_rng(7)
    trials, spread = 9, 0.03
    shown = 0
    for _ in range(400):
        a_a = np.exp(random.normal(0, spread, 12)).tolist()
        promised, delta = detectable_ratio(a_a, trials), a_a_centre_bound(a_a, trials)
        assert promised is not None
        assert delta is not None
        heads = np.exp(random.normal(math.log1p(promised), spread, trials)).tolist()
        estimate = paired_ratio_ci([1.0] * trials, heads)
        assert estimate is not None
        assert estimate.low is not None
        shown += estimate.low > 1 + delta
    assert 0.7 < shown / 400 < 0.95


def test_what_is_not_known_is_none() -> None:
    assert detectable_ratio(ratios(0.03), 4) is None
    assert detectable_ratio([1.0, 1.1], 7) is None
    assert trials_to_detect(ratios(5.0), 0.01) is None
    assert MOST_TRIALS == 1000
