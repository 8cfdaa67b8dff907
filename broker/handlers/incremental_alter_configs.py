"""IncrementalAlterConfigs: v0-v1 (key 44)

Behaviour:
* Topics and brokers, each by itself; operations 0 set, 1 delete, 2 append to a list, 3 subtract from one (KIP-339).
* Loggers of this broker (type 8, KIP-412): operations 0 and 1, until the broker stops.
* A resource named twice in a request fails with INVALID_REQUEST, both times.
* The checks and their error codes are those of broker.dynamic_settings.altering. Nothing changes with validate_only.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.dynamic_settings.altering import AlterConfigOp
from highwater.broker.handlers.alter_configs import alter_resources
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return alter_resources(
        node,
        request,
        lambda resource: [AlterConfigOp(entry.name, entry.config_operation, entry.value) for entry in resource.configs],
        replace_all=False,
    )
