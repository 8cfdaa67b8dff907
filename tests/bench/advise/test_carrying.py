"""Whether a load is carried: the exact sign test over blocks."""

from __future__ import annotations

import pytest

from highwater.bench.advise.carrying import Fates, mostly_valid, surely_carries
from tests.bench.summaries import LATE, summary


def fates(valid: str) -> Fates:
    """`+-`: the first block has a valid trial, the second one that is not."""
    return Fates([summary(block, {}, reason=LATE if one == "-" else None) for block, one in enumerate(valid, start=1)])


@pytest.mark.parametrize(
    ("candidate", "in_use", "told"),
    [
        ("++++++", "------", True),  # 2 in 64 by chance
        ("+++++", "-----", False),  # 2 in 32
        ("++++++++++", "--------++", True),
        ("+++++++-", "-------+", False),  # 18 in 256
        ("------", "++++++", False),
        ("++++++", "++++++", False),
        ("------", "------", False),
        ("", "", False),
    ],
)
def test_a_load_is_carried_if_chance_does_not_explain_it(candidate: str, in_use: str, *, told: bool) -> None:
    assert surely_carries(fates(candidate), fates(in_use)) == told


def test_the_check_that_most_trials_failed_is_named_with_its_text() -> None:
    validity = fates("+--").validity()
    assert (validity.trials, validity.not_valid, validity.check, validity.text) == (3, 2, LATE.check, LATE.text)
    assert fates("++").validity().check == ""


def test_half_of_the_trials_is_not_most_of_them() -> None:
    assert [mostly_valid(fates(valid).validity()) for valid in ("++-", "+-", "--", "")] == [True, False, False, False]
