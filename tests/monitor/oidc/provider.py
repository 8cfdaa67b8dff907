"""An OpenID provider in memory, which answers as it is told to, rightly or not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc import jwk, jws, jwt

from highwater.common.bounded_http import Answer, Question
from highwater.monitor.oidc.refusal import Refusal
from highwater.monitor.oidc.roles import RoleTable
from highwater.monitor.oidc.settings import OidcSettings
from highwater.monitor.users import Role

ISSUER = "https://sso.example/realm"
CLIENT = "highwater"
SECRET = "s3cr:t of client"  # noqa: S105 - of tests
TABLE = RoleTable("groups", {"readers": Role.VIEWER, "operators": Role.OPERATOR, "admins": Role.ADMIN})
SETTINGS = OidcSettings(ISSUER, CLIENT, TABLE, SECRET, "Example SSO")
KEY = jwk.RSAKey.generate_key(2048, {"kid": "one"})
OTHER_KEY = jwk.RSAKey.generate_key(2048, {"kid": "one"})

Claims = dict[str, Any]


def public(*keys: jwk.Key) -> list[dict[str, Any]]:
    return [dict(key.as_dict(private=False)) for key in keys]


def signed(claims: Claims, key: jwk.Key = KEY, algorithm: str = "RS256", **header: Any) -> str:
    made = {"alg": algorithm, "kid": "one", **header}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jwt.encode(
        {name: value for name, value in made.items() if value is not None}, claims, key, registry=registry
    )


def unsigned(claims: Claims, algorithm: str = "none") -> str:
    return f"{_segments({'alg': algorithm, 'kid': 'one'}, claims)}."


def signed_by_hand(claims: Claims, **header: Any) -> str:
    """With headers that a library would refuse to write."""
    text = _segments({"alg": "RS256", "kid": "one", **header}, claims)
    private = KEY.private_key
    assert private is not None
    return f"{text}.{_base64url(private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def signed_by_secret(claims: Claims, secret: bytes) -> str:
    """By HS256, also with what a library would not take as a secret."""
    text = _segments({"alg": "HS256", "kid": "one"}, claims)
    return f"{text}.{_base64url(hmac.digest(secret, text.encode(), 'sha256'))}"


def _segments(*parts: object) -> str:
    return ".".join(_base64url(json.dumps(part).encode()) for part in parts)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class FakeProvider:
    """Give it to OidcLogin as `asked`; `come_back` is what a browser brings after a person agreed."""

    now_s: Callable[[], float]
    settings: OidcSettings = SETTINGS
    document: dict[str, Any] = field(default_factory=dict)
    """Goes before what the discovery document says by itself."""
    claims: Claims = field(default_factory=lambda: {"sub": "u1", "preferred_username": "ada", "groups": ["readers"]})
    user_info: Claims | None = None
    keys: list[dict[str, Any]] = field(default_factory=lambda: public(KEY))
    sign: Callable[[Claims], str] = signed
    fault: Refusal | None = None
    """In place of every answer."""
    login: str = "Basic " + base64.b64encode(b"highwater:s3cr%3At+of+client").decode()
    """What the client must send with a code."""
    questions: list[Question] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def come_back(self, address: str, **changes: str) -> str:
        """The query with which the provider sends the browser back that came to `address`."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = f"code{len(self._codes)}"
        self._codes[code] = asked
        return urlencode({"code": code, "state": asked["state"], **changes})

    def __call__(self, question: Question) -> Answer | Refusal:
        self.questions.append(question)
        if self.fault is not None:
            return self.fault
        path = question.address.removeprefix(self.settings.issuer)
        if path == "/.well-known/openid-configuration":
            return _json(self._discovery())
        if path == "/keys":
            return _json({"keys": self.keys})
        if path == "/token":
            return self._token(question)
        if path == "/userinfo" and self.user_info is not None:
            right = question.authorization == "Bearer the-access-token"
            return _json(self.user_info) if right else Answer(401, b"")
        return Answer(404, b"nothing here")

    def _discovery(self) -> dict[str, Any]:
        issuer = self.settings.issuer
        user_info = {} if self.user_info is None else {"userinfo_endpoint": f"{issuer}/userinfo"}
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
            "end_session_endpoint": f"{issuer}/end",
            "response_types_supported": ["code"],
            **user_info,
            **self.document,
        }

    def _token(self, question: Question) -> Answer:
        form = dict(question.form or {})
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return _json({"error": "invalid_grant"}, 400)
        if _base64url(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked["code_challenge"]:
            return _json({"error": "invalid_grant"}, 400)
        if question.authorization != self.login:
            return _json({"error": "invalid_client"}, 401)
        now_s = int(self.now_s())
        own = {"iss": self.settings.issuer, "aud": CLIENT, "iat": now_s, "exp": now_s + 300, "nonce": asked["nonce"]}
        claims = {name: value for name, value in {**own, **self.claims}.items() if value is not None}
        return _json({"id_token": self.sign(claims), "access_token": "the-access-token", "token_type": "Bearer"})


def _json(found: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(found).encode())
