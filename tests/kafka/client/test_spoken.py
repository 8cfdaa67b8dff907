"""What a listener speaks, as a client finds it out: one that is slow reports nothing."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from highwater.kafka.client import spoken
from highwater.kafka.client.exchange import Exchange
from highwater.kafka.client.spoken import Spoken
from tests.kafka.client.test_exchange import SERVED, answer, only


def test_a_time_out_of_the_login_is_no_listener_without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(channel: socket.socket, exchange: Exchange) -> list[Any]:
        if exchange.session is not None:
            raise TimeoutError
        header, _ = only(exchange)
        exchange.received(answer(header, api_keys=SERVED))
        return []

    monkeypatch.setattr(spoken, "_answers", answers)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert spoken.spoken_at(listener.getsockname()) == Spoken(False, None)
