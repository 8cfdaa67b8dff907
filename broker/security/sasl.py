"""SASL on one connection, which authenticates its user. Tokens and times in, challenges and outcomes out.

    state         event                                   next
    HANDSHAKE     SaslHandshake of an enabled mechanism   EXCHANGE
    EXCHANGE      a token that is not the last            EXCHANGE
    EXCHANGE      the last token, and it is valid         COMPLETE
    COMPLETE      SaslHandshake (KIP-368)                 EXCHANGE, to authenticate the same user again
    any           anything else                           the connection is closed

A client that began with SaslHandshake v0 sends its tokens as bare frames, later ones wrap them in SaslAuthenticate
(KIP-152). Before COMPLETE only ApiVersions, SaslHandshake and SaslAuthenticate are answered.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from highwater.kafka.login.scram import Credentials, ScramMechanism, decoy, scram_library
from highwater.kafka.protocol.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

_BARE_TOKENS_UP_TO: Final = 0
"""The version of SaslHandshake after which tokens come without SaslAuthenticate around them."""


MOST_REQUESTS_BEFORE_LOGIN: Final = 32
"""Clients need six at most; a stranger who sends more only makes the broker work and keep answers."""


class Step(NamedTuple):
    """The result of a token: a challenge to send, with the user after the last token; or the text of a failure."""

    challenge: bytes = b""
    user: str | None = None
    failure: str | None = None
    lifetime_ms: int = 0
    """How long the credential itself lasts; 0: for ever."""


class Exchange(Protocol):
    def step(self, token: bytes) -> Step: ...


class PlainExchange:
    """RFC 4616: authorisation id, user and password, with NUL between them."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def step(self, token: bytes) -> Step:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            return Step(failure="Authentication failed: the token is not UTF-8")
        if len(parts) != 3:
            return Step(failure=f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorisation_id, user, password = parts
        if not user or not password:
            return Step(failure="Authentication failed: user or password not specified")
        expected = self._passwords.get(user)
        # The comparison takes the same time for passwords of any length, and also runs for an unknown user.
        is_right = hmac.compare_digest(_hashed(password), _hashed(expected or ""))
        if expected is None or not is_right:
            return Step(failure="Authentication failed: Invalid username or password")
        if authorisation_id and authorisation_id != user:
            return Step(
                failure="Authentication failed: Client requested an authorization id that is different from username"
            )
        return Step(user=user)


_PROCESS_KEY: Final = secrets.token_bytes(32)


def _hashed(password: str) -> bytes:
    return hmac.digest(_PROCESS_KEY, password.encode(), "sha256")


class ScramExchange:
    """RFC 5802, the server's side. An unknown user fails as a wrong password does, at the last step.

    Kafka fails an unknown user at the first step, so that anybody can find out which users there are.
    """

    def __init__(self, mechanism: ScramMechanism, users: Callable[[], Mapping[str, Credentials]]) -> None:
        self._user = ""
        self._is_first = True

        def look_up(user: str) -> tuple[bytes, bytes, bytes, int]:
            self._user = user
            known = users()
            # Made for known users too: it takes its time.
            none = decoy(known, mechanism, user)
            salt, stored_key, server_key, iterations = known.get(user, {}).get(mechanism, none)
            return salt, stored_key, server_key, iterations  # scramp wants a bare tuple

        scramp = scram_library()
        self._exception = scramp.ScramException
        self._server = scramp.ScramMechanism(mechanism.text).make_server(look_up)
        self._failure = (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            + mechanism.text
        )

    def step(self, token: bytes) -> Step:
        try:
            text = token.decode()
            if self._is_first:
                self._is_first = False
                self._server.set_client_first(text)
                return Step(self._server.get_server_first().encode())
            self._server.set_client_final(text)
            return Step(self._server.get_server_final().encode(), user=self._user)
        except (self._exception, UnicodeDecodeError):
            return Step(failure=self._failure)


class SaslSettings(NamedTuple):
    """The settings of one listener."""

    mechanisms: Mapping[str, Callable[[], Exchange]]
    max_token_bytes: int = 524_288
    max_reauthentication_ms: int = 0
    """How long a session lasts before the client must authenticate anew; 0: for ever."""
    failure_delay_ms: int = 100
    """How long a failure is held back, so that passwords cannot be tried out fast."""
    to_begin: tuple[Callable[[], None], ...] = ()
    """Each blocks for some seconds at most; to be called once, in a thread, before clients come."""

    def of_connection(self) -> Authentication:
        return Authentication(self)


class _State(Enum):
    HANDSHAKE = auto()
    EXCHANGE = auto()
    COMPLETE = auto()


class Outcome(NamedTuple):
    error_code: ErrorCode
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    user: str | None = None
    """Set at the end of the exchange."""


class Authentication:
    """The authentication state of one connection."""

    __slots__ = (
        "_exchange",
        "_expires_ms",
        "_mechanism",
        "_requests",
        "_state",
        "_takes_bare_tokens",
        "_user",
        "settings",
    )

    def __init__(self, settings: SaslSettings) -> None:
        self.settings = settings
        self._state = _State.HANDSHAKE
        self._exchange: Exchange | None = None
        self._mechanism: str | None = None
        self._user: str | None = None
        self._requests = 0
        self._takes_bare_tokens = False
        self._expires_ms: int | None = None

    @property
    def has_user(self) -> bool:
        """Whether the client has logged in, be it long ago."""
        return self._user is not None

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next frame is a token instead of a request."""
        return self._takes_bare_tokens

    def has_session(self, now_ms: int) -> bool:
        """Whether the client has logged in, and its session has not expired."""
        return self._state is _State.COMPLETE and (self._expires_ms is None or now_ms < self._expires_ms)

    def refusal(self, api_key: int, now_ms: int) -> str | None:
        """Return why a request must not be answered now, or None."""
        if self._state is _State.COMPLETE:
            if not self.has_session(now_ms) and api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE, API_VERSIONS):
                return "its session has expired (connections.max.reauth.ms, or the end of its token)"
            return None
        self._requests += 1
        if self._user is None and self._requests > MOST_REQUESTS_BEFORE_LOGIN:
            return f"more than {MOST_REQUESTS_BEFORE_LOGIN} requests before the authentication was complete"
        expected = (SASL_AUTHENTICATE,) if self._state is _State.EXCHANGE else (SASL_HANDSHAKE, API_VERSIONS)
        return None if api_key in expected else f"API {api_key} before the authentication was complete"

    def handshake(self, mechanism: str, version: int) -> ErrorCode:
        """Begin the first exchange, or a re-authentication."""
        if self._state is _State.EXCHANGE:
            return ErrorCode.illegal_sasl_state
        make = self.settings.mechanisms.get(mechanism)
        if make is None or (self._mechanism is not None and mechanism != self._mechanism):
            return ErrorCode.unsupported_sasl_mechanism
        self._mechanism = mechanism
        self._exchange = make()
        self._takes_bare_tokens = version <= _BARE_TOKENS_UP_TO
        self._state = _State.EXCHANGE
        return ErrorCode.none

    def authenticate(self, token: bytes, now_ms: int) -> Outcome:
        """Process the client's next token. After an error the connection must be closed."""
        if self._exchange is None:
            return Outcome(
                ErrorCode.illegal_sasl_state, "SaslAuthenticate request received after successful authentication"
            )
        step = self._exchange.step(token)
        if step.failure is not None:
            return Outcome(ErrorCode.sasl_authentication_failed, step.failure)
        if step.user is None:
            return Outcome(ErrorCode.none, auth_bytes=step.challenge)
        if self._user is not None and step.user != self._user:
            return Outcome(
                ErrorCode.sasl_authentication_failed,
                f"Cannot change principals during re-authentication from {self._user}",
            )
        self._user = step.user
        self._exchange = None
        self._takes_bare_tokens = False
        self._state = _State.COMPLETE
        limits_ms = (self.settings.max_reauthentication_ms, step.lifetime_ms)
        lifetime_ms = min((limit_ms for limit_ms in limits_ms if limit_ms > 0), default=0)
        self._expires_ms = now_ms + lifetime_ms if lifetime_ms > 0 else None
        return Outcome(ErrorCode.none, auth_bytes=step.challenge, session_lifetime_ms=lifetime_ms, user=step.user)
