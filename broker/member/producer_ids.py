"""Producer ids of a member of a cluster, in blocks from the controller (KIP-730).

The next block is requested when most of the current one is used. A request without an available block must be
retried (Apache Kafka, RPCProducerIdManager.java).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.controller_channel import ControllerChannel
from highwater.broker.runtime import Runtime
from highwater.broker.topics.partitions import Partitions
from highwater.broker.txn.producer_ids import Block
from highwater.kafka.protocol.apis import ALLOCATE_PRODUCER_IDS
from highwater.kafka.protocol.cold import Answer

_logger = logging.getLogger(__name__)

_VERSION: Final = 0
_RETRY_BACKOFF_MS: Final = 100


class AllocatedProducerIds:
    """Implements `ProducerIds`."""

    def __init__(
        self, runtime: Runtime, partitions: Partitions, controller: ControllerChannel, broker_epoch: Callable[[], int]
    ) -> None:
        self._runtime = runtime
        self._partitions = partitions
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._block = Block(partitions, 0, 0)
        self._next_block: Block | None = None
        self._is_asking = False

    def next(self) -> int | ErrorCode:
        producer_id = self._block.next()
        if producer_id is None and self._next_block is not None:
            self._block, self._next_block = self._next_block, None
            producer_id = self._block.next()
        if self._next_block is None and self._block.is_nearly_used_up:
            self._ask()
        return ErrorCode.coordinator_load_in_progress if producer_id is None else producer_id

    def _ask(self) -> None:
        if self._is_asking:
            return
        self._is_asking = True
        self._controller.ask(
            ALLOCATE_PRODUCER_IDS,
            _VERSION,
            self._request,
            self._answered,
            is_refused=lambda answer: answer.error_code == ErrorCode.not_controller,
        )

    def _request(self) -> Answer:
        return {"broker_id": self._runtime.broker_id, "broker_epoch": self._broker_epoch()}

    def _answered(self, answer: Any | None) -> None:
        self._is_asking = False
        if answer is None:
            _logger.warning("no block of producer ids: the controller does not answer")
        elif answer.error_code:
            # For example STALE_BROKER_EPOCH while the broker registers again.
            _logger.warning("no block of producer ids yet: %s", ErrorCode(answer.error_code).name)
            self._runtime.scheduler.call_later(_RETRY_BACKOFF_MS, self._ask)
        else:
            self._next_block = Block(self._partitions, answer.producer_id_start, answer.producer_id_len)
