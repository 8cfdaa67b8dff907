"""Log lines about clients that speak no Kafka: one for each address and reason, few in a minute."""

from __future__ import annotations

import logging
import ssl
import time
from typing import Final

from highwater.broker.handlers.reply import Listener
from highwater.broker.protocol.foreign import Foreign, foreign_protocol

_logger = logging.getLogger(__name__)

WINDOW_MS: Final = 60_000
MOST_LINES: Final = 30
"""In a window: a scanner comes with many reasons, and perhaps from many addresses."""

NOT_TLS: Final = {
    "HTTP_REQUEST": "an HTTP request without TLS",
    "HTTPS_PROXY_REQUEST": "an HTTP request without TLS",
    "WRONG_VERSION_NUMBER": "no TLS",
    "UNKNOWN_PROTOCOL": "no TLS",
    "BAD_RECORD_TYPE": "no TLS",
    "PACKET_LENGTH_TOO_LONG": "no TLS",
}
"""OpenSSL's reasons for bytes that are no TLS: which one depends on the bytes, and on its version."""


class Strangers:
    """Of all listeners of a broker."""

    def __init__(self) -> None:
        self._began_ms = -WINDOW_MS
        self._told: set[tuple[str, str]] = set()
        self._left_out = 0

    def tell(self, peer: str, reason: str, now_ms: int) -> None:
        """Log why the connection of `peer` (host:port) is closed, unless the log has that of its host, or is full."""
        host = peer.rpartition(":")[0]
        if now_ms - self._began_ms >= WINDOW_MS:
            self._began_ms = now_ms
            self._told.clear()
        if (host, reason) in self._told or len(self._told) >= MOST_LINES:
            self._left_out += 1
            return
        self._told.add((host, reason))
        left_out, self._left_out = self._left_out, 0
        before = f" ({left_out} such connections before this one are not in the log)" if left_out else ""
        _logger.warning("closing the connection of %s: %s%s", peer, reason, before)

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
