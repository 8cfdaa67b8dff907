from __future__ import annotations

import re

import pytest

from highwater.common.errors import UsageError
from highwater.studies.advise.budget import LEAST_SEARCH_TRIALS, divide, least_blocks


def test_blocks_that_can_decide_at_all() -> None:
    assert [least_blocks(comparisons) for comparisons in (1, 2, 3)] == [6, 7, 7]


def test_the_time_is_divided_and_never_exceeded() -> None:
    budget = divide(1800, 10, 40, 3, "q.yaml:9")
    assert budget.search_trials >= LEAST_SEARCH_TRIALS
    assert budget.confirmation_blocks(3) >= least_blocks(2)
    assert budget.search_trials * 10 + budget.confirmation_blocks(3) * 4 * 10 <= 1800 - 40


def test_too_little_time_says_how_much_would_do_and_that_much_does() -> None:
    with pytest.raises(
        UsageError, match=r"^q.yaml:9: budget: 5 min is too little to decide: .* give \d+m, or make"
    ) as e:
        divide(300, 10, 40, 3, "q.yaml:9")
    minutes = int(re.findall(r"give (\d+)m", str(e.value))[0])
    budget = divide(60 * minutes, 10, 40, 3, "q.yaml:9")
    assert budget.search_trials >= LEAST_SEARCH_TRIALS
    assert budget.confirmation_blocks(3) >= least_blocks(2)
