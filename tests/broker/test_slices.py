"""Long work on the event loop: what it does at once, and what others may do in between."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from highwater.broker.slices import SLICE_NS, Steps, Work, in_slices, run
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock
from tests.broker.told_thread import ToldThread


class TickingClock(ManualClock):
    """Each look at it takes as long as half a slice may."""

    def monotonic_ns(self) -> int:
        self._now_ns += SLICE_NS // 2
        return super().monotonic_ns()


def counted(done: list[int], count: int) -> Generator[None, None, None]:
    for number in range(count):
        done.append(number)
        yield


def test_short_work_is_done_at_once() -> None:
    done: list[int] = []
    scheduler = ManualScheduler()
    in_slices(counted(done, 100), ManualClock(), scheduler)
    assert done == list(range(100))
    assert not scheduler._soon


def test_long_work_leaves_the_loop_to_others() -> None:
    done: list[int] = []
    scheduler = ManualScheduler()
    in_slices(counted(done, 5), TickingClock(), scheduler)
    assert done == [0, 1]
    scheduler.call_soon(lambda: done.append(-1))
    scheduler.run()
    assert done == [0, 1, 2, 3, -1, 4]


def test_what_is_left_when_the_broker_stops_is_not_done() -> None:
    done: list[int] = []
    scheduler = ManualScheduler()
    in_slices(counted(done, 5), TickingClock(), scheduler, goes_on=lambda: len(done) < 4)
    scheduler.run()
    assert done == [0, 1, 2, 3]


def writing(done: list[str], work: Work) -> Steps[None]:
    try:
        yield work
        done.append("written")
    except OSError as error:
        done.append(str(error))
    yield None
    done.append("over")


def refuse() -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize(("work", "outcome"), [(lambda: None, "written"), (refuse, "the disk is full")])
def test_work_that_waits_for_the_disk_is_done_aside_and_steps_go_on_after_it(work: Work, outcome: str) -> None:
    done: list[str] = []
    thread, scheduler = ToldThread(), ManualScheduler()
    in_slices(writing(done, work), ManualClock(), scheduler, run_aside=thread.run_aside)
    scheduler.run()
    assert done == []
    thread.go_on()
    assert done == [outcome, "over"]


@pytest.mark.parametrize(("work", "outcome"), [(lambda: None, "written"), (refuse, "the disk is full")])
def test_without_a_thread_that_work_is_done_at_once(work: Work, outcome: str) -> None:
    in_one_piece: list[str] = []
    run(writing(in_one_piece, work))
    done: list[str] = []
    in_slices(writing(done, work), ManualClock(), ManualScheduler())
    assert in_one_piece == done == [outcome, "over"]


def test_steps_do_not_go_on_after_work_when_the_broker_has_stopped_meanwhile() -> None:
    done: list[str] = []
    thread = ToldThread()
    runs = True
    in_slices(
        writing(done, lambda: None),
        ManualClock(),
        ManualScheduler(),
        goes_on=lambda: runs,
        run_aside=thread.run_aside,
    )
    runs = False
    thread.go_on()
    assert done == []


def test_work_that_nobody_waits_for_in_between_returns_its_result() -> None:
    def steps() -> Generator[None, None, str]:
        yield
        yield
        return "done"

    assert run(steps()) == "done"
