"""SCRAM credentials (RFC 5802, KIP-84, KIP-554), which the broker stores instead of passwords."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

LEAST_ITERATIONS: Final = 4096
"""RFC 7677, section 4."""
MOST_ITERATIONS: Final = 16384
"""Kafka's limit for a user that is set through the protocol: a client hashes for 4 to 10 ms."""
MOST_ITERATIONS_OF_A_SERVER: Final = 1_000_000
"""The limit for a user of another server, which may allow more: a client hashes for 0.2 to 0.6 s."""
_ITERATIONS: Final = re.compile(r"(?:^|,)i=([^,]*)")
_LONGEST_COUNT: Final = len(str(MOST_ITERATIONS_OF_A_SERVER))
_SHOWN: Final = 10
_LEAST_SALT_BYTES: Final = 1
"""Kafka's minimum: RFC 5802 sets no other, and tools of others write salts of 8 bytes."""
_BASE_36: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


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
"""The credentials of one user."""


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


def scram_library() -> Any:
    """Import scramp, made to take the salts, names and passwords that Kafka takes; most brokers never need it.

    Kafka, its Java client and librdkafka compare names and passwords as they are (ScramFormatter.normalize). RFC 5802
    prepares them with SASLprep, which would turn some into others, that nobody is called.
    """
    import scramp
    from scramp import core

    core.Salt.MIN_LENGTH = _LEAST_SALT_BYTES
    core.saslprep = str
    return scramp


def iterations_problem(server_first: str) -> str | None:
    """Why a client must not hash as often as the first message of a server demands, or None."""
    found = _ITERATIONS.search(server_first)
    if found is None:
        return None  # no message of SCRAM, as whoever reads it says
    text = found[1]
    is_count = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_COUNT
    if is_count and LEAST_ITERATIONS <= int(text) <= MOST_ITERATIONS_OF_A_SERVER:
        return None
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return (
        f"the server demands {shown!r} iterations of SCRAM; "
        f"this client takes {LEAST_ITERATIONS:,} to {MOST_ITERATIONS_OF_A_SERVER:,}"
    )


def decoy(users: Mapping[str, Credentials], mechanism: ScramMechanism, user: str) -> ScramCredential:
    """Return a credential that no password fits, so that a client cannot find out that a user does not exist.

    It looks like that of the first user by name, from whose credential the salt is derived too: so it is the same on
    all brokers of a cluster, and after a restart.
    """
    model = min(((name, known[mechanism]) for name, known in users.items() if mechanism in known), default=None)
    like = ScramCredential(bytes(16), b"", b"", LEAST_ITERATIONS) if model is None else model[1]
    size = max(len(like.salt), _LEAST_SALT_BYTES)

    def derived(purpose: str, size: int) -> bytes:
        key = hmac.digest(like.stored_key, f"{purpose}\0{mechanism.text}\0{user}".encode(), "sha512")
        return hashlib.shake_256(key).digest(size)

    salt = derived("salt", size)
    if like.salt.translate(None, _BASE_36) == b"":  # Kafka's own tools make salts of digits and small letters
        salt = bytes(_BASE_36[byte % len(_BASE_36)] for byte in salt)
    key_bytes = hashlib.new(mechanism.hash_name).digest_size
    return ScramCredential(salt, derived("stored", key_bytes), derived("server", key_bytes), like.iterations)
