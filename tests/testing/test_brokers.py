"""Brokers that the template forks: their log and their address over restarts, and what is left of a dead template."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from highwater.testing.brokers import BrokerError, Brokers, KafkaBroker
from tests.processes import runs
from tests.reading import read_to_end
from tests.waiting import wait_until

WITHIN_S = 60.0


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Brokers() as started:
        yield started
    assert list(tmp_path.iterdir()) == []


def acknowledge(broker: KafkaBroker, topic: str, value: bytes) -> None:
    """Produce a record and wait for its acknowledgement."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WITHIN_S)
    assert errors == [None]


def values(broker: KafkaBroker, topic: str, count: int) -> list[bytes | None]:
    return [each.value for each in read_to_end(broker.bootstrap_servers, topic, at_least=count)]


def test_what_is_acknowledged_outlives_stops_and_kills(brokers: Brokers) -> None:
    broker = brokers.start({"num.partitions": 1, "auto.create.topics.enable": False})
    broker.create_topic("orders", config={"retention.ms": "-1"})
    address = broker.bootstrap_servers
    acknowledge(broker, "orders", b"1")
    broker.restart()
    acknowledge(broker, "orders", b"2")
    broker.kill()
    assert broker.process_id is None
    broker.restart()
    assert broker.bootstrap_servers == address
    assert values(broker, "orders", 2) == [b"1", b"2"]
    assert broker.log.count(f"ready: listening on {address}") == 3
    assert broker.log.count("stopped cleanly") == 1


def test_the_port_is_kept_while_the_broker_is_down(brokers: Brokers) -> None:
    broker = brokers.start()
    broker.stop()
    host, _, port = broker.bootstrap_servers.partition(":")
    with socket.socket() as other, pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
        other.bind((host, int(port)))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    broker.close()
    with socket.socket() as other:
        other.bind((host, int(port)))


def test_the_template_has_one_thread_and_ends_with_all_brokers(brokers: Brokers) -> None:
    brokers.start()
    (template,) = (each for each in psutil.Process().children() if "highwater.testing.template" in each.cmdline())
    assert template.num_threads() == 1
    begun = [template, *template.children(recursive=True)]
    assert len(begun) == 3  # it, its guard and the broker
    template.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(runs, begun)), "the guard and the broker end", WITHIN_S)
    assert not brokers.is_alive
    with pytest.raises(BrokerError, match="the process that starts brokers has ended"):
        brokers.start()


@pytest.mark.parametrize(
    ("properties", "processes", "reason"),
    [
        ({"num.partitons": 3}, None, "properties: num.partitons is not a property of a Kafka broker"),
        ({}, 0, "processes=0: a test can have 1 to 20"),
        ({"zookeeper.connect": "localhost:2181"}, 2, "is for a host alone"),
    ],
)
def test_a_mistake_is_one_line(
    brokers: Brokers, properties: dict[str, object], processes: int | None, reason: str
) -> None:
    with pytest.raises(BrokerError) as caught:
        brokers.start(properties, processes)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_processes_are_brokers_of_a_cluster_for_clients(brokers: Brokers) -> None:
    cluster = brokers.start(processes=2)
    cluster.create_topic("copied", partitions=2, replication_factor=2)
    acknowledge(cluster, "copied", b"1")
    address = cluster.bootstrap_servers
    cluster.restart()
    assert cluster.bootstrap_servers == address
    found = Producer({"bootstrap.servers": address}).list_topics("copied", WITHIN_S)
    assert sorted(found.brokers) == [0, 1]
    assert [len(each.replicas) for each in found.topics["copied"].partitions.values()] == [2, 2]


def test_a_script_of_faults_counts_again_after_a_restart(brokers: Brokers) -> None:
    rule = {"when": {"api": "Produce"}, "then": {"kind": "drop_after"}, "times": 1}
    broker = brokers.start(faults={"rules": [rule]})
    for _ in range(2):
        acknowledge(broker, "orders", b"1")
        assert [hit["api"] for hit in broker.faults.history()] == ["Produce"]
        broker.restart()
    with pytest.raises(BrokerError, match="start it with faults=True"):
        _ = brokers.start().faults
    with pytest.raises(BrokerError, match=r"faults: .*Produse"):
        brokers.start(faults={"rules": [{**rule, "when": {"api": "Produse"}}]})
    with pytest.raises(BrokerError, match="faults are for a broker of one process"):
        brokers.start(faults=True, processes=2)
