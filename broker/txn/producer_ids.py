"""Producer ids that nobody had before: taken from blocks, each of which is this broker's alone.

A broker that runs alone has its blocks from its store. In a cluster they come from the controller (AllocateProducerIds,
KIP-730): the next one is asked for when most of the present one is given out, and who comes while there is none is told
to come again (Apache Kafka, RPCProducerIdManager.java).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from kio.schema.errors import ErrorCode

from highwater.broker.protocol.apis import ALLOCATE_PRODUCER_IDS
from highwater.broker.protocol.cold import Answer

if TYPE_CHECKING:
    from highwater.broker.cluster.controller_channel import ControllerChannel
    from highwater.broker.node import Node

_logger = logging.getLogger(__name__)

_VERSION: Final = 0
_RETRY_BACKOFF_MS: Final = 100
_PREFETCH_BELOW: Final = 0.1
"""The rest of a block at which the next is asked for."""


class ProducerIds(Protocol):
    def next(self) -> int | ErrorCode:
        """One that nobody had, or why none can be had now."""


class _Block:
    """Ids of one block that no log knows: metadata put back from a copy gives ids out twice, and what a log takes for
    the retry of another producer is acknowledged and not written.
    """

    def __init__(self, node: Node, first: int, count: int) -> None:
        block = range(first, first + count)
        known = {
            id_ for partition in node.partitions.live() for id_, _ in partition.log.producer_states if id_ in block
        }
        self._ids = iter([id_ for id_ in block if id_ not in known])
        self._left = count - len(known)
        self._prefetch_at = int(count * _PREFETCH_BELOW)

    @property
    def is_nearly_used_up(self) -> bool:
        return self._left <= self._prefetch_at

    def next(self) -> int | None:
        self._left -= 1
        return next(self._ids, None)


class StoredProducerIds:
    """Those of a broker that runs alone."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._block = _Block(node, 0, 0)

    def next(self) -> int | ErrorCode:
        while (producer_id := self._block.next()) is None:
            try:
                block = self._node.metadata.next_producer_id_block(self._node.broker_id)
            except OSError as error:
                _logger.error("cannot take a block of producer ids: %s", error)
                return ErrorCode.kafka_storage_error
            self._block = _Block(self._node, block.first, block.last - block.first + 1)
        return producer_id


class AllocatedProducerIds:
    """Those of a broker in a cluster."""

    def __init__(self, node: Node, controller: ControllerChannel) -> None:
        self._node = node
        self._controller = controller
        self._block = _Block(node, 0, 0)
        self._next_block: _Block | None = None
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
        return {"broker_id": self._node.broker_id, "broker_epoch": self._node.epochs.broker_epoch}

    def _answered(self, answer: Any | None) -> None:
        self._is_asking = False
        if answer is None:
            _logger.warning("no block of producer ids: the controller does not answer")
        elif answer.error_code:
            # Such as STALE_BROKER_EPOCH while the broker registers anew.
            _logger.warning("no block of producer ids yet: %s", ErrorCode(answer.error_code).name)
            self._node.scheduler.call_later(_RETRY_BACKOFF_MS, self._ask)
        else:
            self._next_block = _Block(self._node, answer.producer_id_start, answer.producer_id_len)
