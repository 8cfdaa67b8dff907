"""Stops of every kind: what was acknowledged is there at the next start, in order and unchanged."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.broker.running import RunningBroker, running_broker, start_broker
from tests.reading import read_to_end
from tests.waiting import wait_until

pytestmark = pytest.mark.clients

kafka_admin: Any = import_module("confluent_kafka.admin")
DEADLINE_S = 60.0
PARTITIONS = 3


def create_topic(broker: RunningBroker, name: str, **config: str) -> None:
    admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
    options = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin.create_topics([kafka_admin.NewTopic(name, PARTITIONS, 1, config=options)]).values():
        future.result(DEADLINE_S)


def read_all(broker: RunningBroker, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """(offset, value) of every record, by partition."""
    records: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for each in read_to_end(broker.address, topic, PARTITIONS):
        records[each.partition].append((each.offset, each.value))
    assert all(found[0][0] == 0 for found in records.values())
    return records


class Load:
    """Produces numbered records to every partition in a thread, and remembers which were acknowledged where."""

    def __init__(self, broker: RunningBroker, topic: str, **options: Any) -> None:
        settings = {key.replace("_", "."): value for key, value in options.items()}
        self._producer = Producer(
            {
                "log_level": 0,
                "bootstrap.servers": broker.address,
                "linger.ms": 1,
                "message.timeout.ms": 60_000,
            }
            | settings
        )
        self._topic = topic
        self._stop = threading.Event()
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            value = b"%d " % number + b"x" * (number % 300)
            try:
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._producer.poll(0.01)
            if number % 50 == 0:
                self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()][message.offset()] = message.value()

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.count >= count, f"{count} records of the load", DEADLINE_S)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(DEADLINE_S)


def check(acknowledged: dict[int, dict[int, bytes]], records: dict[int, list[tuple[int, bytes]]]) -> None:
    for partition, expected in acknowledged.items():
        found = dict(records[partition])
        assert [offset for offset, _ in records[partition]] == list(range(len(found))), "offsets have gaps"
        lost = {offset: value for offset, value in expected.items() if found.get(offset) != value}
        assert not lost, f"{len(lost)} of {len(expected)} acknowledged records are lost or changed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acks", "properties"),
    [("1", []), ("all", ["log.flush.interval.messages=1"]), ("all", ["log.segment.bytes=20000"])],
    ids=["page-cache", "flushed", "small-segments"],
)
def test_kill_under_load_loses_nothing_acknowledged(tmp_path: Path, acks: str, properties: list[str]) -> None:
    log_dir = tmp_path / "log"
    acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
    for round_number in range(3):
        with running_broker(log_dir, properties=properties) as broker:
            if round_number == 0:
                create_topic(broker, "t")
            else:
                check(acknowledged, read_all(broker, "t"))
            load = Load(broker, "t", acks=acks, enable_idempotence=acks == "all")
            try:
                load.wait_for(2000)
                broker.kill()
            finally:
                load.stop()
            for partition, records in load.acknowledged.items():
                acknowledged[partition] |= records
    with running_broker(log_dir) as broker:
        check(acknowledged, read_all(broker, "t"))
        assert broker.stop() == 0


def test_a_clean_stop_under_load_answers_keeps_everything_and_starts_without_recovery(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    with running_broker(log_dir) as broker:
        create_topic(broker, "t", max_message_bytes="500000")
        load = Load(broker, "t", acks="1")
        try:
            load.wait_for(1000)
            assert broker.stop() == 0
        finally:
            load.stop()
        cluster_id = broker.cluster_id
    assert (log_dir / ".kafka_cleanshutdown").exists()
    with running_broker(log_dir) as broker:
        assert broker.cluster_id == cluster_id
        check(load.acknowledged, read_all(broker, "t"))
        admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
        (described,) = admin.describe_configs(
            [kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, "t")]
        ).values()
        assert described.result(DEADLINE_S)["max.message.bytes"].value == "500000"
        assert broker.stop() == 0
    assert "recover" not in broker.log_text()


def test_a_deleted_topic_stays_deleted_and_its_files_go(tmp_path: Path) -> None:
    log_dir = tmp_path / "log"
    with running_broker(log_dir) as broker:
        create_topic(broker, "gone")
        create_topic(broker, "kept")
        admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
        for future in admin.delete_topics(["gone"]).values():
            future.result(DEADLINE_S)
        wait_until(lambda: not [*log_dir.glob("gone*")], "the end of the deleted topic's files", DEADLINE_S)
        broker.kill()
    with running_broker(log_dir) as broker:
        admin = kafka_admin.AdminClient({"log_level": 0, "bootstrap.servers": broker.address})
        assert list(admin.list_topics(timeout=DEADLINE_S).topics) == ["kept"]


def send_until_stuck(client: socket.socket) -> None:
    """Ask for the versions of the APIs again and again, until the broker reads no more because nobody takes answers."""
    request = b"\x00\x00\x00\x0a" + b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
    client.setblocking(False)
    rest = b""
    stuck_since = time.monotonic()
    while time.monotonic() - stuck_since < 2:  # a broker that is starved for a moment is not stuck
        rest = rest or request * 100
        try:
            rest = rest[client.send(rest) :]
            stuck_since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "log")
    try:
        # A client that never reads its answers keeps the first stop waiting.
        with socket.create_connection(("127.0.0.1", broker.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            send_until_stuck(client)
            broker.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "stopping" in broker.log_text(), "the line of the log", DEADLINE_S)

            def has_ended() -> bool:
                broker.process.send_signal(signal.SIGINT)
                return broker.process.poll() is not None

            wait_until(has_ended, "its end", DEADLINE_S)
            assert broker.process.returncode == 1
    finally:
        broker.kill()
    assert not (tmp_path / "log" / ".kafka_cleanshutdown").exists()


def test_a_signal_that_comes_twice_is_one(tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "log")
    try:
        broker.process.send_signal(signal.SIGTERM)
        broker.process.send_signal(signal.SIGINT)
        assert broker.process.wait(DEADLINE_S) == 0
    finally:
        broker.kill()
    assert (tmp_path / "log" / ".kafka_cleanshutdown").exists()
