"""Handshake and exchange with scripted bytes: no sockets."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from highwater.kafka.client.exchange import ANSWER_BYTES_MAX, Exchange, UnservedError
from highwater.kafka.client.handshake import HandshakeError
from highwater.kafka.client.request import Request, UnexpectedAnswer, cold_request
from highwater.kafka.login.credentials import PasswordCredential
from highwater.kafka.protocol import cold
from highwater.kafka.protocol.apis import API_VERSIONS, APIS, api_of
from highwater.kafka.protocol.frame import RequestHeader, read_request_header
from highwater.kafka.protocol.primitives import Decoder

SERVED = [{"api_key": api.key, "min_version": 0, "max_version": api.max_version} for api in APIS.values()]


SETTINGS_OF_A_LOGIN = "sasl.username and sasl.password, or sasl.jaas.config"


def asked(data: bytes) -> list[tuple[RequestHeader, Any]]:
    """The requests in these bytes, with their headers."""
    found = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        frame, data = memoryview(data[4 : 4 + size]), data[4 + size :]
        header = read_request_header(frame)
        api = api_of(header.api_key)
        decoder = Decoder(frame, header.body_position, flexible=api.is_flexible(header.api_version))
        decoder.skip_tags()
        found.append((header, cold.decode_request(api.name, header.api_version, decoder)))
    return found


def answer(header: RequestHeader, version: int | None = None, **fields: Any) -> bytes:
    api = api_of(header.api_key)
    version = header.api_version if version is None else version
    has_tags = api.is_flexible(version) and api.key != API_VERSIONS
    body = cold.encode_response(api.name, version, fields)
    frame = struct.pack(">i", header.correlation_id) + (b"\0" if has_tags else b"") + body
    return struct.pack(">i", len(frame)) + frame


def only(exchange: Exchange) -> tuple[RequestHeader, Any]:
    (one,) = asked(exchange.data_to_send())
    return one


def is_ready(exchange: Exchange) -> bool:
    return exchange.session is not None


def ready(credential: PasswordCredential | None = None) -> Exchange:
    exchange = Exchange("tests", credential)
    header, _ = only(exchange)
    exchange.received(answer(header, api_keys=SERVED))
    return exchange


def find(key: str) -> Request[str]:
    return cold_request("find_coordinator", 1, 3, {"key": key, "key_type": 0}, lambda found: str(found.host))


def test_the_first_request_asks_for_versions() -> None:
    exchange = Exchange("tests", None)
    header, _ = only(exchange)
    assert (header.api_key, header.client_id) == (API_VERSIONS, "tests")
    assert not is_ready(exchange)
    assert exchange.data_to_send() == b""
    exchange.received(answer(header, api_keys=SERVED))
    assert exchange.session is not None
    assert exchange.session.versions[10] == (0, api_of(10).max_version)


def test_an_older_broker_answers_in_version_0() -> None:
    exchange = Exchange("tests", None)
    header, _ = only(exchange)
    exchange.received(answer(header, 0, error_code=ErrorCode.unsupported_version, api_keys=SERVED))
    assert exchange.session is not None


def test_requests_on_their_way_at_once_whose_answers_come_in_pieces() -> None:
    exchange = ready()
    ids = [exchange.ask(find(key)) for key in "abc"]
    headers = [header for header, _ in asked(exchange.data_to_send())]
    assert [header.correlation_id for header in headers] == ids
    assert [header.api_version for header in headers] == [3, 3, 3]
    data = b"".join(answer(header, host=host) for header, host in zip(headers, "abc", strict=True))
    arrived = [found for at in range(0, len(data), 3) for found in exchange.received(data[at : at + 3])]
    assert [(found.correlation_id, found.value()) for found in arrived] == list(zip(ids, "abc", strict=True))
    assert exchange.pending == []


def test_a_login_with_plain() -> None:
    exchange = ready(PasswordCredential("PLAIN", "ann", "geheim"))
    header, request = only(exchange)
    assert request.mechanism == "PLAIN"
    assert not is_ready(exchange)
    exchange.received(answer(header, mechanisms=["PLAIN"]))
    header, request = only(exchange)
    assert request.auth_bytes == b"\0ann\0geheim"
    exchange.received(answer(header, auth_bytes=b"", session_lifetime=5000))
    assert exchange.session is not None
    assert exchange.session.lifetime_ms == 5000


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (
            {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": ["SCRAM-SHA-512"]},
            "does not take PLAIN; set sasl.mechanism to SCRAM-SHA-512",
        ),
        (
            {"error_code": ErrorCode.sasl_authentication_failed, "error_message": "no", "auth_bytes": b""},
            f"refuses the login: SASL_AUTHENTICATION_FAILED (58): no; check {SETTINGS_OF_A_LOGIN}",
        ),
    ],
)
def test_logins_that_are_refused(refused: dict[str, Any], text: str) -> None:
    exchange = ready(PasswordCredential("PLAIN", "ann", "geheim"))
    header, _ = only(exchange)
    if "mechanisms" not in refused:
        exchange.received(answer(header, mechanisms=["PLAIN"]))
        header, _ = only(exchange)
    with pytest.raises(HandshakeError) as caught:
        exchange.received(answer(header, **refused))
    assert str(caught.value) == text


def test_a_server_that_does_not_know_the_password_either() -> None:
    exchange = ready(PasswordCredential("SCRAM-SHA-256", "ann", "geheim"))
    header, _ = only(exchange)
    exchange.received(answer(header, mechanisms=["SCRAM-SHA-256"]))
    header, _ = only(exchange)
    with pytest.raises(HandshakeError, match=r"^fails in the login: ") as caught:
        exchange.received(answer(header, auth_bytes=b"r=other,s=QSXCR+Q6sek8bf92,i=4096"))
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("count", [1, 4095, 1_000_001, 10_000_000])
def test_a_server_that_demands_too_few_or_too_many_iterations(count: int) -> None:
    exchange = ready(PasswordCredential("SCRAM-SHA-256", "ann", "geheim"))
    header, _ = only(exchange)
    exchange.received(answer(header, mechanisms=["SCRAM-SHA-256"]))
    header, request = only(exchange)
    nonce = request.auth_bytes.decode().partition(",r=")[2]
    with pytest.raises(HandshakeError, match=rf"demands '{count}' iterations of SCRAM; this client takes 4,096 to"):
        exchange.received(answer(header, auth_bytes=f"r={nonce}x,s=QSXCR+Q6sek8bf92QSXC,i={count}".encode()))


def test_a_login_where_there_is_none() -> None:
    exchange = Exchange("tests", PasswordCredential("PLAIN", "ann", "geheim"))
    header, _ = only(exchange)
    with pytest.raises(HandshakeError, match=r"^has no login: it does not serve SaslHandshake$"):
        exchange.received(answer(header, api_keys=[{"api_key": 18, "max_version": 3}]))


def test_requests_that_the_broker_does_not_serve() -> None:
    exchange = ready()
    served = api_of(10).max_version
    newer = cold_request("find_coordinator", served + 1, served + 2, {}, lambda found: found)
    needed = f"a version from {served + 1} to {served + 2} is needed"
    with pytest.raises(UnservedError, match=rf"^it serves FindCoordinator in versions 0 to {served}, and {needed}$"):
        exchange.ask(newer)
    quorum = cold_request("describe_quorum", 0, 0, {}, lambda found: found)
    with pytest.raises(UnservedError, match=r"^it does not serve DescribeQuorum$"):
        exchange.ask(quorum)
    assert exchange.data_to_send() == b""


@pytest.mark.parametrize("size", [-1, 0, 3, ANSWER_BYTES_MAX + 1, 0x48545450])
def test_lengths_that_no_answer_has(size: int) -> None:
    with pytest.raises(UnexpectedAnswer, match=f"^an answer of {size} bytes; is this the port of a broker"):
        ready().received(struct.pack(">i", size))


def test_an_answer_that_was_not_asked_for() -> None:
    exchange = ready()
    with pytest.raises(UnexpectedAnswer, match=r"^an answer to request 77, which was not asked$"):
        exchange.received(struct.pack(">ii", 4, 77))


def test_an_answer_that_is_cut_off() -> None:
    exchange = ready()
    (arrived,) = exchange.received(struct.pack(">iib", 5, exchange.ask(find("a")), 0))
    with pytest.raises(UnexpectedAnswer, match=r"^find_coordinator version 3: "):
        arrived.value()
