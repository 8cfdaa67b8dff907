from __future__ import annotations

import pytest

from highwater.bench.trials.steps import StepClock, overhead_of


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_steps_are_timed_one_after_the_other() -> None:
    now, told = Clock(), list[str]()
    clock = StepClock(told.append, now)
    clock.begin("start", "starting")
    now.now_s = 2.0
    clock.begin("load")
    now.now_s = 7.0
    assert clock.end() == 5.0
    assert clock.end() == 0.0
    clock.begin("start")
    now.now_s = 7.5
    clock.end()
    assert clock.seconds == {"start": 2.5, "load": 5.0}
    assert told == ["starting"]


def test_a_step_is_parted_into_what_it_consisted_of() -> None:
    clock = StepClock()
    clock.add("start_load", 10.0)
    clock.split("start_load", {"load": 7.0, "drain": 2.0})
    assert clock.seconds == {"start_load": 1.0, "load": 7.0, "drain": 2.0}


def test_overhead_is_what_was_no_load() -> None:
    overhead = overhead_of(20.0, [{"start_run": 2.0}, {"load": 6.0, "drain": 1.0}, {"load": 9.0}])
    assert overhead.load_s == 15.0
    assert overhead.ratio == pytest.approx(0.25)
    assert overhead.steps_s == {"start_run": 2.0, "load": 15.0, "drain": 1.0}
