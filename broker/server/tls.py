"""TLS of a listener: an OpenSSL context from Kafka's `ssl.` properties, names of certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from cryptography import x509

from highwater.broker.security.principal import ANONYMOUS, name_of, parse_rules
from highwater.broker.settings.config import BrokerConfig, ConfigError
from highwater.kafka.client.key_stores import (
    KeyStoreError,
    KeyStores,
    choose_versions,
    client_properties,
    load_key,
    load_trusted,
)

_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

PrincipalOfCertificate = Callable[[bytes | None], str]


@dataclass(slots=True)
class Tls:
    context: ssl.SSLContext
    """The context of the next connection: another one after a renewal."""
    principal_of_certificate: PrincipalOfCertificate
    """Takes the client's certificate (DER), None without one."""
    certificate: x509.Certificate

    def take_over(self, renewed: Tls) -> str:
        """Use `renewed` for the next connections; returns the line for the log. Rules for names stay."""
        self.context, self.certificate = renewed.context, renewed.certificate
        until = self.certificate.not_valid_after_utc
        return f"new connections get the certificate {self.certificate.serial_number:x}, valid until {until:%Y-%m-%d}"


def stores_of(config: BrokerConfig, listener: str) -> KeyStores:
    return KeyStores(partial(config.of_listener, listener))


def renewed_tls_of(config: BrokerConfig, listener: str, present: Tls) -> Tls:
    """What the files of a listener hold now, if it can follow the present one, as Kafka decides that (KIP-226).

    Raises ConfigError.
    """
    renewed = tls_of(config, listener)
    old, new = present.certificate, renewed.certificate
    if old.subject != new.subject and not config.of_listener(listener, "ssl.allow.dn.changes"):
        raise ConfigError(
            f"the certificate is of {new.subject.rfc4514_string()}, and before of {old.subject.rfc4514_string()}: "
            "restart the broker to change the subject, or set ssl.allow.dn.changes=true"
        )
    missing = _names_of(old) - _names_of(new)
    if missing and not config.of_listener(listener, "ssl.allow.san.changes"):
        raise ConfigError(
            f"the certificate lacks the alternative names {', '.join(sorted(missing))}, which the present one has: "
            "restart the broker to drop them, or set ssl.allow.san.changes=true"
        )
    return renewed


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names}


def tls_of(config: BrokerConfig, listener: str) -> Tls:
    """Raises ConfigError that names the property and the way out."""
    stores = stores_of(config, listener)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _CLIENT_AUTH[stores.text("ssl.client.auth") or "none"]
    try:
        choose_versions(context, stores)
        pem = load_key(context, stores)
        if context.verify_mode is not ssl.CERT_NONE:
            load_trusted(context, stores, ssl.Purpose.CLIENT_AUTH)
    except KeyStoreError as error:
        raise ConfigError(f"listener {listener}: {error}") from None
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise ConfigError(f"listener {listener}: its certificate cannot be read: {error}") from None
    try:
        rules = parse_rules(stores.text("ssl.principal.mapping.rules") or "DEFAULT")
    except ValueError as error:
        raise ConfigError(f"listener {listener}: ssl.principal.mapping.rules: {error}") from None

    def principal_of(certificate: bytes | None) -> str:
        if certificate is None:
            return ANONYMOUS
        subject = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
        return name_of(subject, rules) or ANONYMOUS

    return Tls(context, principal_of, certificate)


def client_context_of(config: BrokerConfig, listener: str) -> ssl.SSLContext:
    """How this broker comes to others at their listener of the same name: with its own key, as Kafka's brokers do.

    Raises ConfigError that names the property and the way out.
    """
    stores = stores_of(config, listener)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(stores.text("ssl.endpoint.identification.algorithm"))
    try:
        choose_versions(context, stores)
        load_key(context, stores)
        load_trusted(context, stores, ssl.Purpose.SERVER_AUTH)
    except KeyStoreError as error:
        raise ConfigError(f"listener {listener}: {error}") from None
    return context


def client_properties_of(config: BrokerConfig, listener: str) -> dict[str, str]:
    """The same for a client of librdkafka, which takes properties and no context. Raises ConfigError."""
    try:
        return client_properties(stores_of(config, listener))
    except KeyStoreError as error:
        raise ConfigError(f"listener {listener}: {error}") from None
