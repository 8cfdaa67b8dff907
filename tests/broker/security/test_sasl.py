"""The states of a connection that has to say who it is; the client's side of SCRAM is scramp's."""

from __future__ import annotations

import base64
from functools import partial

import pytest
import scramp
from kio.schema.errors import ErrorCode

from highwater.broker.security.sasl import (
    MOST_REQUESTS_BEFORE_LOGIN,
    Authentication,
    PlainExchange,
    SaslSettings,
    ScramExchange,
    Step,
)
from highwater.kafka.login.credentials import PasswordCredential
from highwater.kafka.login.scram import (
    LEAST_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of_salted_password,
    decode_credential,
    salt_password,
)
from highwater.kafka.protocol.apis import API_VERSIONS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE

SALT = bytes(range(16))


def credential(password: str, salt: bytes, iterations: int) -> ScramCredential:
    mechanism = ScramMechanism.SCRAM_SHA_256
    return credential_of_salted_password(
        mechanism, salt, salt_password(mechanism, password, salt, iterations), iterations
    )


def users(salt: bytes = SALT, iterations: int = LEAST_ITERATIONS) -> dict[str, dict[ScramMechanism, ScramCredential]]:
    return {"bob": {ScramMechanism.SCRAM_SHA_256: credential("secret", salt, iterations)}}


@pytest.fixture
def authentication() -> Authentication:
    return Authentication(
        SaslSettings(
            {
                "PLAIN": lambda: PlainExchange({"alice": "secret", "bob": "other"}),
                "SCRAM-SHA-256": partial(ScramExchange, ScramMechanism.SCRAM_SHA_256, users),
            },
            max_reauthentication_ms=1000,
        )
    )


def test_plain(authentication: Authentication) -> None:
    assert authentication.refusal(METADATA, 0) is not None
    assert authentication.refusal(SASL_AUTHENTICATE, 0) is not None
    assert authentication.refusal(API_VERSIONS, 0) is None
    assert authentication.handshake("PLAIN", 1) == ErrorCode.none
    assert not authentication.takes_bare_tokens
    assert authentication.refusal(API_VERSIONS, 0) is not None
    assert authentication.refusal(SASL_AUTHENTICATE, 0) is None
    outcome = authentication.authenticate(b"\0alice\0secret", 0)
    assert (outcome.error_code, outcome.user, outcome.session_lifetime_ms) == (ErrorCode.none, "alice", 1000)
    assert authentication.refusal(METADATA, 999) is None


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0nobody\0secret",
        b"\0nobody\0",
        b"\0\0secret",
        b"alice\0secret",
        b"bob\0alice\0secret",
        b"",
        b"\xff\0\xff\0\xff",
    ],
)
def test_plain_tokens_that_prove_nothing(authentication: Authentication, token: bytes) -> None:
    authentication.handshake("PLAIN", 1)
    outcome = authentication.authenticate(token, 0)
    assert outcome.error_code == ErrorCode.sasl_authentication_failed
    assert outcome.user is None
    assert "secret" not in (outcome.error_message or "")
    assert authentication.refusal(METADATA, 0) is not None


def scram(authentication: Authentication, user: str, password: str) -> tuple[ErrorCode, str | None]:
    client = scramp.ScramClient(["SCRAM-SHA-256"], user, password)
    authentication.handshake("SCRAM-SHA-256", 0)
    assert authentication.takes_bare_tokens
    first = authentication.authenticate(client.get_client_first().encode(), 0)
    if first.error_code:
        return first.error_code, None
    client.set_server_first(first.auth_bytes.decode())
    last = authentication.authenticate(client.get_client_final().encode(), 0)
    if not last.error_code:
        client.set_server_final(last.auth_bytes.decode())
        assert not authentication.takes_bare_tokens
    return last.error_code, last.user


def test_scram(authentication: Authentication) -> None:
    assert scram(authentication, "bob", "secret") == (ErrorCode.none, "bob")


@pytest.mark.parametrize(("user", "password"), [("bob", "wrong"), ("alice", "secret")])
def test_scram_that_proves_nothing(authentication: Authentication, user: str, password: str) -> None:
    assert scram(authentication, user, password) == (ErrorCode.sasl_authentication_failed, None)


def answers(known: dict[str, dict[ScramMechanism, ScramCredential]], user: str, password: str) -> list[str]:
    """What the server says to the client in both steps; of the first one without the nonce."""
    exchange = ScramExchange(ScramMechanism.SCRAM_SHA_256, lambda: known)
    client = scramp.ScramClient(["SCRAM-SHA-256"], user, password)
    first = exchange.step(client.get_client_first().encode())
    assert first.failure is None
    text = first.challenge.decode()
    client.set_server_first(text)
    last = exchange.step(client.get_client_final().encode())
    assert last.user is None
    assert last.failure is not None
    return [text[text.index(",s=") :], last.failure]


OF_ANOTHER_TOOL = (  # the salt b"8-bytes!" and the password "secret", by RFC 5802 with hashlib and hmac alone
    "salt=OC1ieXRlcyE=,stored_key=XWEn0OBwmZmUUTcome8+9TVlO/meW2LErxIxirS0t1A=,"
    "server_key=6HAuCsBSbduBWAHfGYJ96tvazJoWGaSOc3/bDAabbcc=,iterations=4096"
)


