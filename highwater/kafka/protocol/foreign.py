"""Recognises a protocol that is not Kafka's from the first bytes of a connection. Sans-IO."""

from __future__ import annotations

from enum import Enum
from typing import Final

HEAD_BYTES: Final = 8
"""How many bytes are enough to recognise the protocol."""

_HTTP_METHODS: Final = tuple(
    f"{method} ".encode() for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH", "PRI")
)
_TLS_HANDSHAKE: Final = b"\x16\x03"


class Foreign(Enum):
    TLS = "a TLS handshake"
    HTTP = "an HTTP request"


def foreign_protocol(head: bytes) -> Foreign | None:
    """`head`: the first bytes, at least HEAD_BYTES of them if so many came. None: none of those that are known.

    Neither can begin a frame of Kafka's: their first four bytes as a length are more than 350 MB.
    """
    if head.startswith(_TLS_HANDSHAKE):
        return Foreign.TLS
    if len(head) >= 4 and any(head.startswith(method[: len(head)]) for method in _HTTP_METHODS):
        return Foreign.HTTP
    return None
