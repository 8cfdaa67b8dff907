"""Gives the handlers of requests between brokers the parts of a cluster member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.node import Node

if TYPE_CHECKING:
    from highwater.broker.member.parts import ClusterParts


def member_of(node: Node) -> ClusterParts:
    """Return the cluster parts. Raises RuntimeError in a broker that runs alone, which never serves these requests."""
    if node.member is None:
        raise RuntimeError("a broker that runs alone got a request of a cluster")
    return node.member