def test_a_short_salt_of_another_tool() -> None:
    """The library refuses salts below 12 bytes, on both sides; Kafka takes them."""
    known = {"bob": {ScramMechanism.SCRAM_SHA_256: decode_credential(OF_ANOTHER_TOOL)}}
    server = ScramExchange(ScramMechanism.SCRAM_SHA_256, lambda: known)
    client = PasswordCredential("SCRAM-SHA-256", "bob", "secret").begin()
    final = client.answer(server.step(client.first()).challenge)
    assert final is not None
    proven = server.step(final)
    assert proven.user == "bob"
    assert client.answer(proven.challenge) is None


@pytest.mark.parametrize("name", ["ﬁ", "\u00aa", "a\u00ad", "\u2168", "bob\u00a0", "ü", "u\u0308", "a=2C,b"])
def test_names_and_passwords_that_saslprep_would_change(name: str) -> None:
    """Kafka takes them as they are. Who made such a user could otherwise never log in."""
    known = {name: {ScramMechanism.SCRAM_SHA_256: credential(name, SALT, LEAST_ITERATIONS)}}
    server = ScramExchange(ScramMechanism.SCRAM_SHA_256, lambda: known)
    client = PasswordCredential("SCRAM-SHA-256", name, name).begin()
    final = client.answer(server.step(client.first()).challenge)
    assert final is not None
    proven = server.step(final)
    assert proven.user == name
    assert client.answer(proven.challenge) is None


@pytest.mark.parametrize("salt", [SALT, b"1qz" * 9, b"8-bytes!"])
@pytest.mark.parametrize("iterations", [LEAST_ITERATIONS, 8192])
def test_an_unknown_user_is_told_as_a_wrong_password_is(salt: bytes, iterations: int) -> None:
    known = users(salt, iterations)
    wrong, unknown, other = (answers(known, user, "x") for user in ("bob", "nobody", "nobody2"))
    assert unknown[1] == wrong[1]
    # Salts differ, and nothing else: neither their length, nor their kind, nor the number of iterations.
    assert len(unknown[0]) == len(wrong[0])
    assert unknown[0].rpartition(",")[2] == wrong[0].rpartition(",")[2] == f"i={iterations}"
    assert len({wrong[0], unknown[0], other[0]}) == 3
    salts = [base64.b64decode(each[0][3:].partition(",")[0]) for each in (wrong, unknown, other)]
    assert len({each.isalnum() and each.islower() for each in salts}) == 1
    # Whoever asks again, elsewhere or later, is told the same.
    assert answers(users(salt, iterations), "nobody", "y") == unknown


def test_no_user_at_all_can_be_told_from_a_wrong_password() -> None:
    said = answers({}, "nobody", "x")
    assert said[0].endswith(",i=4096")
    assert answers({}, "nobody", "x") == said


@pytest.mark.parametrize("length", [1, 100, 10_000])
def test_plain_says_the_same_of_an_unknown_user_and_of_a_wrong_password(length: int) -> None:
    exchange = PlainExchange({"alice": "secret"})
    told = {exchange.step(f"\0{user}\0{'x' * length}".encode()).failure for user in ("alice", "nobody")}
    assert told == {"Authentication failed: Invalid username or password"}


def test_a_mechanism_that_is_not_enabled(authentication: Authentication) -> None:
    assert authentication.handshake("GSSAPI", 1) == ErrorCode.unsupported_sasl_mechanism
    assert authentication.refusal(SASL_AUTHENTICATE, 0) is not None


def test_a_stranger_asks_a_few_times_only(authentication: Authentication) -> None:
    refusals = [authentication.refusal(API_VERSIONS, 0) for _ in range(MOST_REQUESTS_BEFORE_LOGIN + 1)]
    assert refusals[:-1] == [None] * MOST_REQUESTS_BEFORE_LOGIN
    assert refusals[-1] == "more than 32 requests before the authentication was complete"


def test_a_session_that_expired_is_renewed_by_the_same_user_only(authentication: Authentication) -> None:
    authentication.handshake("PLAIN", 1)
    authentication.authenticate(b"\0alice\0secret", 0)
    assert authentication.refusal(METADATA, 1000) is not None
    assert authentication.refusal(SASL_HANDSHAKE, 1000) is None
    assert authentication.handshake("SCRAM-SHA-256", 1) == ErrorCode.unsupported_sasl_mechanism
    assert authentication.handshake("PLAIN", 1) == ErrorCode.none
    assert authentication.authenticate(b"\0bob\0other", 1000).error_code == ErrorCode.sasl_authentication_failed
    assert authentication.handshake("PLAIN", 1) == ErrorCode.illegal_sasl_state


class TokenOfHalfASecond:
    def step(self, token: bytes) -> Step:
        return Step(user="ada", lifetime_ms=500)


@pytest.mark.parametrize("max_reauthentication_ms", [0, 1000])
def test_a_session_ends_with_its_token(max_reauthentication_ms: int) -> None:
    found = Authentication(
        SaslSettings({"OAUTHBEARER": TokenOfHalfASecond}, max_reauthentication_ms=max_reauthentication_ms)
    )
    found.handshake("OAUTHBEARER", 1)
    assert found.authenticate(b"token", 0).session_lifetime_ms == 500
    assert found.refusal(METADATA, 499) is None
    assert found.refusal(METADATA, 500) is not None


def test_renewal_extends_the_session(authentication: Authentication) -> None:
    for now_ms in (0, 900):
        authentication.handshake("PLAIN", 1)
        assert authentication.authenticate(b"\0alice\0secret", now_ms).user == "alice"
    assert authentication.refusal(METADATA, 1500) is None
    assert authentication.authenticate(b"\0alice\0secret", 1500).error_code == ErrorCode.illegal_sasl_state
