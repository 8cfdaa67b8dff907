"""Tokens to log in with: asked for when they are needed, kept, and renewed before they end."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from highwater.kafka.client.fetching import FetchError, ask, read, shown
from highwater.kafka.client.security import Sasl, Tls, tls_context
from highwater.kafka.login.credentials import Credential, LoginError, TokenCredential
from highwater.kafka.login.token_request import Token, TokenSettings, question_of, token_in, token_in_file

_logger = logging.getLogger(__name__)

_RENEW_AT: Final = 0.8
"""The share of a token's life that Kafka calls sasl.login.refresh.window.factor."""
_AGAIN_AFTER_S: Final = 1.0
"""How long all requests for a token get the same failure, so that each does not wait for a silent server."""


class TokenSource:
    """Tokens for all threads of a client or a broker: one requests a token, and the others wait for it."""

    def __init__(
        self,
        settings: TokenSettings,
        tls: ssl.SSLContext | None,
        timeout_s: float = 10.0,
        software: str = "highwater",
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """The authorities of the host are trusted if `tls` is None."""
        self._settings = settings
        self._tls = tls
        self._timeout_s = timeout_s
        self._software = software
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew_s = 0.0
        self._failure = ""
        self._failed_s = float("-inf")

    def text(self) -> str:
        """Raises LoginError."""
        return self.token().text

    def token(self) -> Token:
        """Raises LoginError, which names the address and no secret."""
        with self._lock:
            now_s = self._clock_s()
            if self._token is not None and now_s < self._renew_s:
                return self._token
            try:
                self._token = token = self._fetch(now_s)
            except FetchError as error:
                known = self._token
                if known is None or now_s >= known.ends_s:
                    raise LoginError(f"no token: {shown(self._settings.url)} {error}") from None
                _logger.warning("no new token: %s %s; the present one has not ended", shown(self._settings.url), error)
                return known
            # A file is read each time: somebody else renews it.
            is_kept = not self._settings.url.startswith("file:")
            self._renew_s = now_s + (token.ends_s - now_s) * _RENEW_AT if is_kept else 0.0
            return token

    def _fetch(self, now_s: float) -> Token:
        if 0 <= now_s - self._failed_s < _AGAIN_AFTER_S:
            raise FetchError(self._failure)
        try:
            found = self._answered(now_s)
            if isinstance(found, str):
                raise FetchError(found)
        except FetchError as error:
            self._failure, self._failed_s = str(error), self._clock_s()
            raise
        return found

    def _answered(self, now_s: float) -> Token | str:
        if self._settings.url.startswith("file:"):
            return token_in_file(read(self._settings.url), now_s)
        return token_in(ask(question_of(self._settings), self._tls, self._timeout_s, self._software), now_s)


def credential_of(sasl: Sasl | TokenSettings, timeout_s: float) -> Credential:
    """Raises TlsError."""
    if isinstance(sasl, Sasl):
        return sasl.credential
    return TokenCredential(token_source(sasl, timeout_s).text, sasl.extensions, sasl.client_properties)


def token_source(settings: TokenSettings, timeout_s: float) -> TokenSource:
    """Raises TlsError for an authority that cannot be read."""
    has_authority = settings.ca_file or settings.ca_pem
    tls = tls_context(Tls(ca_file=settings.ca_file, ca_pem=settings.ca_pem)) if has_authority else None
    return TokenSource(settings, tls, timeout_s)


def librdkafka_callback(source: TokenSource, extensions: Mapping[str, str]) -> Callable[[str], tuple[Any, ...]]:
    """What librdkafka calls, in a thread of its own, for its first token and before each ends."""

    def callback(_: str) -> tuple[Any, ...]:
        token = source.token()
        return token.text, token.ends_s, "", dict(extensions)

    return callback
