"""Log lines about brokers that refuse this one, or that it refuses: each reason once in a minute.

A broker tries again ten times a second, and from several connections.
"""

from __future__ import annotations

import logging
import ssl
from typing import Final

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.server.strangers import NOT_TLS
from highwater.kafka.client.security import reason_of

_logger = logging.getLogger(__name__)

AGAIN_AFTER_MS: Final = 60_000

# OpenSSL's numbers (X509_V_ERR_ in x509_vfy.h).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_NAME: Final = (62, 64)
"""Codes of a certificate for another host name, or another address."""


class PeerRefusals:
    """Reports the refusals of all connections of a broker to others."""

    def __init__(self) -> None:
        self._told_ms: dict[tuple[str, int, str], int] = {}

    def login_failed(self, name: str, endpoint: Endpoint, reason: str, words: tuple[str, str], now_ms: int) -> None:
        """`words`: as whom this broker came, and what there is to check."""
        who, settings = words
        self._tell(
            endpoint, f"cannot log in to {_at(name, endpoint)} {who}: {_one_line(reason)}. Check {settings}", now_ms
        )

    def tls_failed(self, name: str, endpoint: Endpoint, error: OSError, now_ms: int) -> None:
        reason = _one_line(reason_of(error) or type(error).__name__)
        self._tell(endpoint, f"no TLS with {_at(name, endpoint)}: {reason}. {_way_out(endpoint, error)}", now_ms)

    def closes_early(self, name: str, endpoint: Endpoint, now_ms: int) -> None:
        """A TLS 1.3 client is connected before the other end has checked its certificate. asyncio and uvloop then
        close the connection without the alert that would say why.
        """
        text = f"{_at(name, endpoint)} closes connections with TLS before its first answer"
        self._tell(endpoint, f"{text}. {_refused_certificate(endpoint.listener_name)}", now_ms)

    def _tell(self, endpoint: Endpoint, text: str, now_ms: int) -> None:
        self._told_ms = {key: told_ms for key, told_ms in self._told_ms.items() if now_ms - told_ms < AGAIN_AFTER_MS}
        key = endpoint.host, endpoint.port, text
        if key not in self._told_ms:
            self._told_ms[key] = now_ms
            _logger.warning("%s", text)


def _at(name: str, endpoint: Endpoint) -> str:
    return f"{name} at {endpoint.host}:{endpoint.port} (listener {endpoint.listener_name})"


def _one_line(text: str) -> str:
    """It may come from the other end."""
    return " ".join(text.split()).rstrip(".")


def _refused_certificate(listener: str) -> str:
    return (
        "If that broker refuses the certificate of this one: ssl.truststore.location of "
        f"listener {listener} needs, at that broker, the authority that signed ssl.keystore.location of this one"
    )


def _way_out(endpoint: Endpoint, error: OSError) -> str:
    listener = endpoint.listener_name
    trusted = f"ssl.truststore.location of listener {listener}"
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OTHER_NAME:
            return (
                f"That broker has a certificate for other names: give it one for {endpoint.host}, or a name of its "
                "certificate in advertised.listeners"
            )
        if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
            return f"Renew the certificate of that broker, or set the clocks right (it is {listener}'s key store)"
        return f"At this broker, {trusted} needs the authority that signed the certificate of that broker"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if reason in NOT_TLS:
        return (
            f"That port has no TLS: set the same protocol for listener {listener} at all brokers "
            "(listener.security.protocol.map, security.inter.broker.protocol)"
        )
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return _refused_certificate(listener)
    if "ALERT" in reason:
        return f"Compare ssl.enabled.protocols and ssl.cipher.suites of listener {listener} at both brokers"
    return f"The log of that broker may say why; listener {listener} needs the same protocol at all brokers"
