"""Which tokens let a client in, which do not, and how OAUTHBEARER tells it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jwk, jws, jwt

from highwater.broker.security.oauthbearer import (
    MOST_TOKEN_BYTES,
    Bearer,
    OAuthBearerExchange,
    TokenRules,
    bearer_of,
    bearer_of_unsecured,
    sentence,
)
from highwater.kafka.login.jwt import ALGORITHMS, Unbelieved, keys_of

NOW_S: Final = 1_800_000_000.0
KEY: Final = jwk.RSAKey.generate_key(2048, {"kid": "one"})
OTHER: Final = jwk.RSAKey.generate_key(2048, {"kid": "one"})
EC: Final = jwk.ECKey.generate_key("P-256", {"kid": "ec"})
ED: Final = jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"})
KEYS: Final = [dict(each.as_dict(private=False)) for each in (KEY, EC, ED)]
RULES: Final = TokenRules("https://issuer.example", frozenset({"brokers", "others"}))
RIGHT: Final[dict[str, Any]] = {
    "iss": "https://issuer.example",
    "aud": "brokers",
    "sub": "ada",
    "iat": int(NOW_S),
    "exp": int(NOW_S) + 300,
}

ADA: Final = Bearer("ada", NOW_S + 60)


def changed(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**RIGHT, **changes}.items() if value is not None}


def signed(claims: Any, key: Any = KEY, algorithm: str = "RS256", **header: Any) -> str:
    kid = {"kid": key.kid} if key.kid else {}
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    return jwt.encode({"alg": algorithm, **kid, **header}, claims, key, registry=registry)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def judged(token: str, rules: TokenRules = RULES, now_s: float = NOW_S) -> Bearer | str:
    found = bearer_of(token, KEYS, rules, now_s)
    return sentence(found.flaw) if isinstance(found, Unbelieved) else found


def test_a_right_token_names_its_user_and_its_end() -> None:
    assert judged(signed(RIGHT)) == Bearer("ada", NOW_S + 300)


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(KEY, "RS256"), (KEY, "RS512"), (KEY, "PS256"), (EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519")],
)
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # and used, by Keycloak for one
def test_asymmetric_algorithms_are_accepted(key: Any, algorithm: str) -> None:
    assert judged(signed(RIGHT, key, algorithm)) == Bearer("ada", NOW_S + 300)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"iss": ["https://issuer.example"]}, "another issuer"),
        ({"aud": "elsewhere"}, "another receiver"),
        ({"aud": None}, "another receiver"),
        ({"aud": [["brokers"]]}, "another receiver"),
        ({"aud": {"brokers": 1}}, "another receiver"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": None}, "does not say when"),
        ({"exp": "never"}, "does not say when"),
        ({"exp": True}, "does not say when"),
        ({"exp": 1e300}, "does not say when"),
        ({"iat": None}, "does not say when"),
        ({"iat": NOW_S + 31}, "of the future"),
        ({"nbf": NOW_S + 31}, "of the future"),
        ({"nbf": "soon"}, "does not say when"),
        ({"scope": 7}, "neither a text nor a list"),
        ({"sub": None}, "not a name of a user"),
        ({"sub": ""}, "not a name of a user"),
        ({"sub": " "}, "not a name of a user"),
        ({"sub": 7}, "not a name of a user"),
        ({"sub": ["ada"]}, "not a name of a user"),
        ({"sub": "ada\n2026 ERROR"}, "not a name of a user"),
        ({"sub": "ada\0"}, "not a name of a user"),
        ({"sub": "\x1b[2Jada"}, "not a name of a user"),
        ({"sub": "\u202eada"}, "not a name of a user"),
        ({"sub": "a" * 256}, "not a name of a user"),
    ],
)
def test_claims_that_let_nobody_in(changes: dict[str, Any], said: str) -> None:
    found = judged(signed(changed(**changes)))
    assert isinstance(found, str)
    assert said in found


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["elsewhere", "others"]},
        {"exp": NOW_S - 29},
        {"iat": NOW_S + 30},
        {"nbf": NOW_S + 30},
        {"scope": "read write"},
        {"scope": ["read"]},
        {"sub": "CN=ada, O=Tests"},
    ],
)
def test_claims_that_let_in(changes: dict[str, Any]) -> None:
    assert isinstance(judged(signed(changed(**changes))), Bearer)


def test_the_names_of_claims_can_be_set() -> None:
    rules = TokenRules(user_claim="client_id", scope_claim="scp")
    token = signed(changed(client_id="app", scp=["a"], scope=7, iss=None, aud=None))
    assert judged(token, rules) == Bearer("app", NOW_S + 300)


def test_a_wrong_key_under_the_right_name() -> None:
    assert judged(signed(RIGHT, OTHER)) == "the signature of the token is of none of the published keys"


@pytest.mark.parametrize("kid", ["../../../etc/passwd", "one\0", "", "' OR 1=1 --", "file:///dev/null", "x" * 4000])
def test_an_id_of_a_key_is_only_compared(kid: str) -> None:
    assert judged(signed(RIGHT, KEY, kid=kid)) == "the token is signed with a key that is not published"


def test_a_key_that_the_token_brings_is_not_looked_at() -> None:
    token = signed(RIGHT, OTHER, jwk=OTHER.as_dict(private=False), jku="https://evil.example/keys")
    assert judged(token) == "the signature of the token is of none of the published keys"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", "RS255", 7, None, ["RS256"]])
def test_a_token_without_a_signature(algorithm: Any) -> None:
    head, claims = part({"alg": algorithm, "kid": "one"}), part(RIGHT)
    for signature in ("", "AAAA"):
        found = judged(f"{head}.{claims}.{signature}")
        assert found in (
            f"the token is not signed by one of {', '.join(ALGORITHMS)}",
            "the token is not a signed JSON Web Token",
        )


@pytest.mark.parametrize("secret", [KEY.as_pem(private=False), json.dumps(KEYS[0]).encode(), b""])
def test_a_public_key_used_as_a_secret(secret: bytes) -> None:
    body = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(RIGHT)}"
    mac = hmac.new(secret, body.encode(), hashlib.sha256).digest()
    token = f"{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    assert judged(token) == f"the token is not signed by one of {', '.join(ALGORITHMS)}"


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "..", "a.b.c.d", "a.b.c.d.e", "é.é.é", "[" * 5000])
def test_what_is_no_token(token: str) -> None:
    assert judged(token) == "the token is not a signed JSON Web Token"


def test_a_token_that_is_nested_too_deep() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 20_000 + b"]" * 20_000).rstrip(b"=").decode()
    assert isinstance(judged(f"{part({'alg': 'RS256', 'kid': 'one'})}.{deep}.AAAA"), str)


def test_a_large_token() -> None:
    assert judged("a" * (1 << 20)) == "the token has more than 65,536 bytes"
    assert judged(signed(changed(more="x" * MOST_TOKEN_BYTES))) == "the token has more than 65,536 bytes"
    assert isinstance(judged(signed(changed(groups=["x" * 100] * 300))), Bearer)


def test_claims_that_are_no_object() -> None:
    token = jws.serialize_compact({"alg": "RS256", "kid": "one"}, b"[1]", KEY)
    assert isinstance(judged(token), str)


@pytest.mark.filterwarnings("ignore:Key size")
def test_a_small_key_is_not_believed() -> None:
    pem = rsa.generate_private_key(65537, 1024).private_bytes(  # noqa: S505 - that is the point
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    small = jwk.RSAKey.import_key(pem, {"kid": "one"})
    found = bearer_of(signed(RIGHT, small), [dict(small.as_dict(private=False))], RULES, NOW_S)
    assert isinstance(found, Unbelieved)


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"keys":1}', b"[" * 100_000, json.dumps({"keys": [{}] * 101}).encode()]
)
def test_what_is_no_set_of_keys(document: bytes) -> None:
    assert keys_of(document) is None


def test_a_set_of_keys_with_some_that_are_none() -> None:
    assert keys_of(json.dumps({"keys": [7, *KEYS, None]}).encode()) == tuple(KEYS)


# Tokens without a signature


def test_an_unsecured_token() -> None:
    token = f"{part({'alg': 'none'})}.{part({'sub': 'ada', 'exp': NOW_S + 60})}."
    assert bearer_of_unsecured(token, TokenRules(), NOW_S) == Bearer("ada", NOW_S + 60)
    assert bearer_of_unsecured(token, TokenRules(), NOW_S + 100) == "the token has expired"
    for wrong in (token + "AA", token.replace(".", "", 1), signed(RIGHT), "a.b.", ".."):
        assert bearer_of_unsecured(wrong, TokenRules(), NOW_S) == "the token is not an unsecured JSON Web Token"


# The exchange


def exchange(believed: Bearer | str = ADA) -> tuple[OAuthBearerExchange, list[str]]:
    seen: list[str] = []

    def believe(token: str) -> Bearer | str:
        seen.append(token)
        return believed

    return OAuthBearerExchange(believe, lambda: NOW_S), seen


@pytest.mark.parametrize(
    "first",
    [
        b"n,,\x01auth=Bearer a.b-_~+/.c==\x01\x01",
        b"n,a=ada,\x01auth=Bearer a.b-_~+/.c==\x01\x01",
        b"n,,\x01auth=bearer   a.b-_~+/.c==\x01traceId=7 x\x01\x01",
        b"n,,\x01logicalCluster=lkc\x01auth=BEARER a.b-_~+/.c==\x01\x01",
    ],
)
def test_first_messages(first: bytes) -> None:
    made, seen = exchange()
    step = made.step(first)
    assert (step.user, step.challenge, step.failure, step.lifetime_ms) == ("ada", b"", None, 60_000)
    assert seen == ["a.b-_~+/.c=="]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer d.e.f\x01\x01",
        b"n,,\x01auth=Bearer a.b.c d\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x00\x01\x01",
        b"n,,\x01Auth=Bearer a.b.c\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=x=y,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01\x01more",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01" + b"a=\x01" * 50_000,
        b"n,a=" + b"x" * 400_000,
    ],
)
def test_first_messages_that_are_none(first: bytes) -> None:
    made, seen = exchange()
    assert made.step(first).failure == "Authentication failed: Invalid OAUTHBEARER client first message"
    assert seen == []


def test_a_refused_token_is_told_in_json_and_fails_with_the_next_message() -> None:
    made, _ = exchange("the token has expired")
    first = made.step(b"n,,\x01auth=Bearer a.b.c\x01\x01")
    assert (first.user, first.failure) == (None, None)
    assert json.loads(first.challenge) == {"status": "invalid_token"}
    for answer in (b"\x01", b"n,,\x01auth=Bearer a.b.c\x01\x01"):
        assert made.step(answer).failure == "Authentication failed: the token has expired"


def test_another_authorisation_id_is_refused() -> None:
    made, _ = exchange()
    failure = made.step(b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01").failure
    assert failure is not None
    assert "authorization id" in failure
    assert "a.b.c" not in failure


def test_an_authorisation_id_with_a_comma() -> None:
    made, _ = exchange(Bearer("CN=ada,O=x", NOW_S + 60))
    assert made.step(b"n,a=CN=3Dada=2CO=3Dx,\x01auth=Bearer a.b.c\x01\x01").user == "CN=ada,O=x"
