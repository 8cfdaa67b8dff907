"""What a provider says of itself: its discovery document and its keys, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from highwater.common.bounded_http import address_problem
from highwater.kafka.login import jwt
from highwater.monitor.oidc.refusal import Refusal, provider_fault

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"


@dataclass(frozen=True, slots=True)
class Provider:
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    """Empty if it has none."""
    end_session_endpoint: str = ""
    """Where a person ends the session at the provider; empty if it has no such page."""
    secret_by: str = BASIC
    """How it wants the client's secret: BASIC or POST."""
    names_itself: bool = False
    """It repeats its issuer in the answer that the browser brings (RFC 9207)."""


def provider_of(document: bytes, issuer: str) -> Provider | Refusal:
    """Read the discovery document of `issuer`."""
    found = object_of(document)
    if found is None:
        return provider_fault(f"The discovery document of {issuer} is not a JSON object.")
    if found.get("issuer") != issuer:
        return provider_fault(
            f"What answers at {issuer} says that it is another issuer: compare both, letter by letter."
        )
    if "code" not in _texts(found, "response_types_supported", ["code"]):
        return provider_fault(f"{issuer} does not offer the code flow.")
    if "S256" not in _texts(found, "code_challenge_methods_supported", ["S256"]):
        return provider_fault(f"{issuer} does not offer PKCE with S256.")
    methods = _texts(found, "token_endpoint_auth_methods_supported", [BASIC])
    addresses = {}
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint"):
        value = found.get(name, "" if name in ("userinfo_endpoint", "end_session_endpoint") else None)
        if not isinstance(value, str):
            return provider_fault(f"The discovery document of {issuer} has no {name}.")
        if value and (problem := address_problem(value)):
            return provider_fault(f"The {name} of {issuer} {problem}.")
        addresses[name] = value
    return Provider(
        **addresses,
        secret_by=BASIC if BASIC in methods or POST not in methods else POST,
        names_itself=found.get("authorization_response_iss_parameter_supported") is True,
    )


def keys_of(document: bytes) -> tuple[Mapping[str, Any], ...] | Refusal:
    """Read a JSON Web Key Set; what a key is worth is decided when a signature names it."""
    keys = jwt.keys_of(document)
    return provider_fault("The provider's set of keys is not understood.") if keys is None else keys


def object_of(document: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _texts(found: Mapping[str, Any], name: str, default: list[str]) -> list[str]:
    value = found.get(name, default)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
