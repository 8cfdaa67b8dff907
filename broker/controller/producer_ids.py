"""Blocks of producer ids for brokers (AllocateProducerIds, KIP-730; Kafka's ZkProducerIdManager)."""

from __future__ import annotations

import logging

from kio.schema.errors import ErrorCode

from highwater.broker.cluster import znodes
from highwater.broker.cluster.zookeeper import Get, NodeData, Set, Stat, ZooKeeperError
from highwater.broker.controller.context import ControllerContext
from highwater.broker.controller.storage import Rounds, ask
from highwater.broker.settings import metadata_tree
from highwater.broker.settings.metadata_tree import PRODUCER_ID_BLOCK, PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock

_logger = logging.getLogger(__name__)


def allocate_producer_ids(
    context: ControllerContext, broker_id: int, broker_epoch: int
) -> Rounds[ProducerIdBlock | ErrorCode]:
    """A block that nobody had before: the node is replaced on condition that it is as it was read."""
    broker = context.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.broker_id_not_registered
    if broker.epoch != broker_epoch:
        return ErrorCode.stale_broker_epoch
    while True:
        (node,) = yield from ask([Get(PRODUCER_ID_BLOCK)])
        if not isinstance(node, NodeData):
            _logger.error("cannot read %s: %s", PRODUCER_ID_BLOCK, node.value)
            return ErrorCode.unknown_server_error
        try:
            first = znodes.read(node.data, metadata_tree.parse_producer_id_block).last + 1 if node.data else 0
        except ValueError as error:
            _logger.error("cannot parse %s: %s", PRODUCER_ID_BLOCK, error)
            return ErrorCode.unknown_server_error
        block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
        value = znodes.encode(metadata_tree.producer_id_block_value(block))
        (result,) = yield from ask([Set(PRODUCER_ID_BLOCK, value, node.stat.version)])
        if isinstance(result, Stat):
            return block
        if result is not ZooKeeperError.BAD_VERSION:
            _logger.error("cannot write %s: %s", PRODUCER_ID_BLOCK, result.value)
            return ErrorCode.unknown_server_error
