"""What brokers ask of the controller, through the handlers: every version, answered when the controller is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.broker.settings.metadata_tree import ProducerIdBlock
from highwater.kafka.protocol.apis import CLUSTER_APIS, CONTROLLED_SHUTDOWN
from tests.broker.handlers.harness import MemberHarness


class PlayedController:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.outcome: Any = None

    def alter_partitions(self, request: Any, version: int, then: Callable[[Any], None]) -> None:
        self.asked.append((request.broker_id, request.broker_epoch, version))
        then(self.outcome)

    def shut_down(self, broker_id: int, broker_epoch: int, then: Callable[[Any], None]) -> None:
        self.asked.append((broker_id, broker_epoch))
        then(self.outcome)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int, then: Callable[[Any], None]) -> None:
        self.asked.append((broker_id, broker_epoch))
        then(self.outcome)


@pytest.fixture
def harness(tmp_path: Path) -> MemberHarness:
    return MemberHarness(tmp_path)


@pytest.fixture
def controller(harness: MemberHarness) -> PlayedController:
    played = PlayedController()
    harness.replace_member(controller=played)
    return played


@pytest.mark.parametrize("version", range(4))
def test_alter_partition(harness: MemberHarness, controller: PlayedController, version: int) -> None:
    controller.outcome = {"error_code": ErrorCode.stale_broker_epoch}
    answer = harness.ask("alter_partition", version, broker_id=2, broker_epoch=9, topics=[])
    assert answer.error_code is ErrorCode.stale_broker_epoch
    assert controller.asked == [(2, 9, version)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_controlled_shutdown(harness: MemberHarness, controller: PlayedController, version: int) -> None:
    assert [v for v in range(4) if CLUSTER_APIS[CONTROLLED_SHUTDOWN].serves(v)] == [1, 2, 3]
    controller.outcome = (ErrorCode.none, [("t", 4), ("u", 0)])
    epoch = {"broker_epoch": 9} if version >= 2 else {}
    answer = harness.ask("controlled_shutdown", version, broker_id=2, **epoch)
    assert answer.error_code is ErrorCode.none
    remaining = [(partition.topic_name, partition.partition_index) for partition in answer.remaining_partitions]
    assert remaining == [("t", 4), ("u", 0)]
    assert controller.asked == [(2, 9 if version >= 2 else -1)]


def test_allocate_producer_ids(harness: MemberHarness, controller: PlayedController) -> None:
    controller.outcome = ProducerIdBlock(2, 3000, 3999)
    answer = harness.ask("allocate_producer_ids", 0, broker_id=2, broker_epoch=9)
    assert (answer.error_code, answer.producer_id_start, answer.producer_id_len) == (ErrorCode.none, 3000, 1000)
    controller.outcome = ErrorCode.not_controller
    answer = harness.ask("allocate_producer_ids", 0, broker_id=2, broker_epoch=9)
    assert answer.error_code is ErrorCode.not_controller


def test_a_broker_that_knows_of_no_controller_is_none(harness: MemberHarness) -> None:
    alter = harness.ask("alter_partition", 3, broker_id=2, broker_epoch=9, topics=[])
    shutdown = harness.ask("controlled_shutdown", 3, broker_id=2, broker_epoch=9)
    ids = harness.ask("allocate_producer_ids", 0, broker_id=2, broker_epoch=9)
    assert [answer.error_code for answer in (alter, shutdown, ids)] == [
        ErrorCode.not_controller,
        ErrorCode.stale_controller_epoch,
        ErrorCode.not_controller,
    ]
