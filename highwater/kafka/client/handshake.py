"""How a connection begins: versions, then the login. Answers in, requests out. Pure."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from highwater.kafka.client.request import (
    Request,
    SaslAnswer,
    Versions,
    api_versions,
    sasl_authenticate,
    sasl_handshake,
)
from highwater.kafka.login.credentials import OAUTHBEARER, Credential, LoginError

_LIFETIME_SHARE: Final = 0.85
"""The share of a session's life after which a new login begins, as in Kafka's client (KIP-368)."""


def renewal_s(lifetime_ms: int, now_s: float) -> float:
    """Return when a session that begins now needs a new connection. A lifetime of 0 has no end."""
    return now_s + lifetime_ms / 1000 * _LIFETIME_SHARE if lifetime_ms > 0 else float("inf")


class Session(NamedTuple):
    versions: Versions
    lifetime_ms: int
    """The time after which the broker wants a new login (KIP-368); 0 for never."""


class HandshakeError(Exception):
    """Why the broker and the client do not come together, as a sentence without its subject, the broker."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or f"it {text}"
        """A clause with its subject, without the properties of a client."""


_SETTINGS: Final = {
    False: "sasl.username and sasl.password, or sasl.jaas.config",
    True: "the sasl.oauthbearer. properties, and which tokens the broker takes",
}
"""Where a login comes from, by whether it is a token."""

Step = tuple[Request[Any], int]
"""A request and the version to send it in."""


def handshake(credential: Credential | None, software: str) -> Generator[Step, Any, Session]:
    """Yields requests; send the answer of each. Returns the session. Raises HandshakeError."""
    first = api_versions(software)
    versions: Versions = yield first, first.most
    return Session(versions, 0 if credential is None else (yield from login(credential, versions)))


def login(credential: Credential, versions: Versions) -> Generator[Step, Any, int]:
    """Yields requests as `handshake` does. Returns the lifetime of the session. Each step may hash or fetch a token."""
    others = yield _step(sasl_handshake(credential.mechanism), versions)
    if others is not None:
        if not others:
            raise HandshakeError("has no login at this address; set security.protocol without SASL_")
        known = " or ".join(others)
        raise HandshakeError(
            f"does not take {credential.mechanism}; set sasl.mechanism to {known}",
            f"it does not take {credential.mechanism}, but {known}",
        )
    try:
        exchange = credential.begin()
    except LoginError as error:
        raise HandshakeError(f"cannot be logged in to: {error}", str(error)) from None
    is_token = credential.mechanism == OAUTHBEARER
    token: bytes | None = exchange.first()
    lifetime_ms = 0
    while token is not None:
        answer = yield _step(sasl_authenticate(token), versions)
        if answer.error:
            reason = answer.error.rstrip(".")
            raise HandshakeError(f"refuses the login: {reason}; check {_SETTINGS[is_token]}", reason)
        lifetime_ms = answer.lifetime_ms
        try:
            token = exchange.answer(answer.token)
        except LoginError as error:
            reason = f"fails in the login: {error}"
            raise HandshakeError(f"{reason}; check {_SETTINGS[is_token]}", f"it {reason}") from None
    return lifetime_ms


def is_refusal(answer: SaslAnswer | tuple[str, ...] | None) -> bool:
    """Whether an answer to `login` ends it: the next step raises HandshakeError, without a hash and without a token."""
    return bool(answer.error) if isinstance(answer, SaslAnswer) else answer is not None


def _step(request: Request[Any], versions: Versions) -> Step:
    version = request.version_for(versions)
    if version is None:
        raise HandshakeError(f"has no login: {unserved(request, versions)}")
    return request, version


def unserved(request: Request[Any], versions: Versions) -> str:
    """Why a request cannot be sent, in words."""
    if request.api.key not in versions:
        return f"it does not serve {request.name}"
    low, high = versions[request.api.key]
    least, most = request.least, request.most
    wanted = f"version {most}" if least == most else f"a version from {least} to {most}"
    return f"it serves {request.name} in versions {low} to {high}, and {wanted} is needed"
