"""The remaining time of a run, against the times of real runs."""

from __future__ import annotations

import pytest

from highwater.bench.display.following import TimeLeft

# workloads/quickstart.yaml on two cores that other work shared: begin and end of each trial, and the end of the run, in
# seconds since the launcher was there. A trial is 6 s of load.
PROCESSES = (
    [
        (2.96, 14.15), (14.15, 21.84), (21.84, 29.42), (29.42, 37.57), (37.58, 46.23), (46.74, 55.6), (55.6, 64.96),
        (64.97, 72.66), (72.66, 80.6), (80.61, 88.39), (88.65, 99.23), (99.23, 110.25), (110.25, 118.59),
        (118.59, 126.96), (126.97, 137.37),
    ],
    141.19,
)  # fmt: skip
SPARK = (
    [
        (3.33, 15.11), (15.12, 25.89), (25.89, 36.88), (36.89, 47.69), (47.69, 57.73), (57.84, 66.15), (66.15, 74.58),
        (74.58, 84.92), (84.93, 96.58), (96.59, 108.6), (109.3, 119.61), (119.61, 129.79), (129.81, 141.93),
        (141.94, 152.96), (152.98, 165.35),
    ],
    170.54,
)  # fmt: skip
PLANNED_S, PROBES_S = 9.0, 5


@pytest.mark.parametrize(("trials", "end_s"), [PROCESSES, SPARK], ids=["processes", "spark"])
def test_the_time_left_is_right_within_a_fifth(trials: list[tuple[float, float]], end_s: float) -> None:
    left = TimeLeft([PLANNED_S] * len(trials), PROBES_S)
    wrong = []

    def look(now_s: float) -> None:
        real_s = end_s - now_s
        if abs(left.left_s(now_s) - real_s) > max(0.2 * real_s, PLANNED_S):  # of the last trials, within one trial
            wrong.append((now_s, left.left_s(now_s), real_s))

    look(0.0)
    for number, (begin_s, stop_s) in enumerate(trials, start=1):
        left.trial_started(number, begin_s)
        look(begin_s)
        look((begin_s + stop_s) / 2)
        left.trial_ended(number, stop_s)
    assert wrong == []


def test_a_skipped_trial_and_one_beside_another_take_no_time() -> None:
    left = TimeLeft([10.0, 0.0, 10.0, 0.0], 0)
    left.trial_started(1, 0.0)
    assert left.left_s(0.0) == pytest.approx(21.0)
    left.trial_ended(1, 10.0)
    left.trial_skipped(3)
    left.trial_started(3, 10.0)
    assert left.left_s(10.0) == pytest.approx(1.0)


def test_a_search_may_need_more_trials_than_planned() -> None:
    left = TimeLeft([10.0], 0)
    left.trial_started(1, 0.0)
    left.trial_ended(1, 10.0)
    left.trial_started(2, 10.0)
    assert left.left_s(10.0) == pytest.approx(11.0)
    assert left.done_s(15.0) == pytest.approx(15.0)


def test_a_trial_that_takes_longer_than_all_others_never_makes_it_negative() -> None:
    left = TimeLeft([10.0], 0)
    left.trial_started(1, 0.0)
    assert left.left_s(500.0) == pytest.approx(1.0)
