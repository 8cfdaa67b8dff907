"""Failed authentications, as their connection sees them."""

from __future__ import annotations

import pytest

from highwater.broker.handlers.shared.reply import Client, PendingResponse
from highwater.broker.security.sasl import Authentication, PlainExchange, SaslSettings
from highwater.kafka.login.credentials import PLAIN
from tests.broker.handlers.harness import LISTENER, NodeHarness, request_frame


@pytest.mark.parametrize("handshake_version", [0, 1])
def test_a_wrong_password_costs_time_however_it_is_told(node: NodeHarness, handshake_version: int) -> None:
    hung_up: list[str] = []
    settings = SaslSettings({PLAIN: lambda: PlainExchange({"user": "right"})}, failure_delay_ms=100)
    client = Client(LISTENER, authentication=Authentication(settings), hang_up=hung_up.append)

    def send(frame: bytes) -> object:
        return node.dispatcher.dispatch(memoryview(bytearray(frame)), client)

    send(request_frame("sasl_handshake", handshake_version, mechanism=PLAIN))
    token = b"\0user\0wrong"
    answer = send(token if handshake_version == 0 else request_frame("sasl_authenticate", 0, auth_bytes=token))
    assert isinstance(answer, PendingResponse)
    assert answer.deferred.holds_line
    told: list[int] = []
    answer.deferred.on_ready(lambda reply: told.append(len(answer.frame(reply))))
    node.scheduler.run(99)
    assert (told, hung_up) == ([], [])
    node.scheduler.run(1)
    assert [count > 0 for count in told] == [handshake_version == 1]
    assert hung_up == ["Authentication failed: Invalid username or password"]
