"""OAUTHBEARER of a listener: properties made rules for tokens, and published keys kept fresh."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from highwater.broker.security.oauthbearer import (
    Bearer,
    OAuthBearerExchange,
    TokenRules,
    bearer_of,
    bearer_of_unsecured,
    sentence,
)
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.common.bounded_http import Question, source_problem
from highwater.common.extras import how_to_install
from highwater.kafka.client.fetching import FetchError, ask, read, shown
from highwater.kafka.login.credentials import OAUTHBEARER
from highwater.kafka.login.jaas import LoginEntry, parse_login_entry
from highwater.kafka.login.jwt import Flaw, Keys, Unbelieved, keys_of

_logger = logging.getLogger(__name__)

_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_HANDLER: Final = "oauthbearer.sasl.server.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_SIGNED: Final = (
    _PACKAGE + "OAuthBearerValidatorCallbackHandler",
    _PACKAGE + "secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED: Final = _PACKAGE + "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_FETCH_TIMEOUT_S: Final = 10.0
_FIRST_KEYS_WITHIN_S: Final = 5.0
_LEAST_BETWEEN_S: Final = 10.0
"""Between two fetches for unknown keys: whoever sends such tokens must not make the broker ask all the time."""


class OAuthBearer(NamedTuple):
    """The OAUTHBEARER mechanism of one listener."""

    exchange: Callable[[], OAuthBearerExchange]
    begin: Callable[[], None]
    """Fetch the keys, and keep them fresh from now on; waits for the first ones, a few seconds at most."""


def oauthbearer_of(config: BrokerConfig, listener: str) -> OAuthBearer:
    """Raises ConfigError that names the property and the way out."""

    def of(name: str) -> object:
        return config.of_listener(listener, f"sasl.oauthbearer.{name}")

    audiences = of("expected.audience")
    issuer = of("expected.issuer")
    skew_s = of("clock.skew.seconds")
    assert isinstance(skew_s, int)
    rules = TokenRules(
        None if issuer is None else str(issuer),
        frozenset(audiences) if isinstance(audiences, list) else frozenset(),
        skew_s,
        str(of("scope.claim.name")),
        str(of("sub.claim.name")),
    )
    entry = token_login_entry(config, listener)
    handler_name = f"listener.name.{listener.lower()}.{_HANDLER}"
    handler = config.callback_handler(listener, OAUTHBEARER)
    url = of("jwks.endpoint.url")
    if handler == _UNSECURED:
        if url is not None:
            raise ConfigError(f"{handler_name}: it takes tokens without a signature, and {_URL} is set; remove one")
        _logger.warning("listener %s: clients say themselves who they are: tokens have no signature", listener)
        return OAuthBearer(
            lambda: OAuthBearerExchange(lambda token: bearer_of_unsecured(token, rules, time.time()), time.time),
            lambda: None,
        )
    if handler is not None and handler not in _SIGNED:
        raise ConfigError(
            f"{handler_name}: {handler} cannot be loaded; remove it, or name {_SIGNED[0]} (signed tokens) or "
            f"{_UNSECURED} (tokens without a signature)"
        )
    if url is None:
        raise ConfigError(
            f"listener {listener}: OAUTHBEARER needs the keys that tokens are signed with: set {_URL} to an address "
            "by https:// or file:// (Kafka takes tokens without a signature then; this broker does so only if "
            f"{handler_name} names {_UNSECURED})"
        )
    if not rules.audiences:
        _logger.warning(
            "listener %s: tokens for any receiver are taken; set sasl.oauthbearer.expected.audience", listener
        )
    _check_library(listener)
    keys = PublishedKeys(_fetch_from(str(url), listener, entry), f"listener {listener}: the keys of {shown(str(url))}")
    for attribute in ("refresh", "retry.backoff", "retry.backoff.max"):
        value = of(f"jwks.endpoint.{attribute}.ms")
        assert isinstance(value, int)
        setattr(keys, attribute.replace(".", "_") + "_s", value / 1000)
    if str(url).startswith("file:"):
        try:
            keys.fetch()
        except FetchError as error:
            raise ConfigError(f"listener {listener}: {_URL}: {shown(str(url))} {error}") from None

    def believe(token: str) -> Bearer | str:
        found = bearer_of(token, keys.keys, rules, time.time())
        if not isinstance(found, Unbelieved):
            return found
        if found.flaw in (Flaw.UNKNOWN_KEY, Flaw.SIGNATURE):
            keys.fetch_soon()
        return sentence(found.flaw)

    return OAuthBearer(lambda: OAuthBearerExchange(believe, time.time), keys.begin)


def _check_library(listener: str) -> None:
    try:
        import joserfc  # noqa: F401 - its presence is the question
    except ImportError as error:
        raise ConfigError(f"listener {listener}: OAUTHBEARER needs {error.name}: {how_to_install('oidc')}") from None


def token_login_entry(config: BrokerConfig, listener: str) -> LoginEntry | None:
    text = config.jaas_config(listener, OAUTHBEARER)
    if text is None:
        return None
    name = f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config"
    try:
        entry = parse_login_entry(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    if entry.module != "OAuthBearerLoginModule":
        raise ConfigError(f"{name}: {entry.module} is not OAuthBearerLoginModule")
    for option in entry.options:
        if option.startswith("unsecuredValidator"):
            raise ConfigError(
                f"{name}: {option} is not supported; use sasl.oauthbearer.sub.claim.name and its neighbours"
            )
    return entry


# Keys


def _fetch_from(url: str, listener: str, entry: LoginEntry | None) -> Callable[[], bytes]:
    if problem := source_problem(url):
        raise ConfigError(f"listener {listener}: {_URL}: {shown(url)} {problem}")
    if url.startswith("file:"):
        return lambda: read(url)
    tls = trust(listener, entry)
    return lambda: _ask(url, tls)


def trust(listener: str, entry: LoginEntry | None) -> ssl.SSLContext | None:
    """Kafka has the authority of the endpoint among the options of the login module."""
    path = None if entry is None else entry.options.get("ssl.truststore.location")
    if path is None:
        return None
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it has no certificate in PEM"
        raise ConfigError(
            f"listener.name.{listener.lower()}.oauthbearer.sasl.jaas.config: ssl.truststore.location={path}: {reason}"
        ) from None


def _ask(url: str, tls: ssl.SSLContext | None) -> bytes:
    answer = ask(Question(url), tls, _FETCH_TIMEOUT_S, "highwater-broker")
    if answer.status != HTTPStatus.OK:
        raise FetchError(f"answers with status {answer.status}")
    return answer.body


class PublishedKeys:
    """Keys as they were fetched last. A thread fetches them, so that the event loop never waits."""

    refresh_s = 3600.0
    retry_backoff_s = 0.1
    retry_backoff_max_s = 10.0

    def __init__(self, read: Callable[[], bytes], name: str) -> None:
        """`read` returns a JSON Web Key Set, or raises FetchError; `name` begins lines of the log."""
        self.keys: Keys = ()
        self._read = read
        self._name = name
        self._wanted = threading.Event()
        self._tried = threading.Event()

    def fetch(self) -> None:
        """Raises FetchError; the keys stay as they were then."""
        keys = keys_of(self._read())
        if keys is None:
            raise FetchError("is not a JSON Web Key Set")
        if keys != self.keys:
            _logger.info("%s: %d", self._name, len(keys))
        self.keys = keys

    def fetch_soon(self) -> None:
        """A token was signed with a key that is not known; there may be a new one."""
        self._wanted.set()

    def begin(self) -> None:
        threading.Thread(target=self._keep_fresh, name="keys of tokens", daemon=True).start()
        self._tried.wait(_FIRST_KEYS_WITHIN_S)

    def _keep_fresh(self) -> None:
        backoff_s = self.retry_backoff_s
        while True:
            try:
                self.fetch()
                wait_s, backoff_s = self.refresh_s, self.retry_backoff_s
            except FetchError as error:
                _logger.warning("%s: it %s; trying again in %g s", self._name, error, backoff_s)
                wait_s, backoff_s = backoff_s, min(2 * backoff_s, self.retry_backoff_max_s)
            self._tried.set()
            fetched_s = time.monotonic()
            if self._wanted.wait(wait_s):
                time.sleep(max(0.0, min(wait_s, _LEAST_BETWEEN_S) - (time.monotonic() - fetched_s)))
            self._wanted.clear()
