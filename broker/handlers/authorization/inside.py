"""Guards of requests between brokers without an authorizer: only by the listener of the brokers."""

from __future__ import annotations

from typing import Any, Final

from highwater.broker.handlers.authorization.access import Access, Handle
from highwater.broker.handlers.authorization.table import GUARDS
from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.security.authorizer import Authorizer, Permissions
from highwater.kafka.acl import CLUSTER_NAME, EVERYBODY, Entry, Operation, Permission, Resource, ResourceType

INSIDE: Final = frozenset(
    (
        "leader_and_isr",
        "stop_replica",
        "update_metadata",
        "controlled_shutdown",
        "alter_partition",
        "allocate_producer_ids",
        "write_txn_markers",
        "add_partitions_to_txn",
    )
)
"""Beside Fetch of a follower, which its handler looks at."""
_FOR_BROKERS_SINCE: Final = {"add_partitions_to_txn": 4}
"""Older versions are for clients."""


def _outsiders() -> Permissions:
    """Who may do everything but what only brokers do, and operators in their place."""
    authorizer = Authorizer(allow_everyone_if_no_acl_found=True)
    denied = [Entry(EVERYBODY, "*", each, Permission.DENY) for each in (Operation.CLUSTER_ACTION, Operation.ALTER)]
    authorizer.set_entries(Resource(ResourceType.CLUSTER, CLUSTER_NAME), denied)
    return Permissions(authorizer, EVERYBODY, "")


_OUTSIDERS: Final = _outsiders()


def access_from_outside(node: Node, context: RequestContext, request: str) -> Access | None:
    """None on a listener on which brokers are served."""
    if node.inside_listener in (None, context.client.listener.name):
        return None
    return Access(node, context, _OUTSIDERS, request)


def guarded(name: str, node: Node, context: RequestContext, request_name: str, request: Any, handle: Handle) -> Reply:
    """Refuse on a listener for clients what GUARDS refuses to a client without CLUSTER_ACTION."""
    access = access_from_outside(node, context, request_name)
    if access is None or context.version < _FOR_BROKERS_SINCE.get(name, 0):
        return handle(request)
    guard = GUARDS[name]
    assert guard is not None, "the table refuses these"
    return guard(access, request, handle)
