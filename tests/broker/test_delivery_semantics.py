"""What docs/delivery-semantics.md says: losses, repetitions and reordering happen when they are let."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
from confluent_kafka import Producer

from tests.broker.proxy import Lie, Link, LyingProxy
from tests.broker.running import RunningBroker, running_broker
from tests.broker.test_stopping import read_all
from tests.waiting import wait_until

pytestmark = pytest.mark.clients

kafka_admin: Any = import_module("confluent_kafka.admin")
PAGE = Path(__file__).parents[2] / "docs" / "delivery-semantics.md"
PRODUCE: Final = 0
DEADLINE_S: Final = 60.0
Hook = Callable[[int], bool]


class HeldOrCutOff(Lie):
    """Its hooks get the number of each Produce request, from 0 on, in the proxy's threads; they may wait."""

    def __init__(self) -> None:
        super().__init__()
        self.on_request: Hook = lambda number: True
        """False swallows the request and ends the connection."""
        self.on_answer: Hook = lambda number: True
        """False swallows the answer and ends the connection."""
        self.produced = 0
        self._lock = threading.Lock()
        self._numbers: dict[tuple[Link, bytes], int] = {}

    def request(self, link: Link, api: int, frame: bytes) -> None:
        if api == PRODUCE:
            with self._lock:
                number, self.produced = self.produced, self.produced + 1
            self._numbers[link, frame[4:8]] = number
            if not self.on_request(number):
                raise ConnectionAbortedError
        super().request(link, api, frame)

    def answer(self, link: Link, api: int, frame: bytes) -> None:
        number = self._numbers.pop((link, frame[:4]), None)
        if number is not None and not self.on_answer(number):
            raise ConnectionAbortedError
        super().answer(link, api, frame)


class Line:
    """A broker, and a client's line to it that can be disturbed."""

    def __init__(self, broker: RunningBroker, proxy: LyingProxy) -> None:
        self.produce = HeldOrCutOff()
        self.broker = broker
        proxy.lie = self.produce
        self._port = proxy.port
        self._admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": f"127.0.0.1:{proxy.broker_port}"})
        (future,) = self._admin.create_topics([kafka_admin.NewTopic("t", 3, 1)]).values()
        future.result(DEADLINE_S)

    def producer(self, **options: Any) -> Producer:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        return Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{self._port}",
                "linger.ms": 0,
                "batch.num.messages": 1,
                "retry.backoff.ms": 10,
                "reconnect.backoff.ms": 10,
                "log_level": 0,
                **settings,
            }
        )

    def values(self) -> list[str]:
        """What is in partition 0, read past the proxy's hooks."""
        return [value.decode() for _, value in read_all(self.broker, "t")[0]]

    def set_min_in_sync_replicas(self, count: int) -> None:
        resource = kafka_admin.ConfigResource(
            kafka_admin.ResourceType.TOPIC,
            "t",
            incremental_configs=[
                kafka_admin.ConfigEntry(
                    "min.insync.replicas", str(count), incremental_operation=kafka_admin.AlterConfigOpType.SET
                )
            ],
        )
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(DEADLINE_S)


@contextmanager
def disturbed_line(tmp_path: Path) -> Iterator[Line]:
    with (
        LyingProxy() as proxy,
        running_broker(
            tmp_path / "log", properties=[f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}"]
        ) as broker,
    ):
        (proxy.broker_port,) = {
            connection.laddr.port
            for connection in psutil.Process(broker.process.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        yield Line(broker, proxy)


def send(producer: Producer, *values: str) -> list[str | None]:
    """Send to partition 0 without waiting in between; for each value what went wrong, if anything."""
    told: dict[str, str | None] = {}

    def note(error: Any, message: Any) -> None:
        told[message.value().decode()] = None if error is None else error.name()

    for value in values:
        producer.produce("t", value, partition=0, on_delivery=note)
    assert producer.flush(DEADLINE_S) == 0
    return [told[value] for value in values]


def only_once(number: int) -> Callable[[int], bool]:
    """A hook that ends the connection at one request or answer."""
    return lambda found: found != number


@pytest.mark.slow
def test_at_most_once_loses_what_nobody_waited_for(tmp_path: Path) -> None:
    with disturbed_line(tmp_path) as line:
        producer = line.producer(acks="0", retries=0)
        line.produce.on_request = only_once(1)
        for value in ("a", "b"):
            assert send(producer, value) == [None], "the client takes it for sent"
        # What is sent before the client sees that its connection is gone is lost as well.
        wait_until(lambda: send(producer, "c") == [None] and "c" in line.values(), "a record", DEADLINE_S)
        assert line.values()[0] == "a"
        assert set(line.values()) == {"a", "c"}


def test_at_least_once_repeats_what_was_written_when_its_answer_was_lost(tmp_path: Path) -> None:
    with disturbed_line(tmp_path) as line:
        producer = line.producer(acks="all", enable_idempotence=False)
        line.produce.on_answer = only_once(1)
        for value in ("a", "b", "c"):
            assert send(producer, value) == [None]
        assert line.values() == ["a", "b", "b", "c"]


def test_exactly_once_with_idempotence_though_the_answer_was_lost(tmp_path: Path) -> None:
    with disturbed_line(tmp_path) as line:
        producer = line.producer(enable_idempotence=True)
        line.produce.on_answer = only_once(1)
        for value in ("a", "b", "c"):
            assert send(producer, value) == [None]
        assert line.values() == ["a", "b", "c"]
        assert line.produce.produced == 4, "b was sent twice"


class FirstOfTwoFails:
    """Produce request 1 meets too few in-sync replicas; 2 was sent before its failure was known, and meets enough."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._first_has_failed = threading.Event()
        self._second_was_sent = threading.Event()
        line.produce.on_request = self._request
        line.produce.on_answer = self._answer

    def _request(self, number: int) -> bool:
        if number == 1:
            self._line.set_min_in_sync_replicas(2)
        if number == 2:
            assert self._first_has_failed.wait(DEADLINE_S)
            self._line.set_min_in_sync_replicas(1)
            self._second_was_sent.set()
        return True

    def _answer(self, number: int) -> bool:
        if number == 1:
            self._first_has_failed.set()
            assert self._second_was_sent.wait(DEADLINE_S), "the client does not send on without an answer"
        return True


def test_a_retry_reorders_when_several_requests_are_in_flight(tmp_path: Path) -> None:
    with disturbed_line(tmp_path) as line:
        producer = line.producer(acks="all", enable_idempotence=False, max_in_flight=5)
        FirstOfTwoFails(line)
        assert send(producer, "a") == [None]
        assert send(producer, "b", "c") == [None, None]
        assert line.values() == ["a", "c", "b"]


def test_a_retry_does_not_reorder_what_an_idempotent_producer_sends(tmp_path: Path) -> None:
    with disturbed_line(tmp_path) as line:
        producer = line.producer(enable_idempotence=True, max_in_flight=5)
        FirstOfTwoFails(line)
        assert send(producer, "a") == [None]
        assert send(producer, "b", "c") == [None, None]
        assert line.values() == ["a", "b", "c"]
        assert line.produce.produced > 4, "c was refused as long as b was missing"


def test_the_examples_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    with running_broker(tmp_path / "log", properties=["group.initial.rebalance.delay.ms=0"]) as broker:
        names: dict[str, Any] = {"__name__": "page"}
        for block in blocks:
            code = block.replace("127.0.0.1:9092", broker.address).replace("results.db", str(tmp_path / "results.db"))
            exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page's own examples
        assert broker.stop() == 0
