"""Which ID tokens are believed, and why the others are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from joserfc import jwk

from highwater.monitor.oidc.id_token import CLOCK_SKEW_S, OLDEST_S, Expected, UnknownKey, claims_of
from highwater.monitor.oidc.refusal import Refusal
from tests.monitor.oidc.provider import (
    CLIENT,
    ISSUER,
    KEY,
    OTHER_KEY,
    public,
    signed,
    signed_by_hand,
    signed_by_secret,
    unsigned,
)

NOW_S = 1_800_000_000.0
NONCE = "a nonce"
EXPECTED = Expected(ISSUER, CLIENT, NONCE)
RIGHT: dict[str, Any] = {
    "iss": ISSUER, "aud": CLIENT, "sub": "u1", "nonce": NONCE, "iat": int(NOW_S), "exp": int(NOW_S) + 300,
}  # fmt: skip
EC_256 = jwk.ECKey.generate_key("P-256", {"kid": "one"})
EC_384 = jwk.ECKey.generate_key("P-384", {"kid": "one"})
ED = jwk.OKPKey.generate_key("Ed25519", {"kid": "one"})


def judged(token: str, *keys: jwk.Key, now_s: float = NOW_S) -> Any:
    return claims_of(token, public(*(keys or (KEY,))), EXPECTED, now_s)


def refusal(token: str, *keys: jwk.Key, now_s: float = NOW_S) -> str:
    """Of a refusal, or of a signature that no key fits."""
    found = judged(token, *keys, now_s=now_s)
    assert isinstance(found, Refusal | UnknownKey), found
    assert isinstance(found, UnknownKey) or found.is_of_provider
    return found.sentence


def changed(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**RIGHT, **changes}.items() if value is not None}


def test_a_right_token_gives_its_claims() -> None:
    assert judged(signed({**RIGHT, "groups": ["a"]})) == {**RIGHT, "groups": ["a"]}


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [(KEY, "RS256"), (KEY, "RS512"), (KEY, "PS256"), (EC_256, "ES256"), (EC_384, "ES384"), (ED, "Ed25519")],
)
def test_asymmetric_algorithms_are_accepted(key: jwk.Key, algorithm: str) -> None:
    assert judged(signed(RIGHT, key, algorithm), KEY, EC_256, EC_384, ED) == RIGHT


def test_a_token_without_a_signature_is_refused() -> None:
    for name in ("none", "None", "NONE", "nOnE", ""):
        assert "not signed by one of" in refusal(unsigned(RIGHT, name))
    assert refusal(unsigned(RIGHT, "RS256"))


def test_the_public_key_as_the_secret_of_hs256_is_refused() -> None:
    for secret in (KEY.as_pem(private=False), json.dumps(public(KEY)[0]).encode()):
        assert "not signed by one of" in refusal(signed_by_secret(RIGHT, secret))
    # Not even if the provider's set has a symmetric key.
    shared = jwk.OctKey.import_key("x" * 40, {"kid": "one"})
    assert "not signed by one of" in refusal(signed(RIGHT, shared, "HS256"), shared)


def test_another_ones_key_is_refused_though_it_has_the_id_of_the_right_one() -> None:
    assert "signature" in refusal(signed(RIGHT, OTHER_KEY))


def test_a_key_that_the_token_brings_along_is_not_looked_at() -> None:
    own = public(OTHER_KEY)[0]
    assert "signature" in refusal(signed(RIGHT, OTHER_KEY, jwk=own))
    assert "signature" in refusal(signed(RIGHT, OTHER_KEY, jku="https://evil.example/keys"))


def test_changed_claims_are_refused() -> None:
    token = signed(RIGHT).split(".")
    other = signed(changed(sub="admin")).split(".")
    assert "signature" in refusal(f"{token[0]}.{other[1]}.{token[2]}")


def test_a_key_for_another_use_algorithm_or_curve_does_not_count() -> None:
    token = signed(RIGHT)
    for change in ({"use": "enc"}, {"alg": "RS512"}, {"kid": "two"}, {"kty": "EC"}):
        assert isinstance(claims_of(token, [{**public(KEY)[0], **change}], EXPECTED, NOW_S), UnknownKey)
    on_256 = signed(RIGHT, EC_256, "ES256")
    assert isinstance(judged(on_256, EC_384), UnknownKey)


def test_without_an_id_every_fitting_key_is_tried() -> None:
    assert judged(signed(RIGHT, kid=None), OTHER_KEY, KEY) == RIGHT
    nameless = {name: value for name, value in public(KEY)[0].items() if name != "kid"}
    assert claims_of(signed(RIGHT), [nameless], EXPECTED, NOW_S) == RIGHT


@pytest.mark.filterwarnings("ignore:Key size should be")
def test_a_short_rsa_key_is_refused() -> None:
    short = jwk.RSAKey.generate_key(1024, {"kid": "one"})
    assert "signature" in refusal(signed(RIGHT, short), short)


def test_damaged_keys_are_passed_over() -> None:
    keys: list[dict[str, Any]] = [{"kty": "RSA", "kid": "one"}, {"kty": "RSA", "n": "?", "e": 3}, *public(KEY)]
    assert claims_of(signed(RIGHT), keys, EXPECTED, NOW_S) == RIGHT


@pytest.mark.parametrize(
    ("claims", "word"),
    [
        (changed(iss="https://sso.example"), "another issuer"),
        (changed(iss=ISSUER + "/"), "another issuer"),
        (changed(iss=None), "another issuer"),
        (changed(aud="somebody"), "another client"),
        (changed(aud=None), "another client"),
        (changed(aud={CLIENT: 1}), "another client"),
        (changed(aud=["other", CLIENT]), "several clients"),
        (changed(aud=["other", CLIENT], azp="other"), "several clients"),
        (changed(azp="other"), "several clients"),
        (changed(nonce="another"), "another login"),
        (changed(nonce=None), "another login"),
        (changed(nonce=7), "another login"),
        (changed(sub=None), "who the person is"),
        (changed(sub=""), "who the person is"),
        (changed(sub="x" * 256), "who the person is"),
        (changed(sub=17), "who the person is"),
        (changed(exp=None), "when"),
        (changed(iat=None), "when"),
        (changed(exp="soon"), "when"),
        (changed(exp=True), "when"),
        (changed(exp=float("inf")), "when"),
        (changed(nbf="x"), "when"),
    ],
)
def test_what_a_token_must_say(claims: dict[str, Any], word: str) -> None:
    assert word in refusal(signed(claims))


def test_several_receivers_are_right_if_it_was_made_for_this_one() -> None:
    claims = changed(aud=["other", CLIENT], azp=CLIENT)
    assert judged(signed(claims)) == claims


@pytest.mark.parametrize(
    ("claims", "late_s", "word"),
    [
        ({"exp": int(NOW_S)}, CLOCK_SKEW_S - 1, ""),
        ({"exp": int(NOW_S)}, CLOCK_SKEW_S, "too old"),
        ({"iat": int(NOW_S), "exp": int(NOW_S) + 86_400}, OLDEST_S + CLOCK_SKEW_S, ""),
        ({"iat": int(NOW_S), "exp": int(NOW_S) + 86_400}, OLDEST_S + CLOCK_SKEW_S + 1, "too old"),
        ({"iat": int(NOW_S) + CLOCK_SKEW_S}, 0, ""),
        ({"iat": int(NOW_S) + CLOCK_SKEW_S + 1}, 0, "future"),
        ({"nbf": int(NOW_S) + CLOCK_SKEW_S + 1}, 0, "future"),
    ],
)
def test_times_count_with_a_minute_between_the_clocks(claims: dict[str, Any], late_s: int, word: str) -> None:
    token = signed(changed(**claims))
    if word:
        assert word in refusal(token, now_s=NOW_S + late_s)
    else:
        assert judged(token, now_s=NOW_S + late_s)["sub"] == "u1"


@pytest.mark.parametrize(
    "token", ["", "x", "a.b", "a.b.c", "a.b.c.d.e", "é.é.é", signed(RIGHT) + ".x", signed(RIGHT)[:-20] + "%", "." * 9]
)
def test_what_is_no_token_is_refused_in_words(token: str) -> None:
    assert refusal(token)


def test_a_critical_header_that_nobody_knows_is_refused() -> None:
    assert judged(signed_by_hand(RIGHT)) == RIGHT
    assert refusal(signed_by_hand(RIGHT, crit=["x"], x=1))
    assert refusal(signed_by_hand(RIGHT, crit=["b64"], b64=False))
