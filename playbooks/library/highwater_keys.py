#!/usr/bin/python
"""The operator's keys, in a directory of the controller: an authority, its certificates, secrets."""

from __future__ import annotations

import datetime
import fcntl
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as _error:
    _MISSING = str(_error)
else:
    _MISSING = ""

DOCUMENTATION = r"""
module: highwater_keys
short_description: Make certificates of an authority of the operator's own, and secrets, once
description:
  - Runs on the controller. O(directory) holds an authority, a certificate with its key for each O(name) that was asked
    for, and secrets, which are random texts. All of it belongs to the operator alone.
  - What is there is returned as it is. A certificate is made anew when O(names) are others than its own, when another
    authority has signed it, or when fewer than 90 of its 825 days are left.
  - In check mode nothing is made; what is missing is returned as an empty text.
options:
  directory:
    description: Where the keys are.
    type: path
    required: true
  name:
    description: Of a certificate; empty for none.
    type: str
    default: ""
  names:
    description: Names and addresses that the certificate is for.
    type: list
    elements: str
    default: []
  is_client:
    description: >-
      Whether its host proves with the certificate who it is when it connects, too, as members of an ensemble do. A
      certificate that does not allow that is made anew.
    type: bool
    default: false
  secrets:
    description: Names of secrets.
    type: list
    elements: str
    default: []
extends_documentation_fragment: ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: posix
author:
  - The Highwater maintainers
"""

EXAMPLES = r"""
- name: Make a certificate and a token for the agent of this host
  highwater_keys:
    directory: ~/.config/highwater/keys/cluster
    name: agent-broker1
    names: [broker1.example.net, 192.0.2.11]
    secrets: [agent-broker1]
  delegate_to: localhost
  become: false
  no_log: true
  register: keys
"""

RETURN = r"""
authority:
  description: Certificate of the authority, in PEM.
  returned: always
  type: str
certificate:
  description: The certificate that O(name) asks for, in PEM.
  returned: always
  type: str
key:
  description: Its private key, in PEM.
  returned: always
  type: str
secrets:
  description: Each secret, by its name.
  returned: always
  type: dict
"""

AUTHORITY = "authority"
AUTHORITY_DAYS = 7300
# As long as Apple's systems accept a certificate of an authority that its user has added.
CERTIFICATE_DAYS = 825
RENEWED_DAYS_BEFORE = 90
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,200}")
_SECRET_BYTES = 24
_LONGEST_COMMON_NAME = 64


class KeysError(Exception):
    """What is wrong, in one line with the way out."""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "name": {"type": "str", "default": ""},
            "names": {"type": "list", "elements": "str", "default": []},
            "is_client": {"type": "bool", "default": False},
            # Their names alone, which are none.
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
        },
        supports_check_mode=True,
    )
    if _MISSING:
        module.fail_json(msg=f"the controller's Python cannot make certificates ({_MISSING}); install cryptography")
    given = module.params
    keys = Keys(Path(given["directory"]).expanduser(), is_check_mode=module.check_mode)
    try:
        answer = keys.answer(given["name"], given["names"], given["secrets"], is_client=given["is_client"])
    except (KeysError, OSError, ValueError) as error:
        module.fail_json(msg=f"keys in {given['directory']}: {error}")
    module.exit_json(changed=keys.is_changed, **answer)


