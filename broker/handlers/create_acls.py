"""CreateAcls: v0-v3 (key 30)

Behaviour: each ACL by itself, when it is durable; one that is there already is no error. What cannot be an ACL:
INVALID_REQUEST. Without an authorizer SECURITY_DISABLED for each. It counts on this broker at once, on others as soon
as they are notified.

Versions: v1 brings prefixed names; v0 creates literal ones.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.describe_acls import NO_AUTHORIZER
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings.acl_store import Created
from highwater.kafka.acl import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourceType,
    problem_of,
)
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if node.acls is None:
        return {"results": [error_fields(NO_AUTHORIZER)] * len(request.creations)}
    wanted = [_acl(creation) for creation in request.creations]
    reasons = [problem_of(acl) for acl in paced(wanted)]
    deferred = Deferred()

    def answered(problems: Created) -> Answer:
        rest = iter(problems)
        return {
            "results": [
                error_fields(next(rest) if reason is None else Problem(ErrorCode.invalid_request, reason))
                for reason in paced(reasons)
            ]
        }

    node.acls.create(
        [acl for acl, reason in paced(zip(wanted, reasons, strict=True)) if reason is None],
        deferred.complete_by(answered),
    )
    return deferred.now_or_later()


def _acl(creation: Any) -> Acl:
    pattern = PatternType(getattr(creation, "resource_pattern_type", PatternType.LITERAL))
    return Acl(
        Resource(ResourceType(creation.resource_type), creation.resource_name, pattern),
        Entry(creation.principal, creation.host, Operation(creation.operation), Permission(creation.permission_type)),
    )
