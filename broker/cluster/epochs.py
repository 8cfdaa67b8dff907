"""Rejects requests of a deposed controller, and requests for an earlier start of this broker.

Kafka checks the same epochs in ReplicaManager.controllerEpoch and KafkaApis.isBrokerEpochStale.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.zookeeper import WatchEvent

UNKNOWN_EPOCH: Final = -1


class Epochs:
    """Implements `SessionPart`. LeaderAndIsr, StopReplica and UpdateMetadata share it."""

    __slots__ = ("broker_epoch", "controller_epoch")

    def __init__(self) -> None:
        self.broker_epoch = UNKNOWN_EPOCH
        """The epoch of this broker's registration."""
        self.controller_epoch = 0
        """The highest accepted controller epoch."""

    def session_began(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch

    def session_ended(self) -> None:
        """Keep the epoch: leaders go on leading until the controller elects others."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        """Ignore the event: this part has no watches."""

    def obey(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Check a controller's request, which has `broker_epoch` for this broker (-1: none). Returns an error or NONE.

        After an accepted request, requests of earlier controllers are refused.
        """
        # A higher epoch is valid too: the controller saw the registration before this broker got ZooKeeper's answer.
        if broker_epoch != UNKNOWN_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.stale_broker_epoch
        if controller_epoch < self.controller_epoch:
            return ErrorCode.stale_controller_epoch
        self.controller_epoch = controller_epoch
        return ErrorCode.none
