from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from highwater.spark_loadgen.channel import DriverChannel, TaskChannel, clock_name
from highwater.spark_loadgen.phases import Phases
from highwater.spark_loadgen.windows import SECOND_NS
from tests.waiting import wait_until

DEADLINE_S = 60
STRANGE_LINES = (
    b'["no object"]\n',
    b"\xff\x00 no json\n",
    b'"x"\n',
    b"7\n",
    b"\n",
    b"[" * 4000 + b"\n",
    b"[" * 60_000 + b"\n",
    b"x" * 5000,
    b'{"token": "x", "kind": "hello", "task": 0}\n',
    b'{"token": ["x"], "kind": "hello", "task": 0}\n',
    b'{"token": "\\ud800", "kind": "hello", "task": 0}\n',
    b'{"kind": "hello", "task": 0}\n',
    b'{"token": "x"}\n',
)


@pytest.fixture
def driver() -> Iterator[DriverChannel]:
    with DriverChannel("127.0.0.1", "127.0.0.1") as channel:
        yield channel


def connect(driver: DriverChannel, number: int, token: str | None = None) -> TaskChannel:
    return TaskChannel(driver.address, token or driver.token, number, Phases(10, 5))


def receive(driver: DriverChannel, count: int) -> list[tuple[int, dict[str, Any]]]:
    messages: list[tuple[int, dict[str, Any]]] = []

    def have_come() -> bool:
        messages.extend(driver.receive())
        return len(messages) >= count

    wait_until(have_come, lambda: f"{count} messages: {messages}", DEADLINE_S)
    return messages


def test_messages_arrive_in_order_with_their_task(driver: DriverChannel) -> None:
    tasks = [connect(driver, number) for number in range(3)]
    for number, task in enumerate(tasks):
        task.send({"kind": "progress", "second": number})
        task.send({"kind": "producer_finished"})
    messages = receive(driver, 9)
    for number, task in enumerate(tasks):
        hello, *others = [m for sender, m in messages if sender == number]
        assert (hello["kind"], hello["clock"]) == ("hello", clock_name())
        assert others == [
            {"kind": "progress", "second": number},
            {"kind": "producer_finished"},
        ]
        task.close()


def test_a_broadcast_reaches_those_there_and_those_to_come(driver: DriverChannel) -> None:
    early = connect(driver, 0)
    driver.broadcast({"kind": "stop"})
    late = connect(driver, 1)
    assert early.stop.wait(DEADLINE_S)
    assert late.stop.wait(DEADLINE_S)
    assert not early.producers_finished.is_set()
    driver.broadcast({"kind": "producers_finished"})
    assert early.producers_finished.wait(DEADLINE_S)
    early.close()
    late.close()


def test_strangers_are_shown_out_and_disturb_nobody(driver: DriverChannel) -> None:
    task = connect(driver, 0)
    with closing(connect(driver, 1, "not the token")) as unwanted, pytest.raises(ConnectionError):
        unwanted.receive("role", DEADLINE_S)
    for line in STRANGE_LINES:
        with socket.create_connection(driver.address) as stranger:
            stranger.settimeout(DEADLINE_S)
            with suppress(ConnectionError):
                stranger.sendall(line)
                assert stranger.recv(1) == b""
    task.send({"kind": "producer_finished"})
    assert [(sender, message["kind"]) for sender, message in receive(driver, 2)] == [
        (0, "hello"),
        (0, "producer_finished"),
    ]
    task.close()


def hello_of(driver: DriverChannel, task: str) -> bytes:
    return f'{{"token": "{driver.token}", "kind": "hello", "task": {task}}}\n'.encode()


def test_a_known_task_may_not_send_anything(driver: DriverChannel) -> None:
    for rest in (b'{"kind": 7}\n', b"[]\n", b"{}\n"):
        with socket.create_connection(driver.address) as client:
            client.settimeout(DEADLINE_S)
            client.sendall(hello_of(driver, "3") + rest)
            assert client.recv(1) == b""
    with socket.create_connection(driver.address) as client:
        client.settimeout(DEADLINE_S)
        client.sendall(hello_of(driver, "Infinity"))
        assert client.recv(1) == b""


def test_who_sends_no_token_in_time_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.spark_loadgen.channel.HELLO_MS", 100)
    with DriverChannel("127.0.0.1", "127.0.0.1") as driver:
        task = connect(driver, 0)
        for sent in (b"", b'{"token"'):
            with socket.create_connection(driver.address) as stranger:
                stranger.settimeout(DEADLINE_S)
                stranger.sendall(sent)
                assert stranger.recv(1) == b""
        task.send({"kind": "producer_finished"})
        assert len(receive(driver, 2)) == 2
        task.close()


def test_losing_the_driver_is_no_error() -> None:
    with DriverChannel("127.0.0.1", "127.0.0.1") as driver:
        task = connect(driver, 0)
    wait_until(lambda: not task.connected, "the loss", DEADLINE_S)
    task.send({"kind": "progress"})
    task.close()
    assert "load-channel" not in {thread.name for thread in threading.enumerate()}


def test_the_clock_of_the_same_host_is_the_same(driver: DriverChannel) -> None:
    with closing(connect(driver, 0)) as task:
        reading = task.read_clock()
        assert abs(reading.offset_ns) <= reading.error_ns < SECOND_NS


def test_what_is_said_to_one_task_reaches_no_other(driver: DriverChannel) -> None:
    with closing(connect(driver, 0)) as first, closing(connect(driver, 1)) as second:
        receive(driver, 2)
        driver.send(1, {"kind": "role", "number": 7})
        assert second.receive("role", DEADLINE_S) == {"kind": "role", "number": 7}
        with pytest.raises(TimeoutError):
            first.receive("role", 0.05)
        driver.send(99, {"kind": "role", "number": 7})  # one that has gone


def test_the_driver_names_the_measured_phase(driver: DriverChannel) -> None:
    with closing(connect(driver, 0)) as task:
        assert (task.phases.measure_start_s, task.phases.end_s) == (10, 15)
        driver.broadcast({"kind": "measure", "second": 12})
        driver.broadcast({"kind": "measure", "second": 4})
        driver.broadcast({"kind": "consume"})
        assert task.consume.wait(DEADLINE_S)
        assert (task.phases.measure_start_s, task.phases.end_ns) == (4, 9 * SECOND_NS)
