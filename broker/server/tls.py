"""TLS of a listener: an OpenSSL context from Kafka's `ssl.` properties, names of certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from cryptography import x509

from highwater.broker.client.key_stores import KeyStoreError, KeyStores, choose_versions, load_key, load_trusted
from highwater.broker.security.principal import ANONYMOUS, name_of, parse_rules
from highwater.broker.settings.config import BrokerConfig, ConfigError

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

PrincipalOfCertificate = Callable[[bytes | None], str]


class Tls(NamedTuple):
    context: ssl.SSLContext
    principal_of_certificate: PrincipalOfCertificate
    """Takes the client's certificate (DER), None without one."""


def tls_of(config: BrokerConfig, listener: str) -> Tls:
    """Raises ConfigError that names the property and the way out."""
    stores = KeyStores(partial(config.of_listener, listener))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[stores.text("ssl.client.auth") or "none"]
    try:
        choose_versions(context, stores)
        load_key(context, stores)
        if context.verify_mode is not ssl.CERT_NONE:
            load_trusted(context, stores, ssl.Purpose.CLIENT_AUTH)
        rules = parse_rules(stores.text("ssl.principal.mapping.rules") or "DEFAULT")
    except KeyStoreError as error:
        raise ConfigError(f"listener {listener}: {error}") from None
    except ValueError as error:
        raise ConfigError(f"listener {listener}: ssl.principal.mapping.rules: {error}") from None

    def principal_of(certificate: bytes | None) -> str:
        if certificate is None:
            return ANONYMOUS
        subject = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
        return name_of(subject, rules) or ANONYMOUS

    return Tls(context, principal_of)


def client_context_of(config: BrokerConfig, listener: str) -> ssl.SSLContext:
    """How this broker comes to others at their listener of the same name: with its own key, as Kafka's brokers do.

    Raises ConfigError that names the property and the way out.
    """
    stores = KeyStores(partial(config.of_listener, listener))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(stores.text("ssl.endpoint.identification.algorithm"))
    try:
        choose_versions(context, stores)
        load_key(context, stores)
        load_trusted(context, stores, ssl.Purpose.SERVER_AUTH)
    except KeyStoreError as error:
        raise ConfigError(f"listener {listener}: {error}") from None
    return context
