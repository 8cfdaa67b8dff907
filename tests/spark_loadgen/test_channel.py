from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from spark_loadgen.channel import DriverChannel, TaskChannel

DEADLINE_S = 10


@pytest.fixture
def driver() -> Iterator[DriverChannel]:
    with DriverChannel("127.0.0.1", "127.0.0.1") as channel:
        yield channel


def receive(driver: DriverChannel, count: int) -> list[tuple[int, dict[str, Any]]]:
    messages: list[tuple[int, dict[str, Any]]] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(messages) < count and time.monotonic() < deadline:
        messages += driver.receive()
        time.sleep(0.01)
    return messages


def test_messages_arrive_in_order_with_their_task(driver: DriverChannel) -> None:
    tasks = [TaskChannel(driver.address, driver.token, number) for number in range(3)]
    for number, task in enumerate(tasks):
        task.send({"kind": "progress", "second": number})
        task.send({"kind": "producer_finished"})
    messages = receive(driver, 6)
    for number, task in enumerate(tasks):
        assert [m for sender, m in messages if sender == number] == [
            {"kind": "progress", "second": number},
            {"kind": "producer_finished"},
        ]
        task.close()


def test_a_broadcast_reaches_those_there_and_those_to_come(driver: DriverChannel) -> None:
    early = TaskChannel(driver.address, driver.token, 0)
    driver.broadcast({"kind": "stop"})
    late = TaskChannel(driver.address, driver.token, 1)
    assert early.stop.wait(DEADLINE_S)
    assert late.stop.wait(DEADLINE_S)
    assert not early.producers_finished.is_set()
    driver.broadcast({"kind": "producers_finished"})
    assert early.producers_finished.wait(DEADLINE_S)
    early.close()
    late.close()


def test_strangers_are_shown_out_and_disturb_nobody(driver: DriverChannel) -> None:
    task = TaskChannel(driver.address, driver.token, 0)
    with pytest.raises((OSError, ValueError)):
        TaskChannel(driver.address, "not the token", 1)
    with socket.create_connection(driver.address) as stranger:
        stranger.settimeout(DEADLINE_S)
        stranger.sendall(b'["no object"]\n')
        assert stranger.recv(1) == b""
    with socket.create_connection(driver.address) as stranger:
        stranger.settimeout(DEADLINE_S)
        stranger.sendall(b"\xff\x00 no json\n")
        assert stranger.recv(1) == b""
    task.send({"kind": "producer_finished"})
    assert receive(driver, 1) == [(0, {"kind": "producer_finished"})]
    task.close()


def test_losing_the_driver_is_no_error() -> None:
    with DriverChannel("127.0.0.1", "127.0.0.1") as driver:
        task = TaskChannel(driver.address, driver.token, 0)
    deadline = time.monotonic() + DEADLINE_S
    while task.connected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not task.connected
    task.send({"kind": "progress"})
    task.close()
    assert "load-channel" not in {thread.name for thread in threading.enumerate()}


def test_the_clock_of_the_same_host_is_the_same(driver: DriverChannel) -> None:
    task = TaskChannel(driver.address, driver.token, 0)
    assert abs(task.clock_offset_ns) < 1_000_000_000
    task.close()
