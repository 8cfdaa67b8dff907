"""Lag in time: interpolated between answers, and never beyond the first one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.monitor.figures.lag import catch_up_ms, lag_time
from highwater.monitor.figures.rows import Duration

TIMES = [0, 10_000, 20_000, 30_000]
ENDS = [100, 200, 200, 400]


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        (400, Duration(0)),
        (500, Duration(0)),
        (300, Duration(5_000)),
        (399, Duration(50)),
        # Nothing was produced for ten seconds: the first unread record came after them.
        (200, Duration(10_000)),
        (150, Duration(25_000)),
        (100, Duration(30_000)),
        (99, Duration(30_000, is_least=True)),
        (0, Duration(30_000, is_least=True)),
    ],
)
def test_the_time_since_the_end_was_at_the_commit(committed: int, expected: Duration) -> None:
    assert lag_time(committed, TIMES, ENDS) == expected


def test_one_answer_tells_only_that_all_is_read() -> None:
    assert lag_time(100, [5], [100]) == Duration(0)
    assert lag_time(99, [5], [100]) == Duration(0, is_least=True)
    assert lag_time(99, [], []) is None


SERIES = st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 1000)), min_size=1, max_size=40)


@given(SERIES, st.integers(0, 2000), st.integers(0, 100))
def test_a_later_commit_never_lags_longer(steps: list[tuple[int, int]], committed: int, more: int) -> None:
    times, ends = [0], [500]
    for passed, produced in steps:
        times.append(times[-1] + passed)
        ends.append(ends[-1] + produced)
    earlier, later = lag_time(committed, times, ends), lag_time(committed + more, times, ends)
    assert earlier is not None
    assert later is not None
    assert 0 <= later.ms <= earlier.ms + 1e-6
    assert earlier.ms <= times[-1]
    assert earlier.is_least == (committed < 500)


@pytest.mark.parametrize(
    ("lag", "consumed", "produced", "expected"),
    [
        (0, None, None, 0),
        (100, 30.0, 20.0, 10_000),
        (100, 20.0, 20.0, math.inf),
        (100, 0.0, 20.0, math.inf),
        (100, None, 20.0, None),
        (100, 20.0, None, None),
    ],
)
def test_catching_up_takes_what_is_gained(
    lag: int, consumed: float | None, produced: float | None, expected: float | None
) -> None:
    assert catch_up_ms(lag, consumed, produced) == expected
