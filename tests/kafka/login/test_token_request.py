"""Questions to a token server and what it answers, as bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from highwater.common.bounded_http import Answer
from highwater.kafka.login.token_request import (
    MOST_TOKEN_BYTES,
    Token,
    TokenSettings,
    question_of,
    token_in,
    token_in_file,
)

NOW_S = 1_000_000.0
OPAQUE = "opaque"


def json_token(**claims: Any) -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "none"}, claims))
    return ".".join((*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""))


def answered(status: int, **document: Any) -> Token | str:
    return token_in(Answer(status, json.dumps(document).encode()), NOW_S)


def test_a_question_encodes_the_parts_of_its_login() -> None:
    settings = TokenSettings("https://idp/token", "a:b", "c d%:", "kafka admin")
    question = question_of(settings)
    assert question.form == {"grant_type": "client_credentials", "scope": "kafka admin"}
    assert base64.b64decode(question.authorization.removeprefix("Basic ")) == b"a%3Ab:c+d%25%3A"
    assert "c d" not in repr(settings)
    assert question.authorization not in repr(question)


def test_the_end_of_a_token_is_what_the_server_says_or_the_token_itself() -> None:
    """What the server says needs no clock that agrees with its own."""
    token = json_token(exp=NOW_S + 90)
    assert answered(200, access_token=token, expires_in=30) == Token(token, NOW_S + 30)
    assert answered(200, access_token=token) == Token(token, NOW_S + 90)
    assert answered(200, access_token=OPAQUE) == Token(OPAQUE, NOW_S + 60)
    assert answered(200, access_token=json_token(exp="soon")) == Token(json_token(exp="soon"), NOW_S + 60)
    assert answered(200, access_token="a.%" + ".c") == "answers without an access_token"
    assert token not in repr(answered(200, access_token=token))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Answer(401, b'{"error": "invalid_client", "error_description": "x"}'),
            "answers with status 401: invalid_client",
        ),
        (Answer(401, b'{"error": "my secret is"}'), "answers with status 401"),
        (Answer(302, b""), "answers with status 302"),
        (Answer(200, b"[" * 100_000), "answers without an access_token"),
        (Answer(200, b'{"access_token": "a b"}'), "answers without an access_token"),
        (Answer(200, b'{"access_token": 7}'), "answers without an access_token"),
        (Answer(200, b'{"access_token": "%s"}' % (b"a" * (MOST_TOKEN_BYTES + 1))), "answers without an access_token"),
    ],
)
def test_an_answer_without_a_token(answer: Answer, said: str) -> None:
    assert token_in(answer, NOW_S) == said


def test_a_file_holds_a_token_and_nothing_else() -> None:
    token = json_token(exp=NOW_S + 5)
    assert token_in_file(f"{token}\n".encode(), NOW_S) == Token(token, NOW_S + 5)
    for data in (b"", b"two words", b"\xff", b"Bearer a"):
        assert token_in_file(data, NOW_S) == "holds no token"
