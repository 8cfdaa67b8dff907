"""When a ZooKeeper counts as started: it listens some time before it serves."""

from __future__ import annotations

import socket
import threading

import pytest

from highwater.common.ports import free_ports
from highwater.common.zookeeper import mode


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"This ZooKeeper instance is not currently serving requests\n", None),
        (b"", None),
        (b"Zookeeper version: 3.9\nMode: standalone\nNode count: 5\n", "standalone"),
    ],
)
def test_one_that_only_listens_is_not_ready(answer: bytes, expected: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def reply() -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(4) == b"srvr"
                connection.sendall(answer)

        server = threading.Thread(target=reply)
        server.start()
        try:
            assert mode("127.0.0.1", port) == expected
        finally:
            server.join()


def test_nobody_at_the_port_is_not_ready() -> None:
    (port,) = free_ports(1)
    assert mode("127.0.0.1", port) is None
