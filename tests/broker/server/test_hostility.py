"""Bytes that nobody should send, to a live broker: it lives, serves the others, and does not swell."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator

import psutil
import pytest

from highwater.kafka.protocol.apis import APIS
from tests.broker.handlers.harness import one_batch, request_frame
from tests.broker.running import RunningBroker, running_broker

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker") / "log") as broker:
        yield broker
        assert broker.stop() == 0
        assert "Traceback" not in broker.log_text()


def connect(broker: RunningBroker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), DEADLINE_S)


def assert_serves(broker: RunningBroker) -> None:
    with connect(broker) as client:
        frame = request_frame("metadata", 9, topics=())
        client.sendall(struct.pack(">i", len(frame)) + frame)
        assert client.recv(4, socket.MSG_WAITALL)


def is_closed(client: socket.socket) -> bool:
    try:
        while client.recv(65536):
            continue
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_random_bytes(broker: RunningBroker) -> None:
    randomness = random.Random(1)
    for _ in range(50):
        with connect(broker) as client, contextlib.suppress(ConnectionError):
            client.sendall(randomness.randbytes(randomness.randrange(1, 5000)))
    assert_serves(broker)


@pytest.mark.slow
def test_random_requests_of_every_api_and_version(broker: RunningBroker) -> None:
    randomness = random.Random(2)
    for api in APIS.values():
        for version in range(api.max_version + 2):
            with connect(broker) as client, contextlib.suppress(ConnectionError):
                for _ in range(3):
                    body = randomness.randbytes(randomness.randrange(60))
                    frame = struct.pack(">hhih", api.key, version, 1, -1) + body
                    client.sendall(struct.pack(">i", len(frame)) + frame)
    assert_serves(broker)


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 104_857_601])
def test_impossible_lengths_close_the_connection(broker: RunningBroker, length: int) -> None:
    with connect(broker) as client:
        client.sendall(struct.pack(">i", length))
        assert is_closed(client)
    assert_serves(broker)


@pytest.mark.parametrize(
    "frame",
    [
        # The topics of a CreateTopics v7, of a Metadata v9 and of a Fetch v12: billions, by their count.
        struct.pack(">hhihB", 19, 7, 1, -1, 0) + b"\xff\xff\xff\xff\x0f" + bytes(100),
        struct.pack(">hhihB", 3, 9, 1, -1, 0) + b"\xff\xff\xff\xff\x0f" + bytes(100),
        struct.pack(">hhihB", 1, 12, 1, -1, 0) + bytes(25) + b"\xff\xff\xff\xff\x0f" + bytes(100),
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1) + bytes(100),
        struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 10_000_000) + bytes(20_000_000),
        struct.pack(">hhihB", 18, 3, 1, -1, 0) + b"\x02a\x02b" + b"\xff\xff\xff\x7f" + bytes(20_000_000),
    ],
    ids=["create-topics", "metadata", "fetch", "metadata-v1", "many-small-topics", "many-tags"],
)
def test_huge_counts_do_not_swell_the_broker(broker: RunningBroker, frame: bytes) -> None:
    process = psutil.Process(broker.process.pid)
    before = process.memory_info().rss
    with connect(broker) as client, contextlib.suppress(ConnectionError):
        client.sendall(struct.pack(">i", len(frame)) + frame)
        assert is_closed(client)
    assert process.memory_info().rss - before < 100 * 1024 * 1024
    assert_serves(broker)


def test_claimed_bytes_cost_nothing_before_they_come(broker: RunningBroker) -> None:
    process = psutil.Process(broker.process.pid)
    before = process.memory_info().rss
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(connect(broker))
            client.sendall(struct.pack(">i", 100_000_000) + b"\x00\x00")
        assert_serves(broker)
        assert process.memory_info().rss - before < 50 * 1024 * 1024


def test_produce_bytes_that_are_no_batch(broker: RunningBroker) -> None:
    randomness = random.Random(3)
    batch = one_batch(b"value")
    with connect(broker) as client:
        create = request_frame("metadata", 4, topics=[{"name": "hostile"}], allow_auto_topic_creation=True)
        client.sendall(struct.pack(">i", len(create)) + create)
        assert client.recv(65536)
        for _ in range(200):
            damaged = bytearray(batch)
            for _ in range(randomness.randrange(1, 4)):
                damaged[randomness.randrange(len(damaged))] = randomness.randrange(256)
            partition = {"index": 0, "records": bytes(damaged)}
            frame = request_frame(
                "produce", 7, acks=1, timeout=1, topic_data=[{"name": "hostile", "partition_data": [partition]}]
            )
            client.sendall(struct.pack(">i", len(frame)) + frame)
            length = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))[0]
            assert len(client.recv(length, socket.MSG_WAITALL)) == length
    assert_serves(broker)


def test_a_connection_cut_in_the_middle_of_a_frame(broker: RunningBroker) -> None:
    for size in (1, 3, 4, 10):
        with connect(broker) as client:
            client.sendall((struct.pack(">i", 1000) + bytes(500))[:size])
    assert_serves(broker)
