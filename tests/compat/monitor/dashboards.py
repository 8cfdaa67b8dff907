"""Dashboards of Strimzi for Grafana: what they ask for, and which of it a monitor and a broker of ours answer.

The names are facts of Strimzi's repository, examples/metrics/grafana-dashboards at commit 8541da1 (August 2026). No
registry has the dashboards themselves. With STRIMZI_SOURCES, a checkout, their expressions are asked word by word.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.compat.monitor.scraping import Prometheus
from tests.waiting import wait_until

FOLDER: Final = Path("examples/metrics/grafana-dashboards")
LABELS: Final = {
    "namespace": "kafka",
    "strimzi_io_cluster": "watched",
    "strimzi_io_name": "watched-kafka",
    "kubernetes_pod_name": "watched-broker-0",
    "container": "kafka",
}
"""What Strimzi's Prometheus adds to every series."""
_VARIABLES: Final = {
    "kubernetes_namespace": "kafka",
    "strimzi_cluster_name": "watched",
    "kafka_broker": ".*",
    "kafka_topic": ".+",
    "kafka_partition": ".+",
    "topic": ".+",
    "consumergroup": ".+",
}


class Asked(NamedTuple):
    """A metric of a dashboard: the labels that it is filtered or grouped by, and the function of its range."""

    metric: str
    labels: tuple[str, ...] = ()
    function: str = ""

    @property
    def expression(self) -> str:
        filters = ",".join(f'{label}=~".+"' for label in (*self.labels, "namespace"))
        series = f"{self.metric}{{{filters}}}"
        inner = f"{self.function}({series}[1m])" if self.function else series
        return f"sum by ({','.join(self.labels)}) ({inner})"


EXPORTER: Final = "strimzi-kafka-exporter.json"
KAFKA: Final = "strimzi-kafka.json"
_TOPIC, _PARTITION = ("topic",), ("topic", "partition")
_READ = ("consumergroup", "topic", "partition")
OF_THE_EXPORTER: Final = (
    Asked("kafka_broker_info", ("address",)),
    Asked("kafka_topic_partitions", _TOPIC),
    Asked("kafka_topic_partition_replicas", _TOPIC),
    Asked("kafka_topic_partition_in_sync_replica", _TOPIC),
    Asked("kafka_topic_partition_under_replicated_partition", _TOPIC),
    Asked("kafka_topic_partition_leader_is_preferred", _TOPIC),
    Asked("kafka_cluster_partition_atminisr", _TOPIC),
    Asked("kafka_cluster_partition_underminisr", _TOPIC),
    Asked("kafka_topic_partition_current_offset", _PARTITION),
    Asked("kafka_topic_partition_current_offset", _TOPIC, "rate"),
    Asked("kafka_topic_partition_oldest_offset", _PARTITION),
    Asked("kafka_consumergroup_current_offset", _READ),
    Asked("kafka_consumergroup_current_offset", _READ, "delta"),
    Asked("kafka_consumergroup_lag", _READ),
)
"""The dashboard over kafka_exporter: all of it is promised, and the monitor answers it."""

_LOAD = "kafka_server_brokertopicmetrics_"
OF_BROKERS: Final = (
    Asked("kafka_server_replicamanager_leadercount"),
    Asked("kafka_server_replicamanager_partitioncount"),
    Asked("kafka_server_replicamanager_underreplicatedpartitions"),
    Asked("kafka_controller_kafkacontroller_activecontrollercount"),
    Asked(f"{_LOAD}bytesin_total", _TOPIC, "irate"),
    Asked(f"{_LOAD}messagesin_total", _TOPIC, "irate"),
    Asked(f"{_LOAD}totalproducerequests_total", _TOPIC, "irate"),
    Asked(f"{_LOAD}totalfetchrequests_total", _TOPIC, "irate"),
    Asked("kafka_log_log_size", _PARTITION),
    Asked("process_open_fds"),
)
"""Of the dashboard over brokers: what one broker without ZooKeeper answers."""

NOT_OURS: Final = {
    "container_": "of Kubernetes' cAdvisor",
    "kubelet_": "of Kubernetes' kubelet",
    "jvm_": "of a JVM, which our broker has not",
    "kafka_server_kafkaserver_linux_disk_": "a host's: its agent has bytes by device",
    "kafka_network_socketserver_networkprocessoravgidle_percent": "of network threads, which our broker has not",
    "kafka_server_kafkarequesthandlerpool_": "of handler threads; compare highwater_event_loop_lag_seconds",
    "kafka_server_socket_server_metrics_connection_count": "kafka_server_socketservermetrics_connection_count here",
    "kafka_cluster_partition_replicascount": "not exported; the monitor has kafka_topic_partition_replicas",
    "kafka_controller_controllerstats_uncleanleaderelections_total": "a controller of a cluster has it",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "a controller of a cluster has it",
    f"{_LOAD}failed": "a topic without a failed request has no series",
    f"{_LOAD}bytesout_total": "a topic that was not read has no series",
}
"""By the beginning of the name: what the dashboard over brokers asks for in vain, and why."""


def check_names(found: Prometheus, asked: tuple[Asked, ...]) -> None:
    """Each expression has a result."""
    _check(found, [one.expression for one in asked])


def check_word_by_word(found: Prometheus, dashboard: str) -> None:
    """Each expression of the checkout's dashboard has a result, unless one of its metrics is in NOT_OURS."""
    sources = Path(os.environ.get("STRIMZI_SOURCES", ""))
    if not (sources / FOLDER / dashboard).is_file():
        raise ValueError(f"STRIMZI_SOURCES names no checkout of Strimzi with {FOLDER / dashboard}")
    expressions = list(expressions_of(json.loads((sources / FOLDER / dashboard).read_text("utf-8"))))
    assert expressions, f"{dashboard} asks for nothing"
    ours = [one for one in expressions if not any(name in one for name in NOT_OURS)]
    assert ours, f"{dashboard} asks for nothing of ours"
    _check(found, ours)


def _check(found: Prometheus, expressions: list[str]) -> None:
    missing: list[str] = []

    def all_resolve() -> bool:
        missing[:] = [one for one in expressions if not found.query(one)]
        return not missing

    try:
        wait_until(all_resolve, "all expressions", 60)
    except TimeoutError:
        raise AssertionError(f"{len(missing)} of {len(expressions)} have no result: {'; '.join(missing)}") from None


def expressions_of(dashboard: Any) -> Iterator[str]:
    """Every `expr` of the panels, with the values of LABELS for its variables."""
    if isinstance(dashboard, dict):
        for key, value in dashboard.items():
            if key == "expr" and isinstance(value, str):
                yield re.sub(r"\$(\w+)", lambda match: _VARIABLES.get(match[1], ".*"), value)
            else:
                yield from expressions_of(value)
    elif isinstance(dashboard, list):
        for value in dashboard:
            yield from expressions_of(value)
