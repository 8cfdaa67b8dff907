"""Changes of in-sync replica sets, on their way from the leaders here to the controller (AlterPartition, KIP-497).

One request is under way at a time, with all the changes that are due; a partition has one change at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.cluster.controller_channel import ControllerChannel
from broker.cluster.state import LeaderAndIsr
from broker.replica.waiters import Scheduler

VERSION: Final = 3
RETRY_MS: Final = 50


class InSyncChange(NamedTuple):
    """What the leader of a partition wants its state to be."""

    topic: str
    topic_id: UUID
    partition: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    partition_epoch: int
    """The one that this replaces."""
    is_recovering: bool = False


class InSyncChanges:
    def __init__(
        self, channel: ControllerChannel, scheduler: Scheduler, *, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._scheduler = scheduler
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    def submit(self, change: InSyncChange, then: Callable[[LeaderAndIsr | ErrorCode], None]) -> bool:
        """Ask for a change, and call back (never before this returns) with the state that the partition has now, or
        with why it was refused. False, and no call back, while another change of the partition is under way.

        What became of it may never be known: then it is asked again, and refused if it was carried out
        (INVALID_UPDATE_VERSION): LeaderAndIsr tells of the state then.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Nobody is called back any more."""
