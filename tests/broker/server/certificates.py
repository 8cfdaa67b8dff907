"""An authority of our own and certificates of it, made for one test run."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"), x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


class Certified(NamedTuple):
    key: Key
    certificate: x509.Certificate

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        path.write_bytes(
            self.certificate_pem.encode() + self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        )
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        path.write_bytes(
            serialize_key_and_certificates(
                b"broker", self.key, self.certificate, None, BestAvailableEncryption(password.encode())
            )
        )
        return path


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(_name("authority"), self._key, is_authority=True)

    @property
    def pem(self) -> str:
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def certify(self, common_name: str, *host_names: str) -> Certified:
        """For 127.0.0.1, and these names of hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        return Certified(key, self._sign(_name(common_name), key, host_names, is_authority=False))

    def _sign(
        self, subject: x509.Name, key: Key, host_names: Sequence[str] = (), *, is_authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_name("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, host_names)]
                ),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