class Keys:
    """The directory. `is_changed`: something was made, or would be in check mode."""

    def __init__(self, directory: Path, *, is_check_mode: bool) -> None:
        self._directory = directory
        self._is_check_mode = is_check_mode
        self.is_changed = False

    def answer(self, name: str, names: list[str], wanted: Iterable[str], *, is_client: bool = False) -> dict[str, Any]:
        with self._locked():
            authority = self._pair(AUTHORITY) or self._made(AUTHORITY, [], None)
            _require_valid(authority[0])
            pair: tuple[str, str] = ("", "")
            if name:
                pair = self._pair(name) or ("", "")
                if not (pair[0] and authority[0] and _is_good(pair[0], authority[0], names, is_client)):
                    pair = self._made(name, names, authority, is_client=is_client)
            return {
                "authority": authority[0],
                "certificate": pair[0],
                "key": pair[1],
                "secrets": {each: self._secret(each) for each in wanted},
            }

    def _path(self, name: str, suffix: str) -> Path:
        if not _NAME.fullmatch(name):
            raise KeysError(f"{name!r} cannot be a name of keys; names have letters, digits, '.', '_', '@' and '-'")
        return self._directory / f"{name}.{suffix}"

    def _pair(self, name: str) -> tuple[str, str] | None:
        """Certificate and key; None if one of them is not there."""
        certificate, key = self._path(name, "pem"), self._path(name, "key")
        if not (certificate.is_file() and key.is_file()):
            if name == AUTHORITY and (certificate.is_file() or key.is_file()):
                raise KeysError(f"{certificate.name} and {key.name} belong together, and one of them is missing")
            return None
        return certificate.read_text("utf-8"), key.read_text("utf-8")

    def _made(
        self, name: str, names: list[str], authority: tuple[str, str] | None, *, is_client: bool = False
    ) -> tuple[str, str]:
        self.is_changed = True
        if self._is_check_mode:
            return "", ""
        certificate, key = _signed(name, names, authority, is_client=is_client)
        # The certificate comes last: what a run that was killed left is no pair.
        self._path(name, "pem").unlink(missing_ok=True)
        self._write(self._path(name, "key"), key)
        self._write(self._path(name, "pem"), certificate)
        return certificate, key

    def _secret(self, name: str) -> str:
        path = self._path(name, "secret")
        if path.is_file():
            return path.read_text("utf-8").strip()
        self.is_changed = True
        if self._is_check_mode:
            return ""
        text = secrets.token_urlsafe(_SECRET_BYTES)
        self._write(path, f"{text}\n")
        return text

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all."""
        making = path.with_name(f".{path.name}")
        making.unlink(missing_ok=True)
        with os.fdopen(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        making.rename(path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time: all hosts of a play ask at once."""
        if self._is_check_mode:
            yield
            return
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _require_valid(authority: str) -> None:
    """Raises KeysError. In check mode there may be none yet."""
    if not authority:
        return
    end = x509.load_pem_x509_certificate(authority.encode()).not_valid_after_utc
    if end <= datetime.datetime.now(datetime.UTC):
        raise KeysError(
            f"{AUTHORITY}.pem expired on {end:%Y-%m-%d}; remove all .pem and .key there, and run every playbook that "
            "uses them again"
        )


def _is_good(certificate: str, authority: str, names: list[str], is_client: bool) -> bool:
    found = x509.load_pem_x509_certificate(certificate.encode())
    left = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    if left < datetime.timedelta(days=RENEWED_DAYS_BEFORE):
        return False
    try:
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
        own = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except Exception:  # of whatever kind: it is made anew
        return False
    if is_client and ExtendedKeyUsageOID.CLIENT_AUTH not in uses:
        return False
    return list(own) == _alternative_names(names)


def _signed(name: str, names: list[str], authority: tuple[str, str] | None, *, is_client: bool) -> tuple[str, str]:
    """A certificate and its key, in PEM; without an authority that of an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Highwater"),
            x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_COMMON_NAME]),
        ]
    )
    now = datetime.datetime.now(datetime.UTC)
    days = CERTIFICATE_DAYS if authority else AUTHORITY_DAYS
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of hosts differ.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=not authority, path_length=None if authority else 0), critical=True)
        .add_extension(_usage(is_authority=not authority), critical=True)
    )
    if authority:
        issuer = x509.load_pem_x509_certificate(authority[0].encode())
        signing: Any = serialization.load_pem_private_key(authority[1].encode(), password=None)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if is_client else [])]
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            builder.issuer_name(issuer.subject)
            # Python 3.13 takes no certificate without it.
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .add_extension(x509.SubjectAlternativeName(_alternative_names(names)), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
    else:
        signing, builder = key, builder.issuer_name(subject)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = builder.sign(signing, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def _usage(*, is_authority: bool) -> Any:
    uses = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("encipher_only", "decipher_only"),
        ),
        False,
    )
    return x509.KeyUsage(digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority, **uses)


def _alternative_names(names: Iterable[str]) -> list[Any]:
    found: list[Any] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


if __name__ == "__main__":
    main()
