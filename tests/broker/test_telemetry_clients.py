"""Real clients push their metrics to real brokers: alone, of several processes, in a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from kio.schema.errors import ErrorCode
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.request import Request, cold_request
from highwater.kafka.client.settings import settings_of
from tests.broker.running import running_broker
from tests.broker.running_cluster import running_cluster
from tests.broker.running_processes import free_ports_in_a_row
from tests.broker.telemetry.payloads import LATENCY, headers_of
from tests.topics import is_led, told_by_each
from tests.waiting import wait_until

TOPIC = NewTopic("_highwater_client_metrics", 1)
DEADLINE_S = 60.0
INTERVAL_MS = 500


def subscribe(bootstrap: str, brokers: int = 1) -> None:
    """Returns when each broker knows: a client that one tells nothing asks it again after five minutes."""
    changes = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in changes.items()]
    resource = {"resource_type": 16, "resource_name": "all", "configs": configs}
    client = BlockingClient(settings_of({"bootstrap.servers": bootstrap}))
    altered = client.ask_any(asked("incremental_alter_configs", 1, resources=[resource], validate_only=False))
    assert altered.responses[0].error_code == ErrorCode.none
    wanted = asked("get_telemetry_subscriptions", 0, client_instance_id=uuid.UUID(int=0))

    def is_known() -> bool:
        addresses = [(str(each.host), int(each.port)) for each in told_by_each(bootstrap)[0].brokers]
        told_ms = [client.ask(address, wanted).push_interval.total_seconds() * 1000 for address in addresses]
        return told_ms == [INTERVAL_MS] * brokers

    wait_until(is_known, "each broker knows the subscription", DEADLINE_S)
    client.close()


def asked(api: str, version: int, **fields: Any) -> Request[Any]:
    return cold_request(api, version, version, fields, lambda answer: answer)


class Pushes:
    """What is in the topic, which has to be there: a consumer that finds none looks rarely for one."""

    def __init__(self, bootstrap: str) -> None:
        self.records: list[tuple[dict[str, str], MetricsData]] = []
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "client.id": "reader", "enable.metrics.push": False}
        )
        self._consumer.assign([TopicPartition(TOPIC.topic, 0, 0)])

    def read(self) -> None:
        for message in self._consumer.consume(100, timeout=0.2):
            if message.error() is None:
                self.records.append((headers_of(message), MetricsData.FromString(message.value())))

    def close(self) -> None:
        self._consumer.close()


def gauges(data: MetricsData) -> dict[str, float]:
    """The points of one push that are not about one broker."""
    return {
        metric.name: point.as_double or float(point.as_int)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.gauge.data_points
        if not point.attributes
    }


@contextmanager
def alone(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with running_broker(tmp_path / "log") as broker:
        yield broker.address, 1


@contextmanager
def of_processes(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with running_broker(tmp_path / "log", port=free_ports_in_a_row(4), processes=2) as broker:
        yield broker.address, 2


@contextmanager
def of_a_cluster(tmp_path: Path) -> Iterator[tuple[str, int]]:
    with running_cluster(tmp_path, 3) as cluster:
        yield cluster.bootstrap, 3


SYSTEMS = [
    alone,
    pytest.param(of_processes, marks=pytest.mark.slow),
    pytest.param(of_a_cluster, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.__name__)
def test_clients_of_librdkafka_push(tmp_path: Path, system: Any) -> None:
    with system(tmp_path) as (bootstrap, brokers):
        subscribe(bootstrap, brokers)
        names = {f"producer-{number}" for number in range(4)}
        clients = [Producer({"bootstrap.servers": bootstrap, "client.id": name}) for name in names]

        def produce() -> None:
            for client in clients:
                client.produce("t", b"value")
                client.poll(0.02)

        def is_begun() -> bool:
            produce()
            told = told_by_each(bootstrap)
            return all(any(is_led(topic, TOPIC) for topic in each.topics if topic.name == TOPIC.topic) for each in told)

        wait_until(is_begun, "the topic of what clients push", DEADLINE_S)
        pushes = Pushes(bootstrap)

        def all_have_pushed() -> bool:
            produce()
            pushes.read()
            return {headers["client_id"] for headers, data in pushes.records if LATENCY in gauges(data)} == names

        wait_until(all_have_pushed, "a push of each client", DEADLINE_S)
        headers = [each for each, _ in pushes.records]
        assert {each["client_software_name"] for each in headers} == {"confluent-kafka-python"}
        assert len({each["client_instance_id"] for each in headers}) == len(clients)
        for client in clients:
            assert client.flush(DEADLINE_S) == 0
        pushes.close()
