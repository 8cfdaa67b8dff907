"""Passwords as scrypt strings in PHC's form; the cost is part of the string, so that it can rise."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import unicodedata
from dataclasses import dataclass
from typing import Final

SHORTEST_PASSWORD: Final = 12
LONGEST_PASSWORD: Final = 256
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32
_PHC: Final = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """What one try costs: 128 · r · 2^log2_n bytes of memory, and time in proportion to that times p.

    By default 32 MiB three times, which counts as much as 128 MiB once in OWASP's recommendations: a login must not be
    what a monitor needs most memory for.
    """

    log2_n: int = 15
    r: int = 8
    p: int = 3


def password_problem(password: str) -> str:
    """Why `password` is refused, as a sentence; empty if it is good enough."""
    if len(password) < SHORTEST_PASSWORD:
        return f"The password has {len(password)} characters, but needs at least {SHORTEST_PASSWORD}."
    if len(password) > LONGEST_PASSWORD:
        return f"The password has {len(password)} characters, but may have at most {LONGEST_PASSWORD}."
    if len(set(password)) < SHORTEST_PASSWORD // 3:
        return "The password repeats a few characters. Use several words."
    return ""


def hashed(password: str, cost: ScryptCost) -> str:
    """Return the hash with a new salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return f"$scrypt$ln={cost.log2_n},r={cost.r},p={cost.p}${_text(salt)}${_text(_scrypt(password, cost, salt))}"


def matches(password: str, phc: str) -> bool:
    """Takes as long for a wrong password as for the right one."""
    cost, salt, expected = _parsed(phc)
    return hmac.compare_digest(_scrypt(password, cost, salt), expected)


def is_cheaper(phc: str, cost: ScryptCost) -> bool:
    """True if `phc` was made at a lower cost than `cost`."""
    made, _, _ = _parsed(phc)
    return (made.log2_n, made.r, made.p) < (cost.log2_n, cost.r, cost.p)


def _scrypt(password: str, cost: ScryptCost, salt: bytes) -> bytes:
    # Keyboards and systems write an accented letter in different ways (RFC 8265 names NFC for passwords).
    secret = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
    n = 1 << cost.log2_n
    # OpenSSL refuses to take more than 32 MiB without `maxmem`; it needs a little beside the blocks.
    memory_bytes = 128 * cost.r * (n + cost.p) + (1 << 20)
    return hashlib.scrypt(secret, salt=salt, n=n, r=cost.r, p=cost.p, maxmem=memory_bytes, dklen=_HASH_BYTES)


def _parsed(phc: str) -> tuple[ScryptCost, bytes, bytes]:
    match = _PHC.fullmatch(phc)
    if match is None:
        raise ValueError("not a scrypt string")
    log2_n, r, p, salt, expected = match.groups()
    return ScryptCost(int(log2_n), int(r), int(p)), _bytes(salt), _bytes(expected)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))
