"""Whether a load is carried: the exact sign test over blocks."""

from __future__ import annotations

import pytest

from highwater.studies.advise.carrying import Fates, mostly_usable, surely_carries
from tests.bench.summaries import LATE, summary


def fates(trials: str) -> Fates:
    """`+-?`: the first block has a usable trial, the second one that is invalid, the third one that failed."""
    made = [
        summary(block, {}, reason=LATE if one == "-" else None) for block, one in enumerate(trials, 1) if one != "?"
    ]
    return Fates(made, len(trials))


@pytest.mark.parametrize(
    ("candidate", "in_use", "comparisons", "told"),
    [
        ("++++++", "------", 1, True),  # 2 in 64 by chance
        ("++++++", "------", 2, False),
        ("+++++++", "-------", 2, True),
        ("+++++", "-----", 1, False),  # 2 in 32
        ("++++++++++", "--------++", 2, True),
        ("+++++++-", "-------+", 1, False),  # 18 in 256
        ("+++++++-", "??????--", 1, True),
        ("+++++++??????????", "-----------------", 1, False),  # seldom usable itself
        ("+++++++++++++++", "++++++++-------", 1, False),  # in use mostly is usable
        ("------", "++++++", 1, False),
        ("++++++", "++++++", 1, False),
        ("------", "------", 1, False),
        ("", "", 1, False),
    ],
)
def test_a_load_is_carried_if_chance_does_not_explain_it(
    candidate: str, in_use: str, comparisons: int, *, told: bool
) -> None:
    assert surely_carries(fates(candidate), fates(in_use), comparisons) == told


def test_the_check_that_most_trials_failed_is_named_with_its_text() -> None:
    usability = fates("+--?").usability()
    assert (usability.trials, usability.usable, usability.check, usability.text) == (4, 1, LATE.check, LATE.text)
    assert fates("++").usability().check == ""


def test_half_of_the_trials_is_not_most_of_them() -> None:
    assert [mostly_usable(fates(trials).usability()) for trials in ("++-", "+-", "+?", "--", "")] == [
        True,
        False,
        False,
        False,
        False,
    ]
