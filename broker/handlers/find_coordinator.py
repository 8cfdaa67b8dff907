"""FindCoordinator: v0-v6 (key 10)

Behaviour:
* The coordinator of a group or a transactional id is the leader of its partition of `__consumer_offsets` or
  `__transaction_state`, with the address of the client's listener; COORDINATOR_NOT_AVAILABLE without a leader.
* The first request creates the topic. A broker that runs alone answers when the topic exists; in a cluster, as in
  Kafka, the answer is COORDINATOR_NOT_AVAILABLE meanwhile, and when the topic cannot be created.
* Other key types: INVALID_REQUEST, also for share groups, which there are none of here.

librdkafka sends lz4 batches only to a broker that has this API.

Versions: v1 brings kinds of keys; v4 several keys in one request (KIP-699); v5 is v4 from a client that knows
TRANSACTION_ABORTABLE (KIP-890); v6 brings the key type of share groups (KIP-932). Kafka 3.9 serves v6 too: a client
whose user names that release sends it unasked.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.cluster.state import NO_LEADER
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.topics.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from highwater.kafka.protocol.cold import Answer

_GROUP: Final = 0
_TOPICS: Final = {_GROUP: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
"""The internal topics of the coordinators, by key type."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    key_type = getattr(request, "key_type", _GROUP)
    if context.version >= 4:
        return {
            "coordinators": [{"key": key} | _find(node, context, key_type, key) for key in request.coordinator_keys]
        }
    return _find(node, context, key_type, request.key)


def _find(node: Node, context: RequestContext, key_type: int, key: str) -> Answer:
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _nowhere(ErrorCode.invalid_request, f"There are no coordinators of kind {key_type}.")
    coordinator = node.groups if key_type == _GROUP else node.transactions
    index = coordinator.partition_of(key)
    if index is None:
        problems = node.auto_creation.create([topic])
        if topic in problems:
            reason = f"The topic {topic} is not there: {problems[topic].name}."
            return _nowhere(ErrorCode.coordinator_not_available, reason)
        index = coordinator.partition_of(key)
    view = None if index is None else node.cluster.partition(topic, index)
    leader = NO_LEADER if view is None else view.leader
    listener = context.client.listener
    if leader == node.broker_id:
        return _at(leader, listener.host, listener.port)
    broker = node.cluster.broker(leader)
    endpoint = None if broker is None else broker.endpoint(listener.name)
    if endpoint is None:
        return _nowhere(ErrorCode.coordinator_not_available, "The coordinator is not available.")
    return _at(leader, endpoint.host, endpoint.port)


def _at(broker_id: int, host: str, port: int) -> Answer:
    return {"error_code": ErrorCode.none, "error_message": None, "node_id": broker_id, "host": host, "port": port}


def _nowhere(error_code: ErrorCode, message: str) -> Answer:
    return {"error_code": error_code, "error_message": message, "node_id": -1, "host": "", "port": -1}
