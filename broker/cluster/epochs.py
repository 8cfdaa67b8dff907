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
        """Of this broker's registration."""
        self.controller_epoch = 0
        """The greatest that was ever obeyed."""

    def session_began(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch

    def session_ended(self) -> None:
        """The epoch stays: who led goes on leading until somebody else is told to."""

    def watch_fired(self, path: str, event: WatchEvent) -> None:
        """It has no watches."""

    def obey(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Whether to carry out a request of a controller, who takes `broker_epoch` for ours (-1: it does not say).

        The controller of an accepted request is the oldest that is obeyed from then on.
        """
        # A later epoch than we know is ours too: the controller saw our registration before its answer came here.
        if broker_epoch != UNKNOWN_EPOCH and broker_epoch < self.broker_epoch:
            return ErrorCode.stale_broker_epoch
        if controller_epoch < self.controller_epoch:
            return ErrorCode.stale_controller_epoch
        self.controller_epoch = controller_epoch
        return ErrorCode.none
