"""How a broker gets the tokens with which it logs in to other brokers (OAUTHBEARER)."""

from __future__ import annotations

from typing import Final

from highwater.broker.server.published_keys import token_login_entry, trust
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.kafka.client.errors import ClientSettingsError
from highwater.kafka.client.java_names import LOGIN_HANDLERS, token_login
from highwater.kafka.client.settings import token_settings_of
from highwater.kafka.client.tokens import TokenSource
from highwater.kafka.login.credentials import OAUTHBEARER, TokenCredential

_URL: Final = "sasl.oauthbearer.token.endpoint.url"


def peer_tokens(config: BrokerConfig, listener: str) -> TokenCredential:
    """Raises ConfigError that names the property and the way out. Asks no server yet."""
    prefix = f"listener.name.{listener.lower()}.oauthbearer.sasl"
    handler = config.callback_handler(listener, OAUTHBEARER, "login")
    if handler is not None and handler not in LOGIN_HANDLERS:
        raise ConfigError(
            f"{prefix}.login.callback.handler.class: {handler} cannot be loaded; remove it, or name {LOGIN_HANDLERS[0]}"
        )
    entry = token_login_entry(config, listener)
    url = config.of_listener(listener, _URL)
    try:
        options = {} if entry is None else token_login(entry.options)
        settings = token_settings_of(options if url is None else options | {_URL: str(url)})
    except ClientSettingsError as error:
        raise ConfigError(f"brokers log in to each other at {listener} ({prefix}.jaas.config): {error}") from None
    return TokenCredential(
        TokenSource(settings, trust(listener, entry), software="highwater-broker").text,
        settings.extensions,
        settings.client_properties,
    )
