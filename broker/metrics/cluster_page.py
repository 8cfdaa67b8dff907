"""Metrics of a broker in a cluster: its replicas, the controller, the connection to ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.broker.controller.context import ControllerContext
from highwater.broker.controller.controller import Controller
from highwater.broker.counters import ZooKeeperCounters
from highwater.broker.member.parts import ClusterParts
from highwater.broker.member.replica_manager import ReplicaManager
from highwater.broker.metrics.exposition import NO_LABELS, family, histogram_family
from highwater.broker.node import Node

_REPLICA_MANAGER = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"


def cluster_page(node: Node, member: ClusterParts) -> Iterator[str]:
    """Yield the metrics that only a broker in a cluster has."""
    yield _replicas(node)
    yield _fetchers(member.replicas)
    yield _controller(member.controller)


def _gauges(prefix: str, gauges: tuple[tuple[str, float, str], ...]) -> str:
    return "".join(family(prefix + name, "gauge", help_text, [(NO_LABELS, value)]) for name, value, help_text in gauges)


def _counters(prefix: str, counters: tuple[tuple[str, float, str], ...]) -> str:
    return "".join(
        family(f"{prefix}{name}_total", "counter", help_text, [(NO_LABELS, value)])
        for name, value, help_text in counters
    )


def _replicas(node: Node) -> str:
    replicas = list(node.partitions.all())
    led = [partition for partition in replicas if partition.is_leader]
    counters = node.counters
    return (
        _gauges(
            _REPLICA_MANAGER,
            (
                (
                    "underminisrpartitioncount",
                    sum(len(partition.in_sync_replicas) < partition.min_in_sync_replicas for partition in led),
                    "Partitions led here with fewer replicas in sync than min.insync.replicas.",
                ),
                (
                    "atminisrpartitioncount",
                    sum(len(partition.in_sync_replicas) == partition.min_in_sync_replicas for partition in led),
                    "Partitions led here with just as many replicas in sync as min.insync.replicas.",
                ),
                (
                    "offlinereplicacount",
                    sum(partition.has_failed for partition in replicas),
                    "Replicas in log directories that failed.",
                ),
                (
                    "reassigningpartitions",
                    sum(bool(partition.adding or partition.removing) for partition in led),
                    "Partitions led here whose replicas are on the move.",
                ),
            ),
        )
        + _counters(
            _REPLICA_MANAGER,
            (
                ("isrshrinks", counters.in_sync_shrinks, "In-sync sets that lost replicas."),
                ("isrexpands", counters.in_sync_expands, "In-sync sets that gained replicas."),
                ("failedisrupdates", counters.in_sync_changes_refused, "Changes of in-sync sets that came to nothing."),
            ),
        )
        + _counters(
            "kafka_server_brokertopicmetrics_",
            (
                (
                    "replicationbytesin",
                    counters.replication_bytes_in,
                    "Bytes of record batches that followers here took in.",
                ),
                ("replicationbytesout", counters.replication_bytes_out, "Bytes of record batches given to followers."),
            ),
        )
    )


def _fetchers(replicas: ReplicaManager) -> str:
    lags = [lag for _, _, lag in replicas.fetch_lags()]
    failed = replicas.failed_fetch_count
    return _gauges(
        "kafka_server_replicafetchermanager_",
        (
            (
                "maxlag",
                max(lags, default=0),
                "The most records that a replica here lacks below its leader's high watermark.",
            ),
            ("failedpartitionscount", failed, "Replicas here that are not fetched any more, for an error."),
        ),
    )


def _controller(controller: Controller) -> str:
    told = controller.context or ControllerContext()
    return _gauges(
        _CONTROLLER,
        (
            ("activebrokercount", len(told.live_broker_ids()), "Brokers that the controller counts as living."),
            ("offlinepartitionscount", told.offline_partition_count(), "Partitions without a leader."),
            (
                "preferredreplicaimbalancecount",
                told.preferred_replica_imbalance_count(),
                "Partitions that another than the first of their replicas leads.",
            ),
            ("topicstodeletecount", len(told.topics_to_delete), "Topics whose deletion is not done."),
        ),
    ) + _counters(
        "kafka_controller_controllerstats_",
        (
            ("leaderelections", told.election_count, "Leaders that this controller has had elected in its term."),
            ("uncleanleaderelections", told.unclean_election_count, "Those of them that were not in sync."),
        ),
    )


def zookeeper_page(counters: ZooKeeperCounters) -> str:
    return (
        _gauges(
            "kafka_server_sessionexpirelistener_",
            (("sessionstate", int(counters.is_connected), "1 while the broker is connected to ZooKeeper."),),
        )
        + _counters(
            "kafka_server_sessionexpirelistener_",
            (
                ("zookeeperdisconnects", counters.disconnects, "Connections to ZooKeeper that broke."),
                ("zookeeperexpires", counters.expirations, "Sessions with ZooKeeper that expired."),
            ),
        )
        + histogram_family(
            "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
            "From a request to ZooKeeper to its answer, waiting for a connection included.",
            [(NO_LABELS, counters.latency)],
        )
    )
