"""Producer ids of a broker that runs alone, in blocks that its store counts."""

from __future__ import annotations

import logging

from kio.schema.errors import ErrorCode

from highwater.broker.alone.stepping import Stepping
from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.settings.metadata_tree import ProducerIdBlock
from highwater.broker.slices import Steps
from highwater.broker.topics.partitions import Partitions
from highwater.broker.txn.producer_ids import Block

_logger = logging.getLogger(__name__)


class StoredProducerIds:
    """Implements `ProducerIds`."""

    def __init__(
        self, broker_id: int, partitions: Partitions, store: EmbeddedMetadataStore, stepping: Stepping
    ) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._store = store
        self._stepping = stepping
        self._block = Block(partitions, 0, 0)
        self._next_block: Block | None = None
        self._is_taking = False

    def next(self) -> int | ErrorCode:
        while (producer_id := self._block.next()) is None:
            if self._next_block is not None:
                self._block, self._next_block = self._next_block, None
                continue
            try:
                self._block = self._block_of(self._store.next_producer_id_block(self._broker_id))
            except OSError as error:
                _logger.error("cannot take a block of producer ids: %s", error)
                return ErrorCode.kafka_storage_error
        if self._next_block is None and not self._is_taking and self._block.is_nearly_used_up:
            self._is_taking = True
            self._stepping.run(self._taking())
        return producer_id

    def _taking(self) -> Steps[None]:
        """Take the next block before it is needed, so that nobody waits for the disk."""
        try:
            self._next_block = self._block_of((yield from self._store.taking_producer_id_block(self._broker_id)))
        except OSError as error:
            _logger.error("cannot take a block of producer ids yet: %s", error)
        self._is_taking = False

    def _block_of(self, block: ProducerIdBlock) -> Block:
        return Block(self._partitions, block.first, block.last - block.first + 1)
