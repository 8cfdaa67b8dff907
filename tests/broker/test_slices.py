"""Long work on the event loop: what it does at once, and what others may do in between."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from highwater.broker.slices import SLICE_NS, in_slices, run
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock


class TickingClock(ManualClock):
    """Each look at it takes as long as half a slice may."""

    def monotonic_ns(self) -> int:
        self._now_ns += SLICE_NS // 2
        return super().monotonic_ns()


def counted(done: list[int], count: int) -> Iterator[None]:
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


def test_work_that_nobody_waits_for_in_between_returns_its_result() -> None:
    def steps() -> Generator[None, None, str]:
        yield
        yield
        return "done"

    assert run(steps()) == "done"
