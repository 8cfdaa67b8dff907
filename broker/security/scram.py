"""SCRAM credentials (RFC 5802, KIP-84, KIP-554), which the broker stores instead of passwords."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384


class ScramMechanism(IntEnum):
    """The values are those of the protocol."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def text(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


Credentials = Mapping[ScramMechanism, ScramCredential]
"""Of one user."""


def credential_of_salted_password(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """Return the stored credential of a password that the client has salted and hashed."""

    def keyed(message: bytes) -> bytes:
        return hmac.digest(salted_password, message, mechanism.hash_name)

    stored_key = hashlib.new(mechanism.hash_name, keyed(b"Client Key")).digest()
    return ScramCredential(salt, stored_key, keyed(b"Server Key"), iterations)


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def encode_credential(credential: ScramCredential) -> str:
    """Encode for the znode of its user (ScramCredentialUtils)."""
    salt, stored_key, server_key = (b64encode(part).decode() for part in credential[:3])
    return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={credential.iterations}"


def decode_credential(text: str) -> ScramCredential:
    """Decode the text of `encode_credential`. Raises ValueError or KeyError for any other text."""
    fields = dict(part.split("=", 1) for part in text.split(","))
    salt, stored_key, server_key = (
        b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))
