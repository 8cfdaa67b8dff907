"""DeleteAcls: v0-v3 (key 31)

Behaviour: deletes what each filter matches, and returns it; what two filters match is in the answer of the first. A
resource that a filter names is read from where ACLs are stored, also if this broker does not know it yet. Without an
authorizer SECURITY_DISABLED for each; a filter with a code that nobody knows: INVALID_REQUEST.

Versions: v1 brings prefixed names; v0 deletes from literal ones.
"""

from __future__ import annotations

from typing import Any

from highwater.broker.handlers.describe_acls import NO_AUTHORIZER, entry_answer, filter_of
from highwater.broker.handlers.shared.reply import Deferred, Reply, RequestContext
from highwater.broker.node import Node
from highwater.broker.settings.acl_store import Deleted
from highwater.kafka.acl import Acl
from highwater.kafka.pacing import paced
from highwater.kafka.protocol.cold import Answer
from highwater.kafka.protocol.problem import Problem, error_fields


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    if node.acls is None:
        return {"filter_results": [_result(NO_AUTHORIZER)] * len(request.filters)}
    filters = [filter_of(each) for each in request.filters]
    deferred = Deferred()

    def answered(results: Deleted) -> Answer:
        rest = iter(results)
        return {
            "filter_results": [
                _result(wanted if isinstance(wanted, Problem) else next(rest)) for wanted in paced(filters)
            ]
        }

    node.acls.delete(
        [wanted for wanted in paced(filters) if not isinstance(wanted, Problem)], deferred.complete_by(answered)
    )
    return deferred.now_or_later()


def _result(result: list[Acl] | Problem) -> Answer:
    if isinstance(result, Problem):
        return {"matching_acls": ()} | error_fields(result)
    return {
        "matching_acls": [
            {
                "resource_type": int(acl.resource.type),
                "resource_name": acl.resource.name,
                "pattern_type": int(acl.resource.pattern),
                **entry_answer(acl),
            }
            for acl in paced(result)
        ]
    }
