"""Real clients push their metrics to real brokers: alone, of several processes, in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from highwater.kafka.client.blocking import BlockingClient
from highwater.kafka.client.request import cold_request
from highwater.kafka.client.settings import settings_of
from tests.broker.running import running_broker
from tests.broker.running_cluster import running_cluster
from tests.broker.running_processes import free_ports_in_a_row
from tests.broker.telemetry.payloads import headers_of
from tests.waiting import wait_until

TOPIC = "_highwater_client_metrics"
DEADLINE_S = 60.0
INTERVAL_MS = 500


def subscribe(bootstrap: str) -> None:
    changes = {"metrics": "*", "interval.ms": str(INTERVAL_MS)}
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in changes.items()]
    resource = {"resource_type": 16, "resource_name": "all", "configs": configs}
    client = BlockingClient(settings_of({"bootstrap.servers": bootstrap}))
    answer = client.ask_any(
        cold_request(
            "incremental_alter_configs", 1, 1, {"resources": [resource], "validate_only": False}, lambda answer: answer
        )
    )
    assert answer.responses[0].error_code == ErrorCode.none
    client.close()


class Pushes:
    """What is in the topic, by client id."""

    def __init__(self, bootstrap: str) -> None:
        self.records: list[tuple[dict[str, str], MetricsData]] = []
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "client.id": "reader", "enable.metrics.push": False}
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def of(self, client_id: str) -> list[MetricsData]:
        for message in self._consumer.consume(100, timeout=0.2):
            if message.error() is None:
                self.records.append((headers_of(message), MetricsData.FromString(message.value())))
        return [data for headers, data in self.records if headers["client_id"] == client_id]

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
def alone(tmp_path: Path) -> Iterator[str]:
    with running_broker(tmp_path / "log") as broker:
        yield broker.address


@contextmanager
def of_processes(tmp_path: Path) -> Iterator[str]:
    with running_broker(tmp_path / "log", port=free_ports_in_a_row(4), processes=2) as broker:
        yield broker.address


@contextmanager
def of_a_cluster(tmp_path: Path) -> Iterator[str]:
    with running_cluster(tmp_path, 3) as cluster:
        yield cluster.bootstrap


SYSTEMS = [
    alone,
    pytest.param(of_processes, marks=pytest.mark.slow),
    pytest.param(of_a_cluster, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.__name__)
def test_clients_of_librdkafka_push(tmp_path: Path, system: Any) -> None:
    with system(tmp_path) as bootstrap:
        subscribe(bootstrap)
        clients = [Producer({"bootstrap.servers": bootstrap, "client.id": f"producer-{number}"}) for number in range(4)]
        pushes = Pushes(bootstrap)

        def all_have_pushed() -> bool:
            for client in clients:
                client.produce("t", b"value")
                client.poll(0.02)
            return all(
                "org.apache.kafka.producer.request.latency.avg" in gauges(data)
                for number in range(len(clients))
                for data in pushes.of(f"producer-{number}")[-1:] or [MetricsData()]
            )

        wait_until(all_have_pushed, "a push of each client", DEADLINE_S)
        headers = [each for each, _ in pushes.records]
        assert {each["client_software_name"] for each in headers} == {"confluent-kafka-python"}
        assert len({each["client_instance_id"] for each in headers}) == len(clients)
        for client in clients:
            assert client.flush(DEADLINE_S) == 0
        pushes.close()
