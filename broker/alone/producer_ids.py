"""Producer ids of a broker that runs alone, in blocks that its store counts."""

from __future__ import annotations

import logging

from kio.schema.errors import ErrorCode

from highwater.broker.alone.store import EmbeddedMetadataStore
from highwater.broker.topics.partitions import Partitions
from highwater.broker.txn.producer_ids import Block

_logger = logging.getLogger(__name__)


class StoredProducerIds:
    """Implements `ProducerIds`."""

    def __init__(self, broker_id: int, partitions: Partitions, store: EmbeddedMetadataStore) -> None:
        self._broker_id = broker_id
        self._partitions = partitions
        self._store = store
        self._block = Block(partitions, 0, 0)

    def next(self) -> int | ErrorCode:
        while (producer_id := self._block.next()) is None:
            try:
                block = self._store.next_producer_id_block(self._broker_id)
            except OSError as error:
                _logger.error("cannot take a block of producer ids: %s", error)
                return ErrorCode.kafka_storage_error
            self._block = Block(self._partitions, block.first, block.last - block.first + 1)
        return producer_id
