"""SaslAuthenticate: v0-v2 (key 36)

Behaviour:
* Carries the tokens of the mechanism that SaslHandshake named. After the last token the connection has its user.
* An invalid token: SASL_AUTHENTICATION_FAILED with the reason, after connection.failed.authentication.delay.ms, and the
  connection is closed.

Versions:
* v1 returns the lifetime of the session (connections.max.reauth.ms, KIP-368), 0 for unlimited.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from highwater.broker.handlers.shared.reply import Client, Reply, RequestContext, answer_and_hang_up
from highwater.broker.node import Node
from highwater.broker.security.sasl import Outcome


def handle(node: Node, context: RequestContext, request: Any) -> Reply:
    client = context.client
    if client.authentication is None:
        return {
            "error_code": ErrorCode.illegal_sasl_state,
            "error_message": "SaslAuthenticate request received on a listener without SASL",
        }
    outcome = take_token(node, client, request.auth_bytes)
    answer = {
        "error_code": outcome.error_code,
        "error_message": outcome.error_message,
        "auth_bytes": outcome.auth_bytes,
        "session_lifetime": outcome.session_lifetime_ms,
    }
    if not outcome.error_code:
        return answer
    delay_ms = client.authentication.settings.failure_delay_ms
    return answer_and_hang_up(client, answer, outcome.error_message or "", delay_ms, node.scheduler)


def take_token(node: Node, client: Client, token: bytes) -> Outcome:
    """Continue the client's SASL exchange, and set the client's user at its end."""
    assert client.authentication is not None
    outcome = client.authentication.authenticate(bytes(token), node.clock.monotonic_ns() // 1_000_000)
    if outcome.error_code:
        node.counters.authentications_failed += 1
    elif outcome.user is not None:
        node.counters.authentications += 1
        client.authenticated(outcome.user)
    return outcome
