"""JSON Web Tokens: which signatures are believed, by the public keys of who made them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

Claims = Mapping[str, Any]
Keys = Sequence[Mapping[str, Any]]
"""JSON Web Keys, as they were published."""

_MOST_KEYS: Final = 100
_SMALLEST_RSA_BITS: Final = 2048
_LONGEST_HEADER_BYTES: Final = 8192  # some providers put their certificates there
# By algorithm: type and curve of its key. Asymmetric ones alone: with HS256, who has the public key could sign.
_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    **{f"{family}{bits}": ("RSA", "") for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "Ed25519": ("OKP", "Ed25519"),
    "EdDSA": ("OKP", "Ed25519"),
}
ALGORITHMS: Final = tuple(_KEYS)


class Flaw(Enum):
    NO_TOKEN = auto()
    ALGORITHM = auto()
    UNKNOWN_KEY = auto()
    """The signature names a key that is not there: perhaps there is a new one since."""
    SIGNATURE = auto()
    """It is of none of the keys: perhaps there is a new one since, under an old id."""


@dataclass(frozen=True, slots=True)
class Unbelieved:
    flaw: Flaw


def keys_of(document: bytes) -> tuple[Mapping[str, Any], ...] | None:
    """Read a JSON Web Key Set; None if it is none. What a key is worth is decided when a signature names it."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
        return None
    return tuple(key for key in keys if isinstance(key, dict))


def signed_claims(token: str, keys: Keys) -> Claims | Unbelieved:
    """The claims of a token that one of the keys has signed; times, issuer and receiver are left to the caller."""
    from joserfc import jwk, jws, jwt
    from joserfc.errors import JoseError

    registry = jws.JWSRegistry(algorithms=list(_KEYS), strict_check_header=False)
    registry.max_header_length = _LONGEST_HEADER_BYTES
    try:
        header = jws.extract_compact(token.encode(), registry=registry).headers()
    except (JoseError, ValueError, TypeError, RecursionError):
        return Unbelieved(Flaw.NO_TOKEN)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _KEYS:
        return Unbelieved(Flaw.ALGORITHM)
    fitting = [key for key in keys if _fits(key, algorithm, header.get("kid"))]
    if not fitting:
        return Unbelieved(Flaw.UNKNOWN_KEY)
    for each in fitting:
        try:
            key = jwk.JWKRegistry.import_key(dict(each))
            if isinstance(key, jwk.RSAKey) and key.public_key.key_size < _SMALLEST_RSA_BITS:
                continue
            return jwt.decode(token, key, registry=registry).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            continue
    return Unbelieved(Flaw.SIGNATURE)


def unix_time(claims: Claims, name: str) -> float | None:
    """A claim that is a time, in seconds since the epoch; None if there is none."""
    value = claims.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 2**53 else None


def _fits(key: Mapping[str, Any], algorithm: str, key_id: Any) -> bool:
    kind, curve = _KEYS[algorithm]
    return (
        key.get("kty") == kind
        and (not curve or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (key_id is None or key.get("kid") in (None, key_id))
    )
