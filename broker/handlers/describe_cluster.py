"""DescribeCluster: v0-v2 (key 60)

Behaviour: returns the cluster's id, its controller and the live brokers, with the addresses of the client's listener.
From v1 a client may request controllers instead of brokers (KIP-919): MISMATCHED_ENDPOINT_TYPE, as Kafka's brokers
answer; UNSUPPORTED_ENDPOINT_TYPE for other types.

Versions: v2 asks for fenced brokers too (KIP-1073). Only controllers of KRaft fence brokers, so none is here.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.metadata import CLUSTER_OPERATIONS, live_brokers
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.protocol.metadata import OPERATIONS_NOT_ASKED

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if context.version >= 1 and request.endpoint_type != _BROKERS:
        is_known = request.endpoint_type == _CONTROLLERS
        return {
            "error_code": ErrorCode.mismatched_endpoint_type if is_known else ErrorCode.unsupported_endpoint_type,
            "error_message": "This cluster has no endpoints but those of brokers.",
            "cluster_id": node.cluster.cluster_id,
        }
    return {
        "cluster_id": node.cluster.cluster_id,
        "controller_id": node.cluster.controller_id,
        "brokers": [
            {"broker_id": broker_id, "host": host, "port": port, "rack": rack}
            for broker_id, host, port, rack in live_brokers(node, context)
        ],
        "cluster_authorized_operations": (
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED
        ),
    }
