"""Log lines about clients that speak no Kafka: one for each address and reason, few in a minute."""

from __future__ import annotations

import logging
import ssl
import time
from typing import Final

from highwater.broker.handlers.shared.reply import Listener
from highwater.common.listener_rules import RefusalLog
from highwater.kafka.protocol.foreign import Foreign, foreign_protocol

_logger = logging.getLogger(__name__)

NOT_TLS: Final = {
    "HTTP_REQUEST": "an HTTP request without TLS",
    "HTTPS_PROXY_REQUEST": "an HTTP request without TLS",
    "WRONG_VERSION_NUMBER": "no TLS",
    "UNKNOWN_PROTOCOL": "no TLS",
    "BAD_RECORD_TYPE": "no TLS",
    "PACKET_LENGTH_TOO_LONG": "no TLS",
}
"""OpenSSL's reasons for bytes that are no TLS: which one depends on the bytes, and on its version."""


class Strangers(RefusalLog):
    """Reports the failed handshakes at all listeners of a broker."""

    def __init__(self) -> None:
        super().__init__(_logger)

    def handshake_failed(self, listener: Listener, has_sasl: bool, peer: str, error: Exception) -> None:
        reason = handshake_failure(error, listener, has_sasl=has_sasl)
        self.tell(peer, reason, time.monotonic_ns() // 1_000_000)


def not_kafka(head: bytes, listener: Listener, *, has_sasl: bool) -> str | None:
    """Why a connection without TLS that begins with `head` is closed; None for bytes of no other protocol known."""
    protocol = "SASL_PLAINTEXT" if has_sasl else "PLAINTEXT"
    match foreign_protocol(head):
        case Foreign.TLS:
            return (
                f"it sent a TLS handshake, and listener {listener.name} has no TLS; set security.protocol={protocol} "
                "for this client, or have it use a listener with TLS"
            )
        case Foreign.HTTP:
            return (
                f"it sent an HTTP request, and listener {listener.name} is for Kafka's protocol; metrics are at the "
                "address of metrics.listener"
            )
    return None


def handshake_failure(error: Exception, listener: Listener, *, has_sasl: bool) -> str:
    """Why a TLS handshake failed."""
    sent = NOT_TLS.get(error.reason or "") if isinstance(error, ssl.SSLError) else None
    if sent is None:
        return f"its TLS handshake failed: {str(error) or type(error).__name__}"
    protocol = "SASL_SSL" if has_sasl else "SSL"
    return (
        f"it sent {sent}, and listener {listener.name} has TLS; set security.protocol={protocol} for this client, or "
        "have it use a listener without TLS"
    )
