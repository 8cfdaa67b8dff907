"""Where the agent of a host is, how it is asked, and which brokers are on the host."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from highwater.common.bounded_http import is_loopback
from highwater.common.errors import UsageError


@dataclass(frozen=True, slots=True)
class HostSettings:
    name: str
    """For people; unique."""
    address: str
    """Name or address of the agent's host."""
    port: int
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    """None for an agent on loopback that serves without it."""
    brokers: tuple[int, ...] = ()
    """Empty: those that the agent names, or whose host is this one."""


def tls_of(address: str, authority: Path | None) -> ssl.SSLContext | None:
    """TLS with the agent's authority, or with those of this host; None for an agent on loopback without one.

    Raises UsageError for a file that has no certificate.
    """
    if authority is None and is_loopback(address):
        return None
    try:
        return ssl.create_default_context(cafile=None if authority is None else str(authority))
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise UsageError(f"{authority}: cannot use its certificates: {reason}") from None


def token_of(file: Path) -> str:
    """Raises UsageError."""
    try:
        token = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot read the token: {getattr(error, 'strerror', None) or error}") from None
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(f"{file}: a token has printable ASCII characters, in one line")
    return token
