"""Tests of long requests that give way to other work of the event loop."""

from __future__ import annotations

from collections.abc import Callable

from highwater.broker.slices import SLICE_NS
from highwater.broker.turns import Turns
from highwater.kafka.arrays import array
from highwater.kafka.pacing import FEW_ITEMS, aside, give_way, paced
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.manual_clock import ManualClock

MANY = FEW_ITEMS + 1


class Loop:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler()
        self.aside: list[tuple[Callable[[], None], Callable[[OSError | None], None]]] = []
        self.turns = Turns(self.clock, self.scheduler, lambda work, then: self.aside.append((work, then)))

    def step(self) -> None:
        """Work that takes a slice."""
        self.clock.advance_ms(SLICE_NS // 1_000_000)
        give_way()


def test_a_short_request_is_done_at_once() -> None:
    loop = Loop()
    done: list[int] = []
    loop.turns.run(lambda: done.extend(paced(range(1000))), object())
    assert len(done) == 1000


def test_long_requests_take_turns_one_slice_in_each_turn_of_the_loop() -> None:
    loop = Loop()
    steps: list[tuple[str, int]] = []

    def work(name: str) -> None:
        for number in range(3):
            steps.append((name, number))
            loop.step()

    loop.turns.run(lambda: work("a"), object())
    loop.turns.run(lambda: work("b"), object())
    assert steps == [("a", 0), ("b", 0)]
    loop.scheduler.run()
    assert steps == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_an_array_gives_way_on_the_stacks_of_its_request_alone() -> None:
    loop, request = Loop(), object()
    mine: list[int] = []
    others: list[int] = []
    arrays: list[tuple[int, ...]] = []

    def read() -> None:
        arrays.append(array(range(MANY)))
        for number in arrays[0]:
            mine.append(number)
            loop.clock.advance_ms(10)

    loop.turns.run(read, request)
    assert len(mine) == 1

    def called_back() -> None:
        loop.clock.advance_ms(10)
        others.extend(arrays[0])

    loop.turns.run(called_back, object())
    assert len(others) == MANY, "it is called from the midst of a change"
    loop.scheduler.run()
    assert mine == list(range(MANY))


def test_work_of_native_code_is_done_aside_and_its_failure_is_raised() -> None:
    loop = Loop()
    told: list[object] = []

    def fail() -> int:
        raise ValueError("damaged")

    def work() -> None:
        told.append(aside(lambda: 7))
        try:
            aside(fail)
        except ValueError as error:
            told.append(str(error))

    loop.turns.run(work, object())
    assert told == []
    for _ in range(2):
        ((native, then),) = loop.aside
        loop.aside.clear()
        native()
        then(None)
        loop.scheduler.run()
    assert told == [7, "damaged"]
    assert aside(lambda: 8) == 8, "without a long request it is done here"
