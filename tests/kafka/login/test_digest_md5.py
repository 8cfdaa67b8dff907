"""DIGEST-MD5 by the example of RFC 2831, and challenges that are none."""

from __future__ import annotations

import pytest

from highwater.kafka.login.digest_md5 import DigestError, DigestMd5

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth,auth-int",algorithm=md5-sess,charset=utf-8'


def example(password: str = "secret") -> DigestMd5:  # noqa: S107
    host = "elwood.innosoft.com"
    return DigestMd5("chris", password, service="imap", host=host, client_nonce="OA6MHXh6VqTrRk")


def test_the_example_of_the_rfc() -> None:
    digest = example()
    assert b"response=d388dad90d4bbd760a152321f2143af7," in digest.answer(CHALLENGE)
    assert not digest.is_complete
    assert digest.answer(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") == b""
    assert digest.is_complete


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    digest = example()
    digest.answer(CHALLENGE)
    for proof in (b"rspauth=ea40f60335c427b5527b84dbabcdfffe", b"", b"rspauth=\xc3\xa4"):
        with pytest.raises(DigestError, match="does not know the password"):
            digest.answer(proof)
        assert not digest.is_complete


def test_quotes_in_names_and_passwords_beyond_latin() -> None:
    digest = DigestMd5('a"b\\', "пароль", service="s", host="h", client_nonce="n")
    answer = digest.answer(CHALLENGE)
    assert rb'username="a\"b\\"' in answer
    assert "пароль".encode() not in answer


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"hello",
        b'realm="x"',
        b'nonce="x",qop="auth-conf",algorithm=md5-sess',
        b'nonce="x",algorithm=md5',
        b'nonce="x',
        b"\xff\xfe,=",
    ],
)
def test_what_is_no_challenge(challenge: bytes) -> None:
    with pytest.raises(DigestError, match="challenge"):
        example().answer(challenge)
