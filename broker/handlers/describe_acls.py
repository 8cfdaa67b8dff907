"""DescribeAcls: v0-v3 (key 29)

Behaviour: every broker answers from what it knows, one entry for each resource. Without an authorizer:
SECURITY_DISABLED. A filter with a code that nobody knows, or an ACL type that is none: INVALID_REQUEST.

Versions: v1 brings prefixed names; v0 asks for literal ones.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.acl import (
    Acl,
    AclFilter,
    EntryFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceFilter,
    ResourceType,
)
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields

NO_AUTHORIZER: Final = Problem(ErrorCode.security_disabled, "No Authorizer is configured on the broker.")
_UNKNOWN: Final = Problem(ErrorCode.invalid_request, "The filter has an element of a kind that is not known.")


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if node.acls is None:
        return _refused(NO_AUTHORIZER)
    wanted = filter_of(request)
    if isinstance(wanted, Problem):
        return _refused(wanted)
    found: dict[Resource, list[Acl]] = {}
    for acl in node.acls.authorizer.acls(wanted):
        found.setdefault(acl.resource, []).append(acl)
    return {
        "resources": [
            {
                "resource_type": int(resource.type),
                "resource_name": resource.name,
                "pattern_type": int(resource.pattern),
                "acls": [entry_answer(acl) for acl in sorted(acls)],
            }
            for resource, acls in sorted(found.items())
        ]
    }


def _refused(problem: Problem) -> Answer:
    return {"resources": ()} | error_fields(problem)


def filter_of(request: Any) -> AclFilter | Problem:
    """The filter of DescribeAcls, or one of DeleteAcls."""
    pattern = PatternType(getattr(request, "pattern_type_filter", PatternType.LITERAL))
    wanted = AclFilter(
        ResourceFilter(ResourceType(request.resource_type_filter), request.resource_name_filter, pattern),
        EntryFilter(
            request.principal_filter,
            request.host_filter,
            Operation(request.operation),
            Permission(request.permission_type),
        ),
    )
    kinds = (wanted.resource.type, pattern, wanted.entry.operation, wanted.entry.permission)
    return _UNKNOWN if any(kind == 0 for kind in kinds) else wanted


def entry_answer(acl: Acl) -> Answer:
    return {
        "principal": acl.entry.principal,
        "host": acl.entry.host,
        "operation": int(acl.entry.operation),
        "permission_type": int(acl.entry.permission),
    }
