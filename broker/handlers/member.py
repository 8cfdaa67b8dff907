"""Gives handlers of requests between brokers the parts that only a member has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.node import Node

if TYPE_CHECKING:
    from highwater.broker.cluster.parts import ClusterParts


def member_of(node: Node) -> ClusterParts:
    """The parts; the dispatcher serves these requests only where there is a cluster (RuntimeError otherwise)."""
    if node.member is None:
        raise RuntimeError("a broker that runs alone got a request of a cluster")
    return node.member
