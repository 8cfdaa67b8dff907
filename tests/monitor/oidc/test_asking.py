"""Questions to a provider over real sockets: what it may answer, and what becomes of everything else."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater.common.bounded_http import Answer, Question
from highwater.monitor.oidc.asking import ask
from highwater.monitor.oidc.refusal import Refusal
from tests.broker.server.certificates import Authority
from tests.monitor.agents import http, listening, says

SECRET = "s3cret"  # noqa: S105 - of tests


@contextmanager
def answering(*pieces: bytes, hold: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """A server on loopback that sends `pieces` to each request; yields its address and what it was sent."""
    heard: list[bytes] = []
    ended = threading.Event()

    def serve() -> None:
        while True:
            try:
                connection, _ = accepting.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(1 << 16)
                while request[:1].isalpha() and b"\r\n\r\n" not in request:
                    request += connection.recv(1 << 16)
                heard.append(request)
                try:
                    for piece in pieces:
                        connection.sendall(piece)
                except OSError:
                    continue
                if hold:
                    ended.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as accepting:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{accepting.getsockname()[1]}", heard
        finally:
            ended.set()
            accepting.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def head(status: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Connection: close", *lines, "", ""]).encode()


def refusal(answer: Answer | Refusal) -> str:
    assert isinstance(answer, Refusal)
    assert answer.status == 502
    assert SECRET not in answer.sentence
    assert "\n" not in answer.sentence
    return answer.sentence


def test_a_question_and_its_answer() -> None:
    with answering(head("200 OK", "Content-Length: 2"), b"{}") as (address, heard):
        asked = Question(f"{address}/token?a=b", {"code": "x y", "client_secret": SECRET}, f"Basic {SECRET}")
        assert ask(asked, None) == Answer(200, b"{}")
        assert heard[0].startswith(b"POST /token?a=b HTTP/1.1\r\n")
        assert f"Authorization: Basic {SECRET}".encode() in heard[0]
        assert ask(Question(address), None) == Answer(200, b"{}")
        assert heard[1].startswith(b"GET / HTTP/1.1\r\n")
        assert b"Authorization" not in heard[1]
        assert SECRET not in repr(asked)


def test_an_error_of_the_provider_keeps_its_body() -> None:
    with answering(head("400 Bad Request", "Content-Length: 25"), b'{"error":"invalid_grant"}') as (address, _):
        assert ask(Question(address), None) == Answer(400, b'{"error":"invalid_grant"}')


def test_a_redirect_is_not_followed() -> None:
    with (
        answering(head("200 OK", "Content-Length: 2"), b"{}") as (elsewhere, heard),
        answering(head("302 Found", f"Location: {elsewhere}/", "Content-Length: 0")) as (address, _),
    ):
        assert "redirect" in refusal(ask(Question(address, authorization=f"Bearer {SECRET}"), None))
        assert heard == []


def test_a_large_answer_is_cut_off() -> None:
    with answering(head("200 OK"), *[b"x" * 65536] * 20) as (address, _):
        assert "larger than 1 MiB" in refusal(ask(Question(address), None))


def test_a_provider_that_says_nothing_is_given_up() -> None:
    with answering(hold=True) as (address, _):
        assert "does not answer within 0.3 s" in refusal(ask(Question(address), None, 0.3))


@pytest.mark.parametrize("pieces", [(b"no http at all\r\n\r\n",), (b"",), (head("200 OK", "Content-Length: 9"), b"{")])
def test_what_is_no_answer_has_words(pieces: tuple[bytes, ...]) -> None:
    with answering(*pieces) as (address, _):
        assert refusal(ask(Question(address), None, 5))


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert "cannot be reached: Connection refused" in refusal(ask(Question(address), None))


def test_plain_http_where_tls_is_wanted() -> None:
    with answering(head("200 OK")) as (address, _):
        assert "TLS" in refusal(ask(Question(address.replace("http:", "https:")), None, 5))


def test_who_signed_the_certificate_of_a_provider_must_be_known(tmp_path: Path) -> None:
    authority = Authority()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.certify("sso").write_pem(tmp_path / "sso.pem"))
    with listening(says(http(b"{}")), server) as port:
        question = Question(f"https://127.0.0.1:{port}/keys", authorization=f"Bearer {SECRET}")
        assert ask(question, ssl.create_default_context(cadata=authority.pem)) == Answer(200, b"{}")
        for stranger in (None, ssl.create_default_context(cadata=Authority().pem)):
            assert "is not trusted" in refusal(ask(question, stranger))
        another = Question(f"https://localhost:{port}/keys")
        assert "is not trusted" in refusal(ask(another, ssl.create_default_context(cadata=authority.pem)))
