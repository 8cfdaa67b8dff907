"""Apache Kafka as a system under test of `bench`: started, told of, refused with one line, stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from highwater.bench.systems import System, start_system
from highwater.bench.systems.broker_client import BrokerClient
from highwater.bench.workload.system import ApacheKafkaUnderTest
from highwater.common.errors import UsageError
from tests.compat.apache_kafka.cluster_cases import cluster_case


def start_kafka(directory: Path, version: str, nodes: int, config: Mapping[str, str]) -> System:
    """As a run of `bench` starts it. The caller stops it by leaving its with statement."""
    wanted = ApacheKafkaUnderTest.model_validate({"version": version, "nodes": nodes, "config": dict(config)})
    for name in ("one", "other", "log"):
        (directory / name).mkdir(parents=True)
    return start_system(wanted, [directory / "one", directory / "other"], directory / "log", lambda: None)


def _serves_and_goes(directory: Path, version: str, nodes: int, attendants: int) -> None:
    with start_kafka(directory, version, nodes, {"num.io.threads": "3"}) as system:
        assert system.version.startswith(f"{version}."), system.version
        processes, attending = system.process_ids, system.attendant_process_ids
        assert (len(processes), len(attending)) == (nodes, attendants)
        client = BrokerClient(system.bootstrap_servers)
        client.create_topic("t", 6, {"retention.ms": 60000}, replication=nodes)
        producer = Producer({"bootstrap.servers": system.bootstrap_servers, "acks": "all", "log_level": 0})
        for number in range(100):
            producer.produce("t", b"value", partition=number % 6)
        assert producer.flush(60) == 0
        assert sum(client.records_by_partition("t", 6)) == 100
        assert client.effective_config()["num.io.threads"] == "3"
        assert client.effective_topic_config("t")["retention.ms"] == "60000"
        assert system.problem() is None
    assert not [process for process in (*processes, *attending) if psutil.pid_exists(process)]
    logs = {path.parent.parent.name for path in directory.rglob("t-?/*.log")}
    assert logs, "the topic lies below both directories"


@cluster_case
def kafka_3_9_is_a_system_under_test(directory: Path) -> None:
    _serves_and_goes(directory, "3.9", nodes=1, attendants=1)


@cluster_case
def kafka_4_is_a_system_under_test(directory: Path) -> None:
    _serves_and_goes(directory, "4", nodes=1, attendants=0)


@cluster_case
def clusters_of_kafka_are_systems_under_test(directory: Path) -> None:
    _serves_and_goes(directory / "3.9", "3.9", nodes=3, attendants=1)
    _serves_and_goes(directory / "4", "4", nodes=3, attendants=0)


@cluster_case
def what_kafka_is_not_to_be_told_is_one_line(directory: Path) -> None:
    for version in ("3.9", "4"):
        for name, value, expected in (
            ("log.retention.hours", "abc", "Invalid value abc for configuration log.retention.hours"),
            ("log.retention.ours", "3", "system.config.log.retention.ours: apache-kafka "),
        ):
            with pytest.raises(UsageError) as refused:
                start_kafka(directory / version / name, version, 1, {name: value})
            assert expected in str(refused.value), refused.value
            assert "\n" not in str(refused.value)
