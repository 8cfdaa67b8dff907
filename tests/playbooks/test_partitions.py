"""Whether replicas are in sync, read from answers of Kafka's protocol, and asked of a broker of ours."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.running import running_broker
from tests.playbooks.shipped import shipped

MODULE = shipped("library/highwater_partitions.py")


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def array(*elements: bytes) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(elements)


def numbers(*values: int) -> bytes:
    return array(*(struct.pack(">i", value) for value in values))


def partition(index: int, leader: int, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> bytes:
    head = struct.pack(">hiii", 0, index, leader, 7)
    return head + numbers(*replicas) + numbers(*in_sync) + numbers()


def topic(name: str, *partitions: bytes) -> bytes:
    return struct.pack(">h", 0) + text(name) + b"\0" + array(*partitions)


def metadata(brokers: tuple[int, ...], *topics: bytes) -> bytes:
    """The body of a Metadata response, version 7."""
    described = [struct.pack(">i", each) + text("host") + struct.pack(">ih", 9092, -1) for each in brokers]
    return struct.pack(">i", 0) + array(*described) + text("the-id") + struct.pack(">i", 2) + array(*topics)


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A server that gives each client the same answer. Its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(struct.pack(">ii", len(body) + 4, 1) + body)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_all_is_well_when_every_replica_is_in_sync() -> None:
    with answering(metadata((1, 2), topic("orders", partition(0, 1, (1, 2), (2, 1))), topic("empty"))) as address:
        assert MODULE.look([address], [1, 2]) == {
            "problems": [],
            "under_replicated": 0,
            "in_sync": True,
            "cluster_id": "the-id",
            "controller_id": 2,
            "brokers": [1, 2],
        }


def test_what_is_not_in_sync_is_named() -> None:
    topics = [topic("orders", partition(0, 1, (1, 2, 3), (1,)), partition(1, -1, (2, 3), ()))]
    with answering(metadata((1, 2), *topics)) as address:
        found = MODULE.look([address], [1, 2, 3])
    assert (found["in_sync"], found["under_replicated"]) == (False, 2)
    assert found["problems"] == [
        f"{address} does not know broker 3",
        "orders-0 waits for broker 2, 3",
        "orders-1 has no leader",
    ]


def test_every_broker_has_to_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = f"127.0.0.1:{listener.getsockname()[1]}"
    with answering(metadata((1, 2))) as address:
        assert MODULE.look([address, free], [1])["problems"] == [f"{free} does not answer: Connection refused"]


@pytest.mark.parametrize("body", [b"", b"HTTP/1.1 400 Bad Request", metadata((1,))[:-3]])
def test_an_answer_of_something_else_is_told(body: bytes) -> None:
    with answering(body) as address:
        assert MODULE.look([address], [])["problems"] == [f"{address} does not speak Kafka's protocol"]


def test_a_long_list_is_cut() -> None:
    problems = [f"orders-{index} has no leader" for index in range(12)]
    assert MODULE.summary(problems).endswith("orders-4 has no leader; and 7 more")


@pytest.mark.clients
def test_a_broker_of_ours_answers(tmp_path: Path) -> None:
    with running_broker(tmp_path / "log", properties=("broker.id=4",)) as broker:
        found: dict[str, Any] = MODULE.look([broker.address], [4])
    assert found["in_sync"], found
    assert found["brokers"] == [4]
