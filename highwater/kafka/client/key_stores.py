"""Keys and trusted certificates from Kafka's `ssl.` properties, into an OpenSSL context.

Key and trust stores are PEM or PKCS12, in files or, PEM only, in the properties themselves (KIP-651). What a file is is
seen from its content, as the default of ssl.keystore.type is JKS; Java's own format cannot be read.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class KeyStoreError(Exception):
    """A property or its file cannot be used; the text begins with the property."""


class KeyStores:
    """The `ssl.` properties of one listener, or of a client."""

    def __init__(self, value_of: Callable[[str], Any], prefix: str = "") -> None:
        """`value_of` takes names without the prefix, which messages have."""
        self._value_of = value_of
        self._prefix = prefix

    def text(self, name: str) -> str | None:
        value = self._value_of(name)
        return None if value is None else str(value)

    def texts(self, name: str) -> list[str]:
        value = self._value_of(name)
        return value if isinstance(value, list) else [str(value)]

    def password(self, name: str) -> bytes | None:
        text = self.text(name)
        return None if text is None else text.encode()

    @property
    def files(self) -> list[Path]:
        locations = (self.text("ssl.keystore.location"), self.text("ssl.truststore.location"))
        return [Path(location) for location in locations if location]

    def error(self, name: str, reason: str) -> KeyStoreError:
        return KeyStoreError(f"{self._prefix}{name}: {reason}")

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


def choose_versions(context: ssl.SSLContext, stores: KeyStores, name: str = "ssl.enabled.protocols") -> None:
    """Raises KeyStoreError."""
    try:
        versions = [_VERSIONS[version] for version in stores.texts(name)]
    except KeyError:
        versions = []
    if not versions:
        raise stores.error(name, "name TLSv1.2, TLSv1.3 or both")
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def load_key(context: ssl.SSLContext, stores: KeyStores) -> bytes:
    """Return the PEM, whose first certificate is that of the key. Raises KeyStoreError."""
    name, pem, password = _key_of(stores)
    try:
        with _as_file(pem) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=password or (lambda: b""))
    except ssl.SSLError as error:
        raise stores.error(name, f"no usable certificate and private key: {error.reason or error}") from None
    except ValueError as error:
        raise stores.error(name, f"no usable certificate and private key: {error}") from None
    return pem


def load_trusted(context: ssl.SSLContext, stores: KeyStores, purpose: ssl.Purpose) -> None:
    """Raises KeyStoreError."""
    found = _trusted_of(stores)
    if found is None:
        context.load_default_certs(purpose)
        return
    name, pem = found
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise stores.error(name, f"no usable certificates: {error}") from None


def client_properties(stores: KeyStores) -> dict[str, str]:
    """Return what a client sets to trust as these stores do and to show their key, under librdkafka's names.

    The key is in it as text, so it is for this process alone. Raises KeyStoreError.
    """
    _, key, password = _key_of(stores)
    trusted = _trusted_of(stores)
    found = {"ssl.certificate.pem": key.decode(), "ssl.key.pem": key.decode()}
    if password is not None:
        found["ssl.key.password"] = password.decode()
    if trusted is not None:
        found["ssl.ca.pem"] = trusted[1]
    if not stores.text("ssl.endpoint.identification.algorithm"):
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _key_of(stores: KeyStores) -> tuple[str, bytes, bytes | None]:
    """Return the property that has the key, the PEM of the key and its certificates, and the key's password."""
    chain, key = stores.text("ssl.keystore.certificate.chain"), stores.text("ssl.keystore.key")
    password = stores.password("ssl.key.password")
    if chain and key:
        return "ssl.keystore.key", f"{chain}\n{key}".encode(), password
    name = "ssl.keystore.location"
    if not stores.text(name):
        raise stores.error(name, "a listener with TLS needs a key; name a PEM or PKCS12 file")
    data = stores.read(name)
    return (name, data, password) if _is_pem(data) else (name, _pem_of(data, stores), None)


def _trusted_of(stores: KeyStores) -> tuple[str, str] | None:
    """Return the property and the PEM of the trusted certificates; None for those of the host."""
    name = "ssl.truststore.certificates"
    if certificates := stores.text(name):
        return name, certificates
    name = "ssl.truststore.location"
    if not stores.text(name):
        return None
    data = stores.read(name)
    return name, data.decode("ascii", "replace") if _is_pem(data) else _trusted_of_pkcs12(data, stores)


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _open_pkcs12(data: bytes, stores: KeyStores, store: str) -> Any:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # only those with such files pay

    try:
        return load_pkcs12(data, stores.password(store + ".password"))
    except ValueError as error:
        raise stores.error(
            store + ".location", f"neither PEM nor PKCS12 of this password ({store}.password): {error}"
        ) from None


def _pem_of(data: bytes, stores: KeyStores) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    opened = _open_pkcs12(data, stores, "ssl.keystore")
    if opened.key is None or opened.cert is None:
        raise stores.error("ssl.keystore.location", "it holds no private key with its certificate")
    certificates = [opened.cert.certificate, *(extra.certificate for extra in opened.additional_certs)]
    parts = [opened.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    return b"".join(parts + [certificate.public_bytes(Encoding.PEM) for certificate in certificates])


def _trusted_of_pkcs12(data: bytes, stores: KeyStores) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    opened = _open_pkcs12(data, stores, "ssl.truststore")
    held = [*opened.additional_certs, *([] if opened.cert is None else [opened.cert])]
    if not held:
        raise stores.error("ssl.truststore.location", "it holds no certificates")
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
