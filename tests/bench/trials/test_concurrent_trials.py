from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from highwater.bench.systems import System
from highwater.bench.trials.concurrent_trials import ConcurrentTrials
from highwater.common.errors import StoppedError
from tests.bench.fakes import FakeSystem

PROCESSOR = max(os.sched_getaffinity(0))
WITHIN_S = 30


def go_on() -> None:
    """The user does not stop the run."""


def together(*members: Callable[[], object]) -> None:
    """Run each in a thread of its own. Raises what one of them raises."""
    with ThreadPoolExecutor(len(members)) as threads:
        for running in [threads.submit(member) for member in members]:
            running.result(WITHIN_S)


def test_each_waits_until_all_have_reached_the_stage() -> None:
    concurrent = ConcurrentTrials(["a", "b"], PROCESSOR)
    came: list[str] = []
    a_waits = threading.Event()

    def a() -> None:
        concurrent.arrive_and_wait("a", "started", a_waits.set)
        came.append("a goes on")

    def b() -> None:
        assert a_waits.wait(WITHIN_S)
        came.append("b comes")
        concurrent.arrive_and_wait("b", "started", go_on)

    together(a, b)
    assert came == ["b comes", "a goes on"]


def test_a_thread_and_its_children_are_bound_to_the_processor_within_the_block() -> None:
    before = os.sched_getaffinity(0)
    with ConcurrentTrials(["a"], PROCESSOR).one_processor():
        assert os.sched_getaffinity(0) == {PROCESSOR}
        started: list[set[int]] = []
        thread = threading.Thread(target=lambda: started.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
        assert started == [{PROCESSOR}]
    assert os.sched_getaffinity(0) == before


def test_a_trial_that_leaves_does_not_block_the_others_and_puts_them_in_doubt() -> None:
    concurrent = ConcurrentTrials(["a", "b", "c"], PROCESSOR)

    def whole(name: str) -> None:
        concurrent.arrive_and_wait(name, "started", go_on)
        concurrent.arrive_and_wait(name, "loaded", go_on)
        (doubt,) = concurrent.doubts(name)
        assert (doubt.check, doubt.value) == ("trials.at_once", "b")

    def failing() -> None:
        concurrent.arrive_and_wait("b", "started", go_on)
        concurrent.leave("b")

    together(lambda: whole("a"), failing, lambda: whole("c"))


def test_no_doubt_when_all_trials_run_to_the_end() -> None:
    concurrent = ConcurrentTrials(["a", "b"], PROCESSOR)

    def whole(name: str) -> None:
        concurrent.arrive_and_wait(name, "loaded", go_on)
        assert concurrent.doubts(name) == []
        concurrent.leave(name)

    together(lambda: whole("a"), lambda: whole("b"))
    assert concurrent.facts("a").trials == ["b"]


def test_a_wait_ends_when_the_user_stops_the_run() -> None:
    concurrent = ConcurrentTrials(["a", "b"], PROCESSOR)

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        concurrent.arrive_and_wait("a", "ready", stop)


def test_process_ids_of_the_other_systems_are_current() -> None:
    concurrent = ConcurrentTrials(["a", "b"], PROCESSOR)
    systems = {name: FakeSystem() for name in "ab"}
    for number, (name, system) in enumerate(systems.items()):
        system.process_ids = [number]
        concurrent.add_system(name, cast(System, system))
    assert (concurrent.other_process_ids("a"), concurrent.other_process_ids("b")) == ((1,), (0,))
    systems["b"].process_ids = [7]
    assert concurrent.other_process_ids("a") == (7,)
