"""The sockets of the monitor's pages."""

from __future__ import annotations

import socket

from highwater.monitor.listen import Listen
from highwater.monitor.web_server import bound


def test_no_piece_of_an_answer_waits_for_the_one_before() -> None:
    with (
        bound(Listen("127.0.0.1", 0), "--listen") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
