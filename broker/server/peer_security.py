"""TLS and login of connections to other brokers, from Kafka's properties."""

from __future__ import annotations

import ssl
from typing import Final

from highwater.broker.cluster.peers import Endpoint
from highwater.broker.security.principal import ANONYMOUS
from highwater.broker.server.listeners import endpoints_of
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.kafka.login.credentials import (
    LOGIN_MODULES,
    OAUTHBEARER,
    PLAIN,
    SCRAM_MECHANISMS,
    Credential,
    PasswordCredential,
)
from highwater.kafka.login.jaas import parse_login_entry
from highwater.kafka.login.scram import ScramMechanism

_LOGIN_TIMEOUT_MS: Final = 30_000


def inter_broker_listener(config: BrokerConfig) -> tuple[str, str]:
    """Its name and its security protocol (KafkaConfig.getInterBrokerListenerNameAndSecurityProtocol).

    Raises ConfigError when it is none of the listeners.
    """
    endpoints, _ = endpoints_of(config)
    name = config.string("inter.broker.listener.name")
    if name and config.is_set("security.inter.broker.protocol"):
        raise ConfigError(
            "inter.broker.listener.name and security.inter.broker.protocol say the same thing; set one of them"
        )
    wanted = (name or config.string("security.inter.broker.protocol") or "PLAINTEXT").upper()
    for endpoint in endpoints:
        if endpoint.listener_name == wanted:
            return endpoint.listener_name, endpoint.security_protocol
    what = "inter.broker.listener.name" if name else "security.inter.broker.protocol"
    names = ", ".join(endpoint.listener_name for endpoint in endpoints)
    raise ConfigError(f"{what}: {wanted} is not one of the listeners ({names}), so brokers could not reach each other")


class PeerSecurity:
    """The security of the inter-broker listener alone: all requests between brokers go there."""

    login_timeout_ms = _LOGIN_TIMEOUT_MS

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError that names the property and the way out."""
        self._config = config
        self.listener, protocol = inter_broker_listener(config)
        self._protocol = protocol
        self._tls_context = self.read_tls() if protocol in ("SSL", "SASL_SSL") else None
        self._mechanism = str(config.value("sasl.mechanism.inter.broker.protocol")).upper()
        self._user: str | None = None
        self._credential = self._read_credential() if protocol.startswith("SASL_") else None

    @property
    def user(self) -> str | None:
        """The user as whom this broker logs in to others; None if its certificate or its token names it."""
        if self._credential is not None:
            return self._user
        has_certificate = (
            self._protocol == "SSL" and self._config.of_listener(self.listener, "ssl.client.auth") != "none"
        )
        return None if has_certificate else ANONYMOUS

    @property
    def login_in_words(self) -> tuple[str, str]:
        """The user as whom this broker logs in to others, and what there is to check if that is refused."""
        mechanism = self._mechanism
        entry = f"listener.name.{self.listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        if mechanism == OAUTHBEARER:
            return "with a token", f"sasl.oauthbearer.token.endpoint.url and {entry}"
        who = f"as User:{self._user}"
        if mechanism == PLAIN:
            return who, f"username, password and user_{self._user} in {entry}"
        return who, f"username and password in {entry}, and that ZooKeeper has this user, with {mechanism}"

    @property
    def scram_login(self) -> tuple[ScramMechanism, str] | None:
        """The SCRAM mechanism and the user with which this broker logs in; None if it does not use SCRAM."""
        if self._user is None or self._credential is None or self._credential.mechanism not in SCRAM_MECHANISMS:
            return None
        return ScramMechanism[self._credential.mechanism.replace("-", "_")], self._user

    def tls_context(self, endpoint: Endpoint) -> ssl.SSLContext | None:
        return self._tls_context if endpoint.has_tls else None

    def credential(self, endpoint: Endpoint) -> Credential:
        if self._credential is None:
            raise RuntimeError(f"listener {endpoint.listener_name} has SASL, and {self.listener} has none")
        return self._credential

    @property
    def client_properties(self) -> dict[str, str]:
        """What a client sets to come to this listener as this broker does, under librdkafka's names; with secrets.

        Raises ConfigError.
        """
        found = {"security.protocol": self._protocol}
        if self.has_tls:
            from highwater.broker.server.tls import client_properties_of

            found |= client_properties_of(self._config, self.listener)
        if self._credential is not None:
            found |= self._credential.client_properties
        return found

    @property
    def has_tls(self) -> bool:
        return self._tls_context is not None

    def take_over(self, context: ssl.SSLContext) -> None:
        """Have the next connections use it."""
        self._tls_context = context

    def read_tls(self) -> ssl.SSLContext:
        """What the files of the listener hold now. Raises ConfigError."""
        from highwater.broker.server.tls import (
            client_context_of,  # here, as most brokers never need the memory that it takes
        )

        return client_context_of(self._config, self.listener)

    def _read_credential(self) -> Credential:
        config, listener = self._config, self.listener
        mechanism = self._mechanism
        if mechanism == OAUTHBEARER:
            from highwater.broker.server.peer_tokens import peer_tokens  # here, as most brokers never need it

            return peer_tokens(config, listener)
        if mechanism not in LOGIN_MODULES:
            raise ConfigError(
                f"sasl.mechanism.inter.broker.protocol: {mechanism} is not supported; "
                f"the mechanisms are {', '.join((*LOGIN_MODULES, OAUTHBEARER))}"
            )
        name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
        text = config.jaas_config(listener, mechanism)
        module = LOGIN_MODULES[mechanism]
        example = f'{module} required username="NAME" password="PASSWORD";'
        if text is None:
            raise ConfigError(f"brokers log in to each other at {listener}: set {name} to {example}")
        try:
            entry = parse_login_entry(text)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from None
        if entry.module != module:
            raise ConfigError(f"{name}: {entry.module} is not {module}")
        if "username" not in entry.options or "password" not in entry.options:
            raise ConfigError(f"{name}: brokers log in to each other with it; add username and password: {example}")
        self._user = entry.options["username"]
        return PasswordCredential(mechanism, entry.options["username"], entry.options["password"])
