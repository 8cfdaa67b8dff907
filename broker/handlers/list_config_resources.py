"""ListConfigResources: v0-v1 (key 74)

Behaviour: the names of what may have settings (KIP-1142): all topics, brokers and their loggers, the subscriptions to
metrics of clients, and groups that have some of their own. UNSUPPORTED_VERSION for a type of resources that Kafka 4.4
does not list.

Versions: v0 requests the subscriptions to metrics of clients alone (ListClientMetricsResources). v1 names the types;
without one, all are requested.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.dynamic_settings.altering import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings.metadata_tree import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from highwater.kafka.pacing import paced

_LISTED: Final = frozenset((TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP))


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    subscriptions = sorted(node.store.own_configs(CLIENT_METRICS_CONFIGS))
    if context.version == 0:
        return {"config_resources": [{"resource_name": name} for name in subscriptions]}
    types = set(request.resource_types) or _LISTED
    if not types <= _LISTED:
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    brokers = [str(broker.broker_id) for broker in node.cluster.brokers()]
    topics = sorted(view.name for view in paced(node.cluster.topics()))
    names = {TOPIC: topics, BROKER: brokers, BROKER_LOGGER: brokers, CLIENT_METRICS: subscriptions}
    names[GROUP] = sorted(node.store.own_configs(GROUP_CONFIGS))
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": kind} for kind in sorted(types) for name in paced(names[kind])
        ]
    }
