"""OAUTHBEARER (RFC 7628, KIP-255), the server's side, and what a token must say. Tokens and times in."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from highwater.broker.security.sasl import Step
from highwater.kafka.login.jwt import (
    ALGORITHMS,
    Claims,
    Flaw,
    Keys,
    Unbelieved,
    signed_claims,
    unix_time,
)

MOST_TOKEN_BYTES: Final = 65_536
_LONGEST_USER: Final = 255
_REFUSED: Final = b'{"status":"invalid_token"}'
_FIRST: Final = re.compile(
    rb"n,(?:a=((?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D|[\x80-\xff])+))?,"
    rb"\x01((?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)+)\x01",
)
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([-_.~+/A-Za-z0-9]+=*) *")
_MALFORMED: Final = "Authentication failed: Invalid OAUTHBEARER client first message"


class Bearer(NamedTuple):
    """Who a token says that its bearer is, and until when."""

    user: str
    ends_s: float
    """Since the epoch."""


class TokenRules(NamedTuple):
    """The rules of one listener; Kafka's `sasl.oauthbearer.` properties."""

    issuer: str | None = None
    audiences: frozenset[str] = frozenset()
    """One of them must be among the receivers of a token; empty: none need be."""
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    user_claim: str = "sub"


class OAuthBearerExchange:
    """A challenge in JSON reports a refused token; the exchange fails with the message that follows (RFC 7628)."""

    def __init__(self, believe: Callable[[str], Bearer | str], now_s: Callable[[], float]) -> None:
        """`believe` returns who bears a token, or why it is refused."""
        self._believe = believe
        self._now_s = now_s
        self._failure: str | None = None

    def step(self, token: bytes) -> Step:
        if self._failure is not None:
            return Step(failure=self._failure)
        found = _FIRST.fullmatch(token)
        if found is None:
            return Step(failure=_MALFORMED)
        pairs = [pair.decode("ascii").partition("=") for pair in found[2].split(b"\x01") if pair]
        values = [value for name, _, value in pairs if name == "auth"]
        bearer_token = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if bearer_token is None:
            return Step(failure=_MALFORMED)
        bearer = self._believe(bearer_token[1])
        if isinstance(bearer, str):
            self._failure = f"Authentication failed: {bearer}"
            return Step(_REFUSED)
        if found[1] is not None and _name(found[1]) != bearer.user:
            return Step(
                failure="Authentication failed: Client requested an authorization id that is not the user of its token"
            )
        lifetime_ms = max(1000, math.ceil((bearer.ends_s - self._now_s()) * 1000))
        return Step(user=bearer.user, lifetime_ms=lifetime_ms)


def _name(saslname: bytes) -> str:
    return saslname.decode(errors="replace").replace("=2C", ",").replace("=3D", "=")


def bearer_of(token: str, keys: Keys, rules: TokenRules, now_s: float) -> Bearer | str | Unbelieved:
    """Who bears a token that one of the keys has signed; a sentence, or a flaw of the signature, if it is refused."""
    if len(token) > MOST_TOKEN_BYTES:
        return f"the token has more than {MOST_TOKEN_BYTES:,} bytes"
    claims = signed_claims(token, keys)
    return claims if isinstance(claims, Unbelieved) else _bearer(claims, rules, now_s)


def bearer_of_unsecured(token: str, rules: TokenRules, now_s: float) -> Bearer | str:
    """Who bears a token without a signature: whoever the client says. For tests of clients, as with Kafka."""
    parts = token.split(".")
    if len(token) > MOST_TOKEN_BYTES or len(parts) != 3 or parts[2]:
        return "the token is not an unsecured JSON Web Token"
    header, claims = (_object_of(part) for part in parts[:2])
    if header is None or claims is None or header.get("alg") != "none":
        return "the token is not an unsecured JSON Web Token"
    # Kafka demands no `iat` of these.
    return _bearer({"iat": now_s, **claims}, rules, now_s)


_SENTENCES: Final = {
    Flaw.NO_TOKEN: "the token is not a signed JSON Web Token",
    Flaw.ALGORITHM: f"the token is not signed by one of {', '.join(ALGORITHMS)}",
    Flaw.UNKNOWN_KEY: "the token is signed with a key that is not published",
    Flaw.SIGNATURE: "the signature of the token is of none of the published keys",
}


def sentence(flaw: Flaw) -> str:
    return _SENTENCES[flaw]


def _bearer(claims: Claims, rules: TokenRules, now_s: float) -> Bearer | str:
    receivers = claims.get("aud")
    receivers = [receivers] if isinstance(receivers, str) else receivers
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        return "the token is of another issuer"
    if rules.audiences and not (
        isinstance(receivers, list) and any(each in rules.audiences for each in receivers if isinstance(each, str))
    ):
        return "the token is for another receiver"
    ends, made, begins = (unix_time(claims, name) for name in ("exp", "iat", "nbf"))
    if ends is None or made is None or ("nbf" in claims and begins is None):
        return "the token does not say when it was made and when it ends"
    if now_s - ends >= rules.clock_skew_s:
        return "the token has expired"
    if max(made, begins or made) - now_s > rules.clock_skew_s:
        return "the token is of the future"
    scope = claims.get(rules.scope_claim)
    if not (scope is None or isinstance(scope, str) or (isinstance(scope, list) and _are_texts(scope))):
        return f"the claim {rules.scope_claim} of the token is neither a text nor a list of texts"
    user = claims.get(rules.user_claim)
    # A control character in a name would begin a line of its own in a log, or hide the rest of one.
    if not isinstance(user, str) or not 0 < len(user) <= _LONGEST_USER or not user.isprintable() or user.isspace():
        return f"the claim {rules.user_claim} of the token is not a name of a user"
    return Bearer(user, ends)


def _are_texts(values: list[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _object_of(part: str) -> Claims | None:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
