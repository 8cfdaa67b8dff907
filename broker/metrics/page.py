"""The page of all metrics of one broker, in pieces that each take little time.

The names are those that the JMX exporter's example rules give to Kafka's MBeans, in lower case, so that dashboards for
Kafka work; docs/metrics.md has the mapping. Metrics without an MBean in Kafka begin with `highwater_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from highwater.broker.counters import BrokerCounters, Histogram, RequestCounters, TopicCounters
from highwater.broker.metrics.exposition import NO_LABELS, family, family_samples, histogram_family
from highwater.broker.metrics.group_page import group_page
from highwater.broker.node import Node
from highwater.broker.replica.partition import Partition
from highwater.common.prometheus_text import Labels

LINES_PER_PIECE: Final = 1000

_TOPIC_COUNTERS: Final = (
    ("messagesin", "messages_in", "Records appended."),
    ("bytesin", "bytes_in", "Bytes of record batches appended."),
    ("bytesout", "bytes_out", "Bytes of record batches returned to consumers."),
    ("totalproducerequests", "produces", "Produce requests, counted once per partition."),
    ("totalfetchrequests", "fetches", "Fetch requests, counted once per partition."),
    ("failedproducerequests", "failed_produces", "Failed produce requests, counted once per partition."),
    ("failedfetchrequests", "failed_fetches", "Failed fetch requests, counted once per partition."),
)
_REQUEST_TIMES: Final[tuple[tuple[str, Callable[[RequestCounters], Histogram], str], ...]] = (
    (
        "requestqueuetimems",
        lambda requests: requests.queue,
        "Time from the arrival of a request to the start of its work, in ms.",
    ),
    ("localtimems", lambda requests: requests.local, "Time of the broker's own work on a request, in ms."),
    (
        "totaltimems",
        lambda requests: requests.total,
        "Time from the arrival of a request to its complete response, in ms.",
    ),
)
_LOG_GAUGES: Final[tuple[tuple[str, Callable[[Partition], int], str], ...]] = (
    ("kafka_log_log_size", lambda partition: partition.log.size_bytes, "Size of the partition's log in bytes."),
    ("kafka_log_log_logstartoffset", lambda partition: partition.log.log_start_offset, "First offset of the log."),
    ("kafka_log_log_logendoffset", lambda partition: partition.log.log_end_offset, "Offset of the next record."),
    (
        "kafka_log_log_numlogsegments",
        lambda partition: len(partition.log.segment_base_offsets),
        "Number of segments of the partition's log.",
    ),
    (
        "kafka_cluster_partition_laststableoffsetlag",
        lambda partition: partition.high_watermark - partition.last_stable_offset,
        "Offsets between the last stable offset and the high watermark.",
    ),
    (
        "highwater_partition_high_watermark",
        lambda partition: partition.high_watermark,
        "High watermark: consumers can read the records below this offset.",
    ),
)


def page(node: Node) -> Iterator[str]:
    counters = node.counters
    yield from _topics(counters)
    yield from _requests(counters)
    yield from _broker(node)
    yield from group_page(node.groups)
    if node.member is not None:
        from highwater.broker.metrics.cluster_page import (
            cluster_page,  # imported here, as a broker that runs alone does not need it
        )

        yield from cluster_page(node, node.member)
    partitions = list(node.partitions.live())
    for name, value_of, help_text in _LOG_GAUGES:
        samples = (
            ({"topic": partition.topic, "partition": partition.index}, value_of(partition))
            for partition in partitions
            if not partition.has_ended
        )
        yield from _in_pieces(name, "gauge", help_text, samples)


def _topics(counters: BrokerCounters) -> Iterator[str]:
    topics: list[tuple[Labels, TopicCounters]] = [({"topic": name}, topic) for name, topic in counters.topics.items()]
    everything = counters.all_topics()
    for name, attribute, help_text in _TOPIC_COUNTERS:
        samples = ((labels, getattr(topic, attribute)) for labels, topic in [(NO_LABELS, everything), *topics])
        yield from _in_pieces(f"kafka_server_brokertopicmetrics_{name}_total", "counter", help_text, samples)


def _requests(counters: BrokerCounters) -> Iterator[str]:
    used = [requests for requests in counters.requests.values() if any(requests.requests_by_version)]
    yield family(
        "kafka_network_requestmetrics_requests_total",
        "counter",
        "Requests, answered or in progress.",
        (
            ({"request": requests.name, "version": version}, count)
            for requests in used
            for version, count in enumerate(requests.requests_by_version)
            if count
        ),
    )
    yield family(
        "kafka_network_requestmetrics_errors_total",
        "counter",
        "Error codes in responses, without NONE.",
        (
            ({"request": requests.name, "error": error_code.name.upper()}, count)
            for requests in used
            for error_code, count in requests.errors.items()
        ),
    )
    for name, histogram_of, help_text in _REQUEST_TIMES:
        yield histogram_family(
            f"kafka_network_requestmetrics_{name}",
            help_text,
            (({"request": requests.name}, histogram_of(requests)) for requests in used),
        )


def _broker(node: Node) -> Iterator[str]:
    counters = node.counters
    partitions = list(node.partitions.live())
    parked = {waiter for partition in partitions for waiter in partition.fetch_waiters}
    led = [partition for partition in partitions if partition.is_leader]
    behind = sum(len(partition.in_sync_replicas) < len(partition.replicas) for partition in led)
    is_controller = node.administration.is_controller
    topics = node.cluster.topics() if is_controller else []
    producers = sum(len(partition.log.producer_states) for partition in partitions)
    now_ms, longest_ms = node.clock.now_ms(), node.config.integer("transaction.max.timeout.ms")
    late = sum(partition.log.producer_states.has_late_transaction(now_ms, longest_ms) for partition in partitions)
    gauges = (
        ("kafka_server_socketservermetrics_connection_count", counters.connections, "Open connections."),
        ("kafka_server_replicamanager_partitioncount", len(partitions), "Replicas on this broker."),
        ("kafka_server_replicamanager_leadercount", len(led), "Partitions that this broker leads."),
        (
            "kafka_server_replicamanager_underreplicatedpartitions",
            behind,
            "Partitions led by this broker with fewer in-sync replicas than replicas.",
        ),
        (
            "kafka_server_replicamanager_produceridcount",
            producers,
            "Producer ids with state in the partitions of this broker.",
        ),
        (
            "kafka_server_replicamanager_partitionswithlatetransactionscount",
            late,
            "Partitions with a transaction that is open for longer than transaction.max.timeout.ms.",
        ),
        (
            "kafka_controller_kafkacontroller_activecontrollercount",
            int(is_controller),
            "1 if this broker is the controller, else 0.",
        ),
        (
            "kafka_controller_kafkacontroller_globaltopiccount",
            len(topics),
            "Topics of the cluster; 0 if this broker is not the controller.",
        ),
        (
            "kafka_controller_kafkacontroller_globalpartitioncount",
            sum(len(topic.partitions) for topic in topics),
            "Partitions of the cluster; 0 if this broker is not the controller.",
        ),
    )
    totals = (
        ("connection_creation", counters.connections_made, "Connections accepted."),
        (
            "connection_refused",
            counters.connections_refused,
            "Connections refused because of max.connections or max.connections.per.ip.",
        ),
        ("successful_authentication", counters.authentications, "Successful SASL authentications."),
        ("failed_authentication", counters.authentications_failed, "Failed SASL authentications."),
    )
    yield "".join(family(name, "gauge", help_text, [(NO_LABELS, value)]) for name, value, help_text in gauges)
    yield family(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "gauge",
        "Fetch requests that wait for fetch.min.bytes.",
        [({"delayedoperation": "Fetch"}, len(parked))],
    )
    yield "".join(
        family(f"kafka_server_socketservermetrics_{name}_total", "counter", help_text, [(NO_LABELS, value)])
        for name, value, help_text in totals
    )
    yield family(
        "highwater_throttle_seconds_total",
        "counter",
        "Throttle time of clients that exceeded a quota.",
        [
            ({"request": "Produce"}, counters.produce_throttle_ms / 1000),
            ({"request": "Fetch"}, counters.fetch_throttle_ms / 1000),
            ({"request": "Request"}, counters.request_throttle_ms / 1000),
            ({"request": "ControllerMutation"}, counters.mutation_throttle_ms / 1000),
        ],
    )
    yield family(
        "highwater_authorizations_total",
        "counter",
        "Decisions of the authorizer on what clients asked for.",
        [
            ({"result": "allowed"}, counters.authorizations_asked - counters.authorizations_denied),
            ({"result": "denied"}, counters.authorizations_denied),
        ],
    )
    yield family(
        "highwater_fetches_from_disk_total",
        "counter",
        "Reads of fetches, counted once per partition, that were not in the page cache.",
        [(NO_LABELS, counters.fetches_from_disk)],
    )
    telemetry = node.telemetry
    yield family(
        "kafka_server_client_metrics_instances",
        "gauge",
        "Client instances whose telemetry this broker takes.",
        [(NO_LABELS, len(telemetry.instances))],
    )
    yield family(
        "highwater_client_telemetry_pushes_total",
        "counter",
        "Accepted pushes of telemetry of clients, by whether they are in the topic of client metrics.",
        [
            ({"result": "written"}, telemetry.publishing.written),
            ({"result": "lost"}, telemetry.publishing.lost),
        ],
    )
    yield histogram_family(
        "kafka_log_logflushstats_logflushrateandtimems",
        "Duration of flushes (fsync) of a partition's log, in ms.",
        [(NO_LABELS, counters.log_flush)],
    )
    yield histogram_family(
        "highwater_event_loop_lag_seconds",
        "Delay of the event loop at a timer, in seconds.",
        [(NO_LABELS, counters.event_loop_lag)],
        units_per_ms=0.001,
    )


def _in_pieces(name: str, kind: str, help_text: str, samples: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    """Yield the samples of a family in pieces, because it may have many samples."""
    samples = iter(samples)
    yield family(name, kind, help_text, islice(samples, LINES_PER_PIECE))
    while piece := list(islice(samples, LINES_PER_PIECE)):
        yield family_samples(name, piece)
