"""TLS of a listener: an OpenSSL context from Kafka's `ssl.` properties, names of certificates.

Key and trust stores are PEM or PKCS12, in files or, PEM only, in the properties themselves (KIP-651). What a file is is
seen from its content, as the default of ssl.keystore.type is JKS; Java's own format cannot be read.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

from highwater.broker.security.principal import ANONYMOUS, name_of, parse_rules
from highwater.broker.settings.config import BrokerConfig, ConfigError

_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

PrincipalOfCertificate = Callable[[bytes | None], str]


class Tls(NamedTuple):
    context: ssl.SSLContext
    principal_of_certificate: PrincipalOfCertificate
    """Takes the client's certificate (DER), None without one."""


def tls_of(config: BrokerConfig, listener: str) -> Tls:
    """Raises ConfigError that names the property and the way out."""
    settings = _Settings(config, listener)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _choose_versions(context, settings)
    _load_key(context, settings)
    context.verify_mode = _CLIENT_AUTH[settings.text("ssl.client.auth") or "none"]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, settings, ssl.Purpose.CLIENT_AUTH)
    try:
        rules = parse_rules(settings.text("ssl.principal.mapping.rules") or "DEFAULT")
    except ValueError as error:
        raise settings.error("ssl.principal.mapping.rules", str(error)) from None

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
    settings = _Settings(config, listener)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.text("ssl.endpoint.identification.algorithm"))
    _choose_versions(context, settings)
    _load_key(context, settings)
    _load_trusted(context, settings, ssl.Purpose.SERVER_AUTH)
    return context


def _choose_versions(context: ssl.SSLContext, settings: _Settings) -> None:
    versions = [_VERSIONS[name] for name in settings.texts("ssl.enabled.protocols")]
    if not versions:
        raise settings.error("ssl.enabled.protocols", "name TLSv1.2, TLSv1.3 or both")
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


class _Settings:
    """The properties of one listener."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self._config = config
        self._listener = listener

    def text(self, name: str) -> str | None:
        value = self._config.of_listener(self._listener, name)
        return None if value is None else str(value)

    def texts(self, name: str) -> list[str]:
        value = self._config.of_listener(self._listener, name)
        return value if isinstance(value, list) else [str(value)]

    def password(self, name: str) -> bytes | None:
        text = self.text(name)
        return None if text is None else text.encode()

    def error(self, name: str, reason: str) -> ConfigError:
        return ConfigError(f"listener {self._listener}: {name}: {reason}")

    def read(self, name: str) -> bytes:
        """The file that a property names."""
        path = Path(self.text(name) or "")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise self.error(name, f"cannot read {path}: {error.strerror}") from None
        if data.startswith(_JAVA_MAGIC):
            raise self.error(
                name,
                f"{path} is a Java key store of the old format; convert it: "
                f"keytool -importkeystore -srckeystore {path} -destkeystore {path.stem}.p12 -deststoretype pkcs12",
            )
        return data


def _load_key(context: ssl.SSLContext, settings: _Settings) -> None:
    chain, key = settings.text("ssl.keystore.certificate.chain"), settings.text("ssl.keystore.key")
    password = settings.password("ssl.key.password")
    if chain and key:
        name, pem = "ssl.keystore.key", f"{chain}\n{key}".encode()
    elif settings.text("ssl.keystore.location"):
        name = "ssl.keystore.location"
        pem = settings.read(name)
        if not _is_pem(pem):
            pem = _pem_of(_open_pkcs12(pem, settings, "ssl.keystore"), settings)
            password = None
    else:
        raise settings.error("ssl.keystore.location", "a listener with TLS needs a key; name a PEM or PKCS12 file")
    try:
        with _as_file(pem) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=password or (lambda: b""))
    except ssl.SSLError as error:
        raise settings.error(name, f"no usable certificate and private key: {error.reason or error}") from None
    except ValueError as error:
        raise settings.error(name, f"no usable certificate and private key: {error}") from None


def _load_trusted(context: ssl.SSLContext, settings: _Settings, purpose: ssl.Purpose) -> None:
    certificates = settings.text("ssl.truststore.certificates")
    if certificates:
        name, pem = "ssl.truststore.certificates", certificates
    elif settings.text("ssl.truststore.location"):
        name = "ssl.truststore.location"
        data = settings.read(name)
        pem = data.decode("ascii", "replace") if _is_pem(data) else _trusted_of(data, settings)
    else:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise settings.error(name, f"no usable certificates: {error}") from None


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _open_pkcs12(data: bytes, settings: _Settings, store: str) -> PKCS12KeyAndCertificates:
    try:
        return load_pkcs12(data, settings.password(store + ".password"))
    except ValueError as error:
        raise settings.error(
            store + ".location", f"neither PEM nor PKCS12 of this password ({store}.password): {error}"
        ) from None


def _pem_of(opened: PKCS12KeyAndCertificates, settings: _Settings) -> bytes:
    if opened.key is None or opened.cert is None:
        raise settings.error("ssl.keystore.location", "it holds no private key with its certificate")
    certificates = [opened.cert.certificate, *(extra.certificate for extra in opened.additional_certs)]
    parts = [opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    return b"".join(parts + [certificate.public_bytes(Encoding.PEM) for certificate in certificates])


def _trusted_of(data: bytes, settings: _Settings) -> str:
    opened = _open_pkcs12(data, settings, "ssl.truststore")
    held = [*opened.additional_certs, *([] if opened.cert is None else [opened.cert])]
    if not held:
        raise settings.error("ssl.truststore.location", "it holds no certificates")
    return "".join(one.certificate.public_bytes(Encoding.PEM).decode() for one in held)


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """OpenSSL reads keys from files only: one that is in memory and has no name."""
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
