from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.bench.runs.search import NextProbe, SearchRange, bracket_of, next_probe, probes_expected
from highwater.results.analysis_file import SearchProbe

WANTED = SearchRange(min_per_s=1000, max_per_s=None, precision_ratio=0.03, confirmations=3)


def search(
    wanted: SearchRange, passes: Callable[[NextProbe], bool], history: list[SearchProbe] | None = None
) -> list[SearchProbe]:
    history = list(history or [])
    while (probe := next_probe(wanted, history)) is not None:
        assert len(history) < 200, "a search must end"
        passed = passes(probe)
        history.append(
            SearchProbe(
                trial_id=str(len(history)),
                stage=probe.stage,
                rate_per_s=probe.rate_per_s,
                passed=passed,
                limit=None if passed else "produce.p99",
                text=None,
            )
        )
    return history


def test_ramp_bisect_confirm() -> None:
    history = search(WANTED, lambda probe: probe.rate_per_s <= 5000)
    bracket = bracket_of(history)
    assert [probe.stage for probe in history[:4]] == ["ramp"] * 4
    assert [probe.rate_per_s for probe in history[:4]] == [1000, 2000, 4000, 8000]
    assert [probe.stage for probe in history[-3:]] == ["confirm"] * 3
    assert bracket.last_passing_per_s is not None
    assert bracket.first_failing_per_s is not None
    assert bracket.last_passing_per_s <= 5000 < bracket.first_failing_per_s
    assert bracket.first_failing_per_s / bracket.last_passing_per_s <= 1.03
    assert bracket.confirmed == 3
    assert bracket.failure is not None
    assert bracket.failure.limit == "produce.p99"


@given(
    limit=st.integers(1, 10**7),
    least=st.integers(1, 10**5),
    most=st.one_of(st.none(), st.integers(10**5, 10**7)),
    precision=st.floats(0.005, 0.5),
)
def test_every_search_ends_with_the_truth_inside_its_bracket(
    limit: int, least: int, most: int | None, precision: float
) -> None:
    wanted = SearchRange(least, most, precision, 1)
    bracket = bracket_of(search(wanted, lambda probe: probe.rate_per_s <= limit))
    low, high = bracket.last_passing_per_s, bracket.first_failing_per_s
    assert low is not None or high == least
    assert low is None or low <= limit
    assert high is None or high > limit
    assert high is not None or low == most
    assert low is None or high is None or high / low <= 1 + precision or high - low == 1


@given(st.integers(0, 2**32))
def test_a_search_under_noise_ends_and_its_answer_was_confirmed(seed: int) -> None:
    def passes(probe: NextProbe) -> bool:
        chance = math.sin(seed + probe.rate_per_s * 12.9898) * 43758.5453 % 1
        return probe.rate_per_s * (0.8 + 0.4 * chance) < 50_000

    bracket = bracket_of(search(WANTED, passes))
    assert bracket.last_passing_per_s is None or bracket.confirmed == 3


def test_a_rate_that_fails_its_confirmation_is_a_failing_rate() -> None:
    # A system that holds what it was given once, and not again above 3000.
    history = search(WANTED, lambda probe: probe.rate_per_s <= (3000 if probe.stage == "confirm" else 5000))
    bracket = bracket_of(history)
    assert bracket.last_passing_per_s is not None
    assert bracket.last_passing_per_s <= 3000
    assert bracket.confirmed == 3


@pytest.mark.parametrize("hiccup", range(12))
def test_one_hiccup_of_the_host_does_not_end_a_search_below_the_truth(hiccup: int) -> None:
    tried: list[int] = []

    def passes(probe: NextProbe) -> bool:
        tried.append(probe.rate_per_s)
        return probe.rate_per_s <= 50_000 and len(tried) != hiccup + 1

    bracket = bracket_of(search(WANTED, passes))
    assert bracket.last_passing_per_s is not None
    assert bracket.first_failing_per_s is not None
    assert bracket.last_passing_per_s <= 50_000 < bracket.first_failing_per_s


def test_nothing_passes() -> None:
    history = search(WANTED, lambda probe: False)
    assert len(history) == 2
    assert bracket_of(history).last_passing_per_s is None
    assert bracket_of(history).first_failing_per_s == 1000


def test_everything_up_to_the_highest_rate_passes() -> None:
    history = search(SearchRange(1000, 3000, 0.03, 2), lambda probe: True)
    assert [(probe.stage, probe.rate_per_s) for probe in history] == [
        ("ramp", 1000),
        ("ramp", 2000),
        ("ramp", 3000),
        ("confirm", 3000),
        ("confirm", 3000),
    ]
    assert bracket_of(history).first_failing_per_s is None


def test_a_search_is_taken_up_where_it_was_left() -> None:
    def passes(probe: NextProbe) -> bool:
        return probe.rate_per_s <= 5000

    whole = search(WANTED, passes)
    for length in range(len(whole)):
        assert search(WANTED, passes, whole[:length]) == whole


def test_a_search_takes_about_as_many_trials_as_expected() -> None:
    wanted = SearchRange(1000, 64_000, 0.03, 3)
    assert abs(probes_expected(wanted) - len(search(wanted, lambda probe: probe.rate_per_s <= 50_000))) <= 2


@pytest.mark.parametrize(("least", "most", "precision"), [(0, None, 0.03), (10, 5, 0.03), (1, None, 0.0)])
def test_impossible_ranges(least: int, most: int | None, precision: float) -> None:
    with pytest.raises(ValueError, match=r"is not between|no rates"):
        SearchRange(least, most, precision, 3)
