"""Addresses, discovery documents, keys, claims, pending logins: what is taken, and what is refused with which words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from highwater.common.bounded_http import Answer, Question, address_problem
from highwater.monitor.oidc.discovery import BASIC, POST, Provider, keys_of, provider_of
from highwater.monitor.oidc.known import KEPT_S, RENEWED_AFTER_S, KnownProvider
from highwater.monitor.oidc.pending import KEPT_S as PENDING_S
from highwater.monitor.oidc.pending import Pending, PendingLogins
from highwater.monitor.oidc.refusal import Refusal, provider_fault
from highwater.monitor.oidc.roles import RoleTable, claim_of
from highwater.monitor.oidc.settings import issuer_problem
from highwater.monitor.users import Role
from tests.monitor.oidc.provider import ISSUER, SETTINGS, FakeProvider

DOCUMENT: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}


@pytest.mark.parametrize(
    "address",
    [
        "https://sso.example",
        "https://sso.example:8443/a/b?c=d",
        "http://127.0.0.1:5556/dex",
        "http://localhost",
        "http://[::1]:1",
    ],
)
def test_addresses_that_are_asked(address: str) -> None:
    assert address_problem(address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "http://sso.example",
        "http://10.0.0.1",
        "http://localhost.evil.example",
        "http://127.0.0.1.nip.io",
        "http://127.0.0.1@evil.example",
        "https://user:secret@sso.example",
        "https://",
        "https:///path",
        "https://sso.example/#part",
        "https://sso.example/a b",
        "https://sso.example/\r\nHost: x",
        "https://sso.example:port",
        "https://sso.example:99999",
        "https://[::1",
        "ftp://sso.example",
        "file:///etc/passwd",
        "sso.example",
        "",
        "https://süd.example",
    ],
)
def test_addresses_that_are_not_asked(address: str) -> None:
    assert address_problem(address)


def test_an_issuer_has_no_query() -> None:
    assert issuer_problem(ISSUER) == ""
    assert issuer_problem(f"{ISSUER}?a=b")


def found(**changes: Any) -> Provider | Refusal:
    document = {name: value for name, value in {**DOCUMENT, **changes}.items() if value is not None}
    return provider_of(json.dumps(document).encode(), ISSUER)


def test_a_discovery_document_says_where_things_are() -> None:
    assert found() == Provider(f"{ISSUER}/authorize", f"{ISSUER}/token", f"{ISSUER}/keys")
    both = found(token_endpoint_auth_methods_supported=[POST, BASIC])
    only_post = found(token_endpoint_auth_methods_supported=[POST, "private_key_jwt"])
    assert isinstance(both, Provider)
    assert isinstance(only_post, Provider)
    assert (both.secret_by, only_post.secret_by) == (BASIC, POST)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"issuer": "https://sso.example/other"}, "another issuer"),
        ({"issuer": ISSUER + "/"}, "another issuer"),
        ({"issuer": None}, "another issuer"),
        ({"token_endpoint": None}, "no token_endpoint"),
        ({"token_endpoint": 7}, "no token_endpoint"),
        ({"jwks_uri": "http://sso.example/keys"}, "jwks_uri .* must be https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint .* not an https"),
        ({"end_session_endpoint": "http://sso.example/end"}, "end_session_endpoint .* must be https"),
        ({"userinfo_endpoint": "https://a@b/"}, "userinfo_endpoint"),
        ({"response_types_supported": ["id_token"]}, "code flow"),
        ({"response_types_supported": "code"}, "code flow"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
    ],
)
def test_a_discovery_document_that_is_refused(changes: dict[str, Any], word: str) -> None:
    refused = found(**changes)
    assert isinstance(refused, Refusal)
    assert re.search(word, refused.sentence), refused.sentence


@pytest.mark.parametrize("document", [b"", b"<html>", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_document_is_refused(document: bytes) -> None:
    assert isinstance(provider_of(document, ISSUER), Refusal)
    assert isinstance(keys_of(document), Refusal)


def test_keys_that_are_no_objects_are_left_out() -> None:
    assert keys_of(b'{"keys": [1, {"kty": "RSA"}, null]}') == ({"kty": "RSA"},)
    assert isinstance(keys_of(b'{"keys": {}}'), Refusal)
    assert isinstance(keys_of(json.dumps({"keys": [{}] * 101}).encode()), Refusal)


TABLE = RoleTable("groups", {"readers": Role.VIEWER, "admins": Role.ADMIN, "1": Role.ADMIN, "True": Role.ADMIN})


@pytest.mark.parametrize(
    ("claims", "role"),
    [
        ({"groups": ["readers"]}, Role.VIEWER),
        ({"groups": "readers"}, Role.VIEWER),
        ({"groups": ["readers", "x", "admins"]}, Role.ADMIN),
        ({"groups": ["Readers", "readers ", "reader", "readers,admins"]}, None),
        ({"groups": []}, None),
        ({"groups": None}, None),
        ({"groups": [["admins"]]}, None),
        ({"groups": {"admins": True}}, None),
        ({"groups": [1, True, None]}, None),
        ({"groups": 1}, None),
        ({"roles": ["admins"]}, None),
        ({}, None),
    ],
)
def test_a_role_comes_from_values_of_the_table_alone(claims: dict[str, Any], role: Role | None) -> None:
    assert TABLE.role(claims) is role


def test_a_claim_may_be_inside_others_or_have_dots_in_its_name() -> None:
    assert claim_of({"realm_access": {"roles": ["a"]}}, "realm_access.roles") == ["a"]
    assert claim_of({"https://example.org/roles": ["a"]}, "https://example.org/roles") == ["a"]
    assert claim_of({"a.b": 1, "a": {"b": 2}}, "a.b") == 1
    assert claim_of({"a": ["b"]}, "a.b") is None
    assert claim_of({"a": {"b": 1}}, "a.b.c") is None


def pending(began_s: float = 0, address: str = "10.0.0.1", browser: str = "b") -> Pending:
    return Pending(began_s, address, browser, "http://localhost/oidc/callback", "/")


def test_a_login_comes_back_once_to_its_browser_in_time() -> None:
    logins = PendingLogins()
    state = logins.begin(pending())
    assert logins.take(state, "other", 1) is None
    assert logins.take("", "b", 1) is None
    assert logins.take(state, "b", PENDING_S) is not None
    assert logins.take(state, "b", 1) is None
    late = logins.begin(pending())
    assert logins.take(late, "b", PENDING_S + 1) is None


def test_every_login_has_secrets_of_its_own_and_shows_none() -> None:
    logins = PendingLogins()
    made = [pending() for _ in range(3)]
    states = [logins.begin(each) for each in made]
    secrets = {*states, *(each.nonce for each in made), *(each.verifier for each in made)}
    assert len(secrets) == 9
    assert all(len(each) >= 43 for each in secrets)
    assert not any(secret in repr(made) for secret in secrets)


def test_strangers_cannot_push_out_the_logins_of_others_nor_fill_the_memory() -> None:
    logins = PendingLogins(most=10, most_of_address=3)
    mine = logins.begin(pending(address="mine"))
    of_one = [logins.begin(pending(address="one")) for _ in range(50)]
    assert logins.take(mine, "b", 1) is not None
    assert [logins.take(state, "b", 1) is not None for state in of_one[-4:]] == [False, True, True, True]
    of_many = [logins.begin(pending(address=str(number))) for number in range(50)]
    assert sum(logins.take(state, "b", 1) is not None for state in of_many) == 10


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_what_a_provider_says_is_kept_for_an_hour_and_a_day_if_it_is_away() -> None:
    clock = Clock()
    fake = FakeProvider(clock)
    known = KnownProvider(ISSUER, fake, clock)
    assert known.last_provider() is None
    first = known.provider()
    assert known.provider() is first
    assert len(fake.questions) == 1
    clock.now_s += KEPT_S + 1
    assert known.provider() == first
    assert len(fake.questions) == 2
    fake.fault = provider_fault("away")
    clock.now_s += KEPT_S + 1
    assert known.provider() == first
    assert known.provider() == first
    assert len(fake.questions) == 3, "a provider that is away is not asked for every login"
    clock.now_s += 24 * 3600
    assert known.provider() is fake.fault
    fake.fault = None
    clock.now_s += 11
    assert known.provider() == first


def test_a_provider_that_is_away_from_the_start_is_asked_again_after_ten_seconds() -> None:
    clock = Clock()
    fake = FakeProvider(clock, fault=provider_fault("away"))
    known = KnownProvider(ISSUER, fake, clock)
    for _ in range(5):
        assert isinstance(known.provider(), Refusal)
    assert len(fake.questions) == 1
    fake.fault = None
    clock.now_s += 10
    assert isinstance(known.provider(), Provider)


def test_keys_are_renewed_when_a_token_names_a_new_one_but_not_all_the_time() -> None:
    clock = Clock()
    fake = FakeProvider(clock)
    known = KnownProvider(ISSUER, fake, clock)
    assert known.keys(KEPT_S) == tuple(fake.keys)
    old, fake.keys = fake.keys, []
    assert known.keys(RENEWED_AFTER_S) == tuple(old)
    clock.now_s += RENEWED_AFTER_S + 1
    assert known.keys(RENEWED_AFTER_S) == ()
    assert len(fake.questions) == 3


def test_an_error_page_in_place_of_the_document_has_its_status() -> None:
    def answer(question: Question) -> Answer:
        return Answer(404, b"<html>")

    refused = KnownProvider(SETTINGS.issuer, answer, Clock()).provider()
    assert isinstance(refused, Refusal)
    assert "HTTP status 404" in refused.sentence
