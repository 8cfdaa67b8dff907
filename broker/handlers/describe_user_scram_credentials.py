"""DescribeUserScramCredentials: v0-v0 (key 50)

Behaviour (KIP-554):
* Returns the mechanisms and iteration counts of the named users, or of all; never keys or salts.
* RESOURCE_NOT_FOUND for a user without credentials, DUPLICATE_RESOURCE for a user who is named twice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext
from highwater.broker.node import Node
from highwater.kafka.pacing import paced


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    known = node.store.scram_credentials()
    named = Counter(user.name for user in request.users or ())
    results = []
    for user in paced(named or dict.fromkeys(sorted(known), 1)):
        if named[user] > 1:
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            results.append({"user": user, "error_code": ErrorCode.duplicate_resource, "error_message": message})
        elif user not in known:
            message = f"Attempt to describe a user credential that does not exist: {user}"
            results.append({"user": user, "error_code": ErrorCode.resource_not_found, "error_message": message})
        else:
            infos = [
                {"mechanism": int(mechanism), "iterations": credential.iterations}
                for mechanism, credential in sorted(known[user].items())
            ]
            results.append({"user": user, "credential_infos": infos})
    return {"results": results}
