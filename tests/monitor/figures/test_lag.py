"""Lag: each state, and the bound of its error. Commits are read before end offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.figures.lag import Lag, lag_of, lag_text
from highwater.monitor.figures.rows import LagState
from highwater.monitor.model import Commit
from tests.monitor.clusters import partition


@pytest.mark.parametrize(
    ("committed", "start", "end", "expected"),
    [
        (90, 0, 100, Lag(LagState.COMMITTED, 10, 0)),
        (100, 0, 100, Lag(LagState.COMMITTED, 0, 0)),
        (0, 0, 100, Lag(LagState.COMMITTED, 100, 0)),
        (100, 100, 100, Lag(LagState.COMMITTED, 0, 0)),
    ],
)
def test_lag_is_end_minus_commit(committed: int, start: int, end: int, expected: Lag) -> None:
    assert lag_of(Commit(committed, 0), partition("t", start=start, end=end), 0.0) == expected


def test_a_lag_with_an_error_is_shown_as_a_range() -> None:
    assert lag_text(1200, 0) == "1,200"
    assert lag_text(1200, 15) == "1,185–1,200"
    assert lag_text(5, 12) == "0–5"


def test_a_missing_commit_is_neither_no_lag_nor_the_whole_log() -> None:
    found = lag_of(None, partition("t", end=100), 1.0)
    assert (found.state, found.lag) == (LagState.NO_COMMIT, None)


def test_a_commit_below_the_log_start_says_what_is_lost() -> None:
    found = lag_of(Commit(40, 0), partition("t", start=100, end=150), 0.0)
    assert (found.state, found.lag, found.lost) == (LagState.BELOW_LOG_START, 110, 60)
    assert found.sentence == "60 offsets were deleted before the group read them."


def test_a_commit_beyond_the_end_is_a_fault_and_not_lag_of_the_same_size() -> None:
    found = lag_of(Commit(500, 0), partition("t", end=100, at_ms=20), 1.0)
    assert (found.state, found.lag) == (LagState.BEYOND_END, None)


def test_an_end_that_is_older_than_the_commit_makes_no_fault() -> None:
    found = lag_of(Commit(500, 2_000), partition("t", end=100, at_ms=1_000), 1.0)
    assert (found.state, found.lag) == (LagState.COMMITTED, 0)


def test_what_is_not_known_has_a_state_of_its_own() -> None:
    assert lag_of(Commit(5, 0), None, None).state is LagState.UNKNOWN_PARTITION
    assert lag_of(Commit(5, 0), partition("t", start=None, end=None), None).state is LagState.UNKNOWN_END


def test_the_error_is_what_was_produced_between_the_two_answers() -> None:
    later = partition("t", end=1_000, at_ms=250)
    assert lag_of(Commit(0, 0), later, 100.0).error == 25
    assert lag_of(Commit(0, 0), later, 101.0).error == 26
    assert lag_of(Commit(995, 0), later, 100.0).error == 5
    # With no rate yet, all of it may have come between the answers.
    assert lag_of(Commit(900, 0), later, None).error == 100


@given(
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**4),
    st.integers(0, 10**4),
    st.none() | st.floats(0, 1e6),
)
def test_lag_is_never_negative_and_never_less_than_its_error(
    committed: int, start: int, held: int, committed_at: int, end_at: int, rate: float | None
) -> None:
    found = lag_of(Commit(committed, committed_at), partition("t", start=start, end=start + held, at_ms=end_at), rate)
    assert found.lag is None or 0 <= found.error <= found.lag
    assert (found.lost > 0) == (found.state is LagState.BELOW_LOG_START)
    assert (found.sentence == "") == (found.state is LagState.COMMITTED)
