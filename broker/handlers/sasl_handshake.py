"""SaslHandshake: v0-v1 (key 17)

Behaviour:
* Names the mechanism by which the client will authenticate; the answer lists the mechanisms of its listener.
* A mechanism that is not enabled: UNSUPPORTED_SASL_MECHANISM, and the connection is closed.
* On a listener without SASL: ILLEGAL_SASL_STATE.
* On an authenticated connection: the client authenticates again, by the same mechanism (KIP-368).

Versions:
* After v0 the tokens follow as bare frames, after v1 in SaslAuthenticate (KIP-152).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Reply, RequestContext, answer_and_hang_up
from highwater.broker.node import Node

_SHOWN: Final = 40
"""Characters of a name that a stranger may send in 32 KiB."""


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    client = context.client
    if client.authentication is None:
        return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []}
    error = client.authentication.handshake(request.mechanism, context.version)
    settings = client.authentication.settings
    answer = {"error_code": error, "mechanisms": list(settings.mechanisms)}
    if not error:
        return answer
    node.counters.authentications_failed += 1
    reason = f"SASL mechanism {request.mechanism[:_SHOWN]!r} is not enabled on listener {client.listener.name}"
    return answer_and_hang_up(client, answer, reason, settings.failure_delay_ms, node.scheduler)
