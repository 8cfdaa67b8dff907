"""Sends changes of in-sync replicas from the leaders here to the controller (KIP-497).

One request is under way at a time, with all changes that are due; a partition has one change at a time.
(Apache Kafka: DefaultAlterPartitionManager)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from highwater.broker.clock import Scheduler
from highwater.broker.cluster.state import LeaderAndIsr
from highwater.kafka.protocol.apis import ALTER_PARTITION
from highwater.kafka.protocol.cold import Answer

if TYPE_CHECKING:
    from highwater.broker.cluster.controller_channel import ControllerChannel

_logger = logging.getLogger(__name__)

VERSION: Final = 3
RETRY_MS: Final = 50
_NO_EPOCH: Final = -1
"""The broker epoch of a member of the ISR: a controller in ZooKeeper mode ignores it (KIP-903)."""

_Key = tuple[UUID, int]


class InSyncChange(NamedTuple):
    """The ISR that the leader of a partition proposes."""

    topic: str
    topic_id: UUID
    partition: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    partition_epoch: int
    """The epoch of the state that the change replaces."""
    is_recovering: bool = False


Then = Callable[[LeaderAndIsr | ErrorCode], None]


class InSyncChanges:
    def __init__(
        self, channel: ControllerChannel, scheduler: Scheduler, *, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._scheduler = scheduler
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[_Key, tuple[InSyncChange, Then]] = {}
        """Changes without an answer yet."""
        self._has_request_under_way = False
        self._is_closed = False

    def submit(self, change: InSyncChange, then: Then) -> bool:
        """Ask for a change, and call back, after this returns, with the new state of the partition or with an error.
        False, and no callback, while another change of the partition is under way.

        If the answer is lost, the change is sent again. If it was made the first time, the controller refuses it
        (INVALID_UPDATE_VERSION), and LeaderAndIsr brings the state.
        """
        key = change.topic_id, change.partition
        if key in self._waiting:
            return False
        self._waiting[key] = change, then
        if not self._has_request_under_way:
            self._has_request_under_way = True
            # One request for all that the present work submits.
            self._scheduler.call_soon(self._send)
        return True

    def close(self) -> None:
        """Call nobody back from now on."""
        self._is_closed = True

    def _send(self) -> None:
        if self._is_closed:
            return
        self._has_request_under_way = bool(self._waiting)
        if not self._waiting:
            return
        sent = dict(self._waiting)
        self._channel.ask(
            ALTER_PARTITION,
            VERSION,
            lambda: self._request(sent),
            lambda answer: self._answered(sent, answer),
            is_refused=lambda answer: answer.error_code is ErrorCode.not_controller,
        )

    def _request(self, sent: Mapping[_Key, tuple[InSyncChange, Then]]) -> Answer:
        topics: dict[UUID, list[Answer]] = {}
        for change, _ in sent.values():
            topics.setdefault(change.topic_id, []).append(
                {
                    "partition_index": change.partition,
                    "leader_epoch": change.leader_epoch,
                    "new_isr_with_epochs": [
                        {"broker_id": broker_id, "broker_epoch": _NO_EPOCH} for broker_id in change.in_sync_replicas
                    ],
                    "leader_recovery_state": int(change.is_recovering),
                    "partition_epoch": change.partition_epoch,
                }
            )
        return {
            "broker_id": self._broker_id,
            "broker_epoch": self._broker_epoch(),
            "topics": [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()],
        }

    def _answered(self, sent: Mapping[_Key, tuple[InSyncChange, Then]], answer: Any) -> None:
        if self._is_closed:
            return
        if answer.error_code:
            # STALE_BROKER_EPOCH passes when this broker has registered again.
            _logger.warning("the controller refuses changes of in-sync replicas: %s", answer.error_code.name)
            self._scheduler.call_later(RETRY_MS, self._send)
            return
        told = {
            (topic.topic_id, partition.partition_index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        outcomes: list[tuple[Then, LeaderAndIsr | ErrorCode]] = []
        for key, (_, then) in sent.items():
            partition = told.get(key)
            if partition is None:
                continue  # The next request asks again.
            del self._waiting[key]
            outcomes.append((then, partition.error_code or _state(partition)))
        for then, outcome in outcomes:
            then(outcome)
        if len(outcomes) < len(sent):
            _logger.warning("the controller does not answer all changes of in-sync replicas")
            self._scheduler.call_later(RETRY_MS, self._send)
        else:
            self._send()


def _state(partition: Any) -> LeaderAndIsr:
    return LeaderAndIsr(
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.isr),
        -1,  # The answer does not name the controller that wrote the state.
        partition.partition_epoch,
        bool(partition.leader_recovery_state),
    )
