"""SASL of a listener: Kafka's properties made the exchanges that a client may choose from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from highwater.broker.security.sasl import Exchange, PlainExchange, SaslSettings, ScramExchange
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.kafka.login.credentials import OAUTHBEARER, PLAIN
from highwater.kafka.login.jaas import parse_login_entry
from highwater.kafka.login.scram import Credentials, ScramMechanism

_SCRAM: Final = {mechanism.text: mechanism for mechanism in ScramMechanism}
_USER_PREFIX: Final = "user_"
_ADVICE: Final = "the mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER"


ScramCredentials = Callable[[], Mapping[str, Credentials]]
"""All that are known at the time of the call, by user."""


def sasl_of(config: BrokerConfig, listener: str, scram_credentials: ScramCredentials) -> SaslSettings:
    """Raises ConfigError that names the property and the way out."""
    mechanisms: dict[str, Callable[[], Exchange]] = {}
    to_begin: list[Callable[[], None]] = []
    enabled = config.of_listener(listener, "sasl.enabled.mechanisms")
    for name in enabled if isinstance(enabled, list) else ():
        mechanism = name.upper()
        if mechanism == PLAIN:
            mechanisms[PLAIN] = partial(PlainExchange, _passwords(config, listener))
        elif mechanism in _SCRAM:
            mechanisms[mechanism] = partial(ScramExchange, _SCRAM[mechanism], scram_credentials)
        elif mechanism == OAUTHBEARER:
            from highwater.broker.server.published_keys import oauthbearer_of  # here, as most brokers never need it

            bearer = oauthbearer_of(config, listener)
            mechanisms[mechanism] = bearer.exchange
            to_begin.append(bearer.begin)
        else:
            raise ConfigError(f"listener {listener}: sasl.enabled.mechanisms: {name} is not supported; {_ADVICE}")
    if not mechanisms:
        raise ConfigError(f"listener {listener}: sasl.enabled.mechanisms: name at least one; {_ADVICE}")
    max_reauthentication_ms = config.of_listener(listener, "connections.max.reauth.ms")
    max_token_bytes = config.of_listener(listener, "sasl.server.max.receive.size")
    assert isinstance(max_reauthentication_ms, int)
    assert isinstance(max_token_bytes, int)
    return SaslSettings(
        mechanisms,
        max_token_bytes,
        max_reauthentication_ms,
        config.integer("connection.failed.authentication.delay.ms"),
        tuple(to_begin),
    )


def _passwords(config: BrokerConfig, listener: str) -> dict[str, str]:
    """The users of PLAIN stand in its JAAS entry, each as user_NAME="password"."""
    name = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    text = config.jaas_config(listener, PLAIN)
    if text is None:
        raise ConfigError(
            f"listener {listener}: PLAIN needs its users: set {name} to "
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";'
        )
    try:
        entry = parse_login_entry(text)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    if entry.module != "PlainLoginModule":
        raise ConfigError(f"{name}: {entry.module} is not PlainLoginModule")
    passwords = {
        option.removeprefix(_USER_PREFIX): password
        for option, password in entry.options.items()
        if option.startswith(_USER_PREFIX)
    }
    if not passwords:
        raise ConfigError(f'{name}: it names no user; add user_NAME="PASSWORD"')
    return passwords
