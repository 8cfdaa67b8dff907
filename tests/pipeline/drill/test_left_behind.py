"""What a drill cannot remove at its end is named, and hides no fault that came before."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from highwater.pipeline.drill.drill import removed
from highwater.pipeline.drill.errors import DrillError


def _fails() -> None:
    raise TimeoutError("no answer\nwithin a minute")


def _drill_that_ends(told: list[str]) -> None:
    with ExitStack() as stack:
        stack.callback(removed, told.append, "topic orders", _fails)
        raise DrillError("the broker did not come back")


def test_the_fault_that_ended_the_drill_is_the_one_that_is_raised() -> None:
    told: list[str] = []
    with pytest.raises(DrillError, match="the broker did not come back"):
        _drill_that_ends(told)
    assert told == ["left behind: topic orders: TimeoutError no answer"]


def test_a_drill_that_removes_everything_says_nothing_of_it() -> None:
    told: list[str] = []
    gone: list[str] = []
    removed(told.append, "topic orders", lambda: gone.append("orders"))
    assert gone == ["orders"]
    assert told == []
