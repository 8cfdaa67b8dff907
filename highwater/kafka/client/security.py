"""TLS and login of a client as values, and the TLS context that they make."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.kafka.login.credentials import PasswordCredential


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM as text, or files with it; empty for none. Without an authority, those of the host are trusted."""

    ca_file: str = ""
    """A directory with certificates too, as OpenSSL hashes their names."""
    ca_pem: str = ""
    certificate_file: str = ""
    """The client's certificate, its chain, and its key, if `key_file` does not name another file for the key."""
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    checks_host_name: bool = True
    key_file: str = ""
    verifies: bool = True
    """Whether the certificate of the broker must be of the authority."""


@dataclass(frozen=True, slots=True)
class Sasl:
    mechanism: str
    user: str
    password: str = field(repr=False)

    @property
    def credential(self) -> PasswordCredential:
        return PasswordCredential(self.mechanism, self.user, self.password)


class TlsError(Exception):
    """Files or texts for TLS cannot be used."""


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Raises TlsError for files that cannot be read as PEM."""
    context = ssl.create_default_context()
    try:
        if tls.ca_file or tls.ca_pem:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            is_directory = bool(tls.ca_file) and Path(tls.ca_file).is_dir()
            context.load_verify_locations(
                cafile=None if is_directory else tls.ca_file or None,
                capath=tls.ca_file if is_directory else None,
                cadata=tls.ca_pem or None,
            )
        context.check_hostname = tls.checks_host_name and tls.verifies
        if not tls.verifies:
            context.verify_mode = ssl.CERT_NONE
        password = tls.key_password or _no_password
        if tls.certificate_pem:
            _load_chain(context, f"{tls.certificate_pem}\n{tls.key_pem}", password)
        elif tls.certificate_file:
            context.load_cert_chain(tls.certificate_file, tls.key_file or None, password)
    except (OSError, ValueError) as error:
        files = filter(None, dict.fromkeys((tls.ca_file, tls.certificate_file, tls.key_file)))
        names = ", ".join(files) or "the PEM text in the settings"
        raise TlsError(f"TLS: {names} cannot be used: {reason_of(error)}") from None
    return context


def reason_of(error: Exception) -> str:
    """The reason of an error of TLS, of a file or of a socket, in few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio has "Connect call failed" in place of the reason
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def tls_failure(error: ssl.SSLError) -> str:
    """Why TLS with a broker failed, and what to look at."""
    reason = reason_of(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        if "mismatch" in error.verify_message:
            return f"{reason}; ask for it by a name of its certificate"
        return f"{reason}; ssl.ca.location must name the authority that signed its certificate"
    if "certificate" in reason and "alert" in reason:
        return f"{reason}; the broker wants a certificate of this client: ssl.certificate.location, ssl.key.location"
    return f"{reason}; check the ssl. properties"


def _no_password() -> str:
    """Called by OpenSSL for an encrypted key, which would otherwise ask on the terminal."""
    raise ValueError("its key is encrypted; set ssl.key.password")


def _load_chain(context: ssl.SSLContext, pem: str, password: Any) -> None:
    """Python reads a private key from a file only: this one is in memory."""
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=password)
    finally:
        os.close(descriptor)
