"""ListPartitionReassignments: v0-v0 (key 46)

Behaviour: a broker that runs alone moves no partition, so none is listed, of the topics asked for as of all (null).
"""

from __future__ import annotations

from typing import Any

from broker.handlers.reply import Reply, RequestContext
from broker.node import Node


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    return {"topics": ()}
