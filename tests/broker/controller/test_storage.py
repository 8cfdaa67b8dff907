"""Writes of the controller: together where they can be, each with its own outcome, none of one of the past."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.broker.cluster.zookeeper import Create, Created, Delete, Multi, Request, Set, Stat, ZooKeeperError
from highwater.broker.controller.context import ControllerContext
from highwater.broker.controller.storage import ControllerMoved, SessionOver, write
from highwater.broker.settings import metadata_tree
from tests.broker.handlers.harness import ManualScheduler
from tests.broker.simulation.zookeeper import Ensemble


class Writer:
    def __init__(self) -> None:
        self.ensemble = Ensemble(ManualScheduler())
        self.ensemble.make("/a")
        self.ensemble.make(metadata_tree.CONTROLLER_EPOCH, b"1")
        self.context = ControllerContext()
        self.context.epoch_version = 0
        self.rounds: list[int] = []
        """How many transactions each had."""

    def write(self, *requests: Create | Set | Delete) -> list[Any]:
        steps = write(self.context, requests)
        answers: list[Any] | None = None
        while True:
            try:
                asked = steps.send(answers)  # type: ignore[arg-type]
            except StopIteration as end:
                return list(end.value)
            assert all(isinstance(request, Multi) for request in asked)
            self.rounds.append(len(asked))
            answers = [self.ensemble.do(request) for request in asked]


def kind(result: Any) -> Any:
    return result if result is None or isinstance(result, ZooKeeperError) else type(result)


def test_many_writes_go_together_in_their_order() -> None:
    writer = Writer()
    requests: list[Create | Set | Delete] = [Create("/a/b")]
    requests += [Create(f"/a/b/{number}") for number in range(250)]
    assert set(map(kind, writer.write(*requests))) == {Created}
    assert writer.rounds == [3]
    assert len(writer.ensemble.children("/a/b")) == 250


def test_large_values_go_in_transactions_that_zookeeper_takes() -> None:
    writer = Writer()
    writer.write(*(Create(f"/a/{number}", b"x" * 100_000) for number in range(10)))
    assert writer.rounds == [5]


def test_one_that_fails_takes_no_other_with_it() -> None:
    writer = Writer()
    writer.ensemble.make("/a/there")
    results = writer.write(
        Create("/a/new"), Create("/a/there"), Set("/a/there", b"1", 7), Set("/a/there", b"2", 0), Delete("/a/nowhere")
    )
    assert list(map(kind, results)) == [
        Created,
        ZooKeeperError.NODE_EXISTS,
        ZooKeeperError.BAD_VERSION,
        Stat,
        ZooKeeperError.NO_NODE,
    ]
    assert writer.rounds == [1, 5]


def test_nothing_is_written_by_a_controller_of_the_past() -> None:
    writer = Writer()
    writer.ensemble.make(metadata_tree.CONTROLLER_EPOCH, b"2")
    with pytest.raises(ControllerMoved):
        writer.write(Create("/a/1"), Create("/a/2"))
    assert writer.ensemble.children("/a") == []


def test_nor_by_one_that_is_superseded_between_the_rounds() -> None:
    writer = Writer()
    steps = write(writer.context, [Create("/a/1"), Create("/a")])
    answers = [writer.ensemble.do(request) for request in next(steps)]
    writer.ensemble.make(metadata_tree.CONTROLLER_EPOCH, b"2")
    again: list[Request] = list(steps.send(answers))
    with pytest.raises(ControllerMoved):
        steps.send([writer.ensemble.do(request) for request in again])
    assert writer.ensemble.children("/a") == []


def test_nor_without_a_session() -> None:
    steps = write(Writer().context, [Create("/a/1")])
    next(steps)
    with pytest.raises(SessionOver):
        steps.send([ZooKeeperError.SESSION_EXPIRED])
