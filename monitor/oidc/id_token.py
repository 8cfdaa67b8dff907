"""Who a person is, by an ID token: signature, issuer, receiver, times and nonce."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from highwater.kafka.login.jwt import ALGORITHMS, Flaw, Unbelieved, signed_claims, unix_time
from highwater.monitor.oidc.refusal import Refusal, provider_fault
from highwater.monitor.oidc.roles import Claims

CLOCK_SKEW_S: Final = 60
"""How far the clocks of provider and monitor may differ."""
OLDEST_S: Final = 600
"""A token is made when a person comes back from the provider: an older one is of another login."""
_LONGEST_SUBJECT: Final = 255


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say to be the answer to this login."""

    issuer: str
    client_id: str
    nonce: str


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """The signature is of no key in the set: perhaps the provider has a new one since, also under an old id."""

    sentence: str


def claims_of(
    token: str, keys: Sequence[Mapping[str, Any]], expected: Expected, now_s: float
) -> Claims | Refusal | UnknownKey:
    """The claims of a token that can be believed."""
    claims = signed_claims(token, keys)
    if not isinstance(claims, Unbelieved):
        return _problem(claims, expected, now_s) or claims
    if claims.flaw is Flaw.NO_TOKEN:
        return provider_fault("The provider's ID token is not a signed JSON Web Token.")
    if claims.flaw is Flaw.ALGORITHM:
        return provider_fault(
            f"The ID token is not signed by one of {', '.join(ALGORITHMS)}, which alone are accepted."
        )
    if claims.flaw is Flaw.UNKNOWN_KEY:
        return UnknownKey("The ID token is signed with a key that the provider does not publish.")
    return UnknownKey("The signature of the ID token is not that of the provider.")


def _problem(claims: Claims, expected: Expected, now_s: float) -> Refusal | None:
    subject, nonce, party = claims.get("sub"), claims.get("nonce"), claims.get("azp")
    receivers = claims.get("aud")
    receivers = [receivers] if isinstance(receivers, str) else receivers
    if claims.get("iss") != expected.issuer:
        return provider_fault("The ID token is of another issuer.")
    if not isinstance(receivers, list) or expected.client_id not in receivers:
        return provider_fault("The ID token is for another client.")
    if party not in (None, expected.client_id) or (len(receivers) > 1 and party is None):
        return provider_fault("The ID token is for several clients, and was not made for this one.")
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), expected.nonce.encode()):
        return provider_fault("The ID token is the answer to another login.")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
        return provider_fault("The ID token does not say who the person is.")
    return _problem_of_times(claims, now_s)


def _problem_of_times(claims: Claims, now_s: float) -> Refusal | None:
    ends, made, begins = (unix_time(claims, name) for name in ("exp", "iat", "nbf"))
    if ends is None or made is None or ("nbf" in claims and begins is None):
        return provider_fault("The ID token does not say when it was made and when it ends.")
    hint = "compare the clocks of this host and of the provider"
    if now_s - ends >= CLOCK_SKEW_S or now_s - made > OLDEST_S + CLOCK_SKEW_S:
        return provider_fault(f"The ID token is too old: {hint}.")
    if max(made, begins or made) - now_s > CLOCK_SKEW_S:
        return provider_fault(f"The ID token is dated in the future: {hint}.")
    return None
