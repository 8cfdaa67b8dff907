"""Questions over HTTP: a redirect is an answer like others, and nobody is asked where it points to."""

from __future__ import annotations

import pytest

from highwater.common.bounded_http import Question, exchange
from tests.serving import Answer, Asked, http_server


@pytest.mark.parametrize("form", [None, {"grant_type": "client_credentials"}])
def test_a_redirect_is_not_followed(form: dict[str, str] | None) -> None:
    asked: list[str] = []

    def redirected(question: Asked) -> Answer:
        asked.append(question.path)
        return Answer(307, headers={"Location": "/elsewhere"})

    with http_server(redirected) as port:
        answer = exchange(Question(f"http://127.0.0.1:{port}/token", form, "Basic secret"), None, 60, "test")
    assert (answer.status, asked) == (307, ["/token"])
