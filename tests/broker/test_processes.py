"""A broker of several real processes: one address, kills of a process and the parent, another N."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.broker.running import COMMAND, RunningBroker
from tests.broker.running_processes import children_of, free_ports_in_a_row, start
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
DEADLINE_S = 120.0
PARTITIONS = 6


@pytest.fixture
def port() -> int:
    return free_ports_in_a_row(5)


class Load:
    """Produces numbers and keeps those that were acknowledged."""

    def __init__(self, address: str) -> None:
        self.acknowledged: list[int] = []
        self._number = 0
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120_000}
        )

    def produce(self, count: int) -> None:
        for _ in range(count):
            number = self._number
            self._number += 1

            def told(error: object, _: object, number: int = number) -> None:
                if error is None:
                    self.acknowledged.append(number)

            self._producer.produce("numbers", str(number).encode(), partition=number % PARTITIONS, on_delivery=told)
            self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0


def consumed(address: str, count: int) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": os.urandom(4).hex(), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["numbers"])
    found: list[int] = []

    def is_all() -> bool:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                value = message.value()
                assert value is not None
                found.append(int(value))
        return len(set(found)) >= count

    try:
        wait_until(is_all, f"{count} records of the topic", DEADLINE_S)
    finally:
        consumer.close()
    return found


@pytest.fixture
def brokers() -> Iterator[list[RunningBroker]]:
    started: list[RunningBroker] = []
    yield started
    for broker in started:
        broker.kill()


def command(address: str, *arguments: str) -> str:
    done = subprocess.run([*COMMAND[:4], *arguments, "-b", address], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def status_of(address: str) -> dict[str, Any]:
    asked = [*COMMAND[:4], "cluster", "status", "--json", "-b", address]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_kills_lose_nothing_acknowledged_and_processes_come_and_go(
    tmp_path: Path, port: int, brokers: list[RunningBroker]
) -> None:
    home = tmp_path / "home"
    metrics_port = port + 4
    brokers.append(start(home, port, 2, f"metrics.listener=HTTP://127.0.0.1:{metrics_port}"))
    address = brokers[-1].address
    assert address == f"127.0.0.1:{port}"
    command(address, "topics", "--create", "--topic", "numbers", "--partitions", str(PARTITIONS))
    healthy = f"healthy: 1 host, 2 of 2 processes, {PARTITIONS} partitions in sync"
    wait_until(lambda: status_of(address)["answer"] == healthy, healthy, DEADLINE_S)
    assert [each["state"] for each in status_of(address)["host"]["processes"]] == ["up", "up"]
    assert set(status_of(address)["metrics"].values()) == {f"http://127.0.0.1:{metrics_port}/metrics"}

    # A process is killed under load: it is started again, and takes up what it had.
    load = Load(address)
    load.produce(2000)
    killed = children_of(brokers[-1])
    os.kill(killed[1], signal.SIGKILL)
    load.produce(2000)
    load.finish()
    wait_until(lambda: set(children_of(brokers[-1])) == {0, 1}, "both processes run", DEADLINE_S)
    assert children_of(brokers[-1])[0] == killed[0]

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=DEADLINE_S) as answer:
            return str(answer.read().decode())

    wait_until(lambda: 'highwater_process_up{process="1"} 1' in page(), "the process is ready again", DEADLINE_S)
    assert 'highwater_process_restarts_total{process="1"} 1' in page()
    assert page().count("# TYPE highwater_event_loop_lag_seconds ") == 1

    # The parent is killed: the processes go with it, and all comes back from the same directory.
    load.produce(2000)
    brokers[-1].kill()
    wait_until(lambda: all(not Path(f"/proc/{pid}").exists() for pid in killed.values()), "no process is left")
    brokers.append(start(home, port, 3))
    load.finish()
    assert len(load.acknowledged) == 6000
    assert set(consumed(address, 6000)) == set(range(6000))

    # More processes: what is there stays, until it is spread.
    assert set(children_of(brokers[-1])) == {0, 1, 2}
    command(address, "reassign", "--balance")
    described = json.loads(command(address, "topics", "--describe", "--topic", "numbers", "--json"))
    assert '"leader": 2' in json.dumps(described)
    assert brokers[-1].stop() == 0

    # Fewer: not while one that would go has replicas.
    refused = subprocess.run(
        [*COMMAND, "--log-dir", str(home), "--port", str(port), "--processes", "2"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "2 processes are too few" in refused.stderr.splitlines()[-1]
    assert "highwater broker reassign --balance --without-broker 2" in refused.stderr
    brokers.append(start(home, port, 3))
    command(address, "reassign", "--balance", "--without-broker", "2")
    assert brokers[-1].stop() == 0
    brokers.append(start(home, port, 2))
    assert set(consumed(address, 6000)) == set(range(6000))
    assert brokers[-1].stop() == 0


def test_a_process_that_cannot_bind_is_told_in_one_line_and_nothing_is_written(tmp_path: Path, port: int) -> None:
    with socket.create_server(("127.0.0.1", port + 2)):
        refused = subprocess.run(
            [*COMMAND, "--log-dir", str(tmp_path / "home"), "--port", str(port), "--processes", "2"],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1].startswith(f"error: port {port + 2} is taken")
    assert not (tmp_path / "home" / "process-0").exists()
