from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from highwater.bench.errors import StoppedError
from highwater.bench.systems import System
from highwater.bench.trials.company import Company
from tests.bench.fakes import FakeSystem

PROCESSOR = max(os.sched_getaffinity(0))
WITHIN_S = 30


def go_on() -> None:
    """Nobody asks for an end."""


def together(*members: Callable[[], object]) -> None:
    """Each in a thread of its own; raises what one of them raises."""
    with ThreadPoolExecutor(len(members)) as threads:
        for running in [threads.submit(member) for member in members]:
            running.result(WITHIN_S)


def test_nobody_goes_on_before_all_have_come_as_far() -> None:
    company = Company(["a", "b"], PROCESSOR)
    came: list[str] = []
    a_waits = threading.Event()

    def a() -> None:
        company.meet("a", "started", a_waits.set)
        came.append("a goes on")

    def b() -> None:
        assert a_waits.wait(WITHIN_S)
        came.append("b comes")
        company.meet("b", "started", go_on)

    together(a, b)
    assert came == ["b comes", "a goes on"]


def test_a_thread_and_what_it_starts_are_bound_to_the_processor_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    with Company(["a"], PROCESSOR).one_processor():
        assert os.sched_getaffinity(0) == {PROCESSOR}
        started: list[set[int]] = []
        thread = threading.Thread(target=lambda: started.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
        assert started == [{PROCESSOR}]
    assert os.sched_getaffinity(0) == before


def test_whoever_leaves_keeps_nobody_waiting_and_leaves_a_doubt() -> None:
    company = Company(["a", "b", "c"], PROCESSOR)

    def whole(name: str) -> None:
        company.meet(name, "started", go_on)
        company.meet(name, "loaded", go_on)
        (doubt,) = company.doubts(name)
        assert (doubt.check, doubt.value) == ("trials.at_once", "b")

    def failing() -> None:
        company.meet("b", "started", go_on)
        company.leave("b")

    together(lambda: whole("a"), failing, lambda: whole("c"))


def test_with_everybody_there_to_the_end_nothing_is_in_doubt() -> None:
    company = Company(["a", "b"], PROCESSOR)

    def whole(name: str) -> None:
        company.meet(name, "loaded", go_on)
        assert company.doubts(name) == []
        company.leave(name)

    together(lambda: whole("a"), lambda: whole("b"))
    assert company.facts("a").trials == ["b"]


def test_a_wait_ends_when_the_user_asks_for_an_end() -> None:
    company = Company(["a", "b"], PROCESSOR)

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        company.meet("a", "ready", stop)


def test_the_systems_of_the_others_are_those_that_run_now() -> None:
    company = Company(["a", "b"], PROCESSOR)
    systems = {name: FakeSystem() for name in "ab"}
    for number, (name, system) in enumerate(systems.items()):
        system.process_ids = [number]
        company.introduce(name, cast(System, system))
    assert (company.other_process_ids("a"), company.other_process_ids("b")) == ((1,), (0,))
    systems["b"].process_ids = [7]
    assert company.other_process_ids("a") == (7,)
